//! Conditions under which a comparison fails, as in `network>+5%`. Pure.

use std::fmt;
use std::str::FromStr;

use metrics_common::component::index_of;

use super::comparison::Comparison;

/// The unit of a condition's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// Per cent of the first side's figure.
    Percent,
    /// Percentage points of the host.
    Points,
}

/// A component may not increase, or decrease, by more than this.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    component: String,
    is_above: bool,
    /// In percent or percentage points.
    limit: f64,
    unit: Unit,
}

/// The result of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// The condition is not met: success, with what has changed.
    Passed(String),
    /// It is met, with the reason.
    Failed(String),
    /// It is unknown whether it is met, with the reason.
    Unknown(String),
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "write a condition as network>+5% (of what it was), as \
                            rx_softirq>+0.5pp (percentage points of the host) or with < and -";
        let at = text.find(['<', '>']).ok_or(FORM)?;
        let (component, rest) = (text[..at].trim(), &text[at..]);
        if index_of(component).is_none() {
            return Err(format!(
                "there is no component {component:?}; `netto list` names all that there are"
            ));
        }
        let (is_above, rest) = match rest.strip_prefix('>') {
            Some(rest) => (true, rest.trim()),
            None => (false, rest[1..].trim()),
        };
        let (number, unit) = match (rest.strip_suffix("pp"), rest.strip_suffix('%')) {
            (Some(number), _) => (number, Unit::Points),
            (_, Some(number)) => (number, Unit::Percent),
            _ => return Err(FORM.to_owned()),
        };
        let limit: f64 = number.trim().parse().map_err(|_| FORM)?;
        if !limit.is_finite() {
            return Err(FORM.to_owned());
        }
        Ok(Condition {
            component: component.to_owned(),
            is_above,
            limit,
            unit,
        })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_above { '>' } else { '<' };
        let unit = match self.unit {
            Unit::Percent => "%",
            Unit::Points => "pp",
        };
        write!(f, "{}{sign}{:+}{unit}", self.component, self.limit)
    }
}

impl Condition {
    /// Whether a comparison meets it: the change exceeds the limit, and is significant.
    pub fn judge(&self, comparison: &Comparison) -> Judgement {
        let mut changes = comparison.changes.iter();
        let Some(change) = changes.find(|change| change.component == self.component) else {
            let mut others = comparison.incomparable.iter();
            let other = others.find(|other| other.component == self.component);
            let reason = other.map_or("the logs do not know it", |other| &other.unavailable);
            return Judgement::Unknown(format!("{self} cannot be judged: {reason}"));
        };
        let found = match self.unit {
            Unit::Points => change.share.value * 100.0,
            // A change from 0 to any other value is infinite.
            Unit::Percent => match change.relative_ratio {
                Some(ratio) => ratio * 100.0,
                None if change.b.share_ratio > 0.0 => f64::INFINITY,
                None => 0.0,
            },
        };
        let is_beyond = if self.is_above {
            found > self.limit
        } else {
            found < self.limit
        };
        let unit = match self.unit {
            Unit::Percent => " %",
            Unit::Points => " percentage points",
        };
        let (Some(is_real), Some((low, high))) = (change.is_real, change.share.interval) else {
            return Judgement::Unknown(format!(
                "{self} cannot be judged: too few intervals to tell a change from chance"
            ));
        };
        let what = format!(
            "{self}: {} changed by {found:+.2}{unit}, from {:.3} % to {:.3} % of the host \
             (by {:+.3} to {:+.3} percentage points, 95 %)",
            change.label,
            change.a.share_ratio * 100.0,
            change.b.share_ratio * 100.0,
            low * 100.0,
            high * 100.0,
        );
        match (is_beyond, is_real) {
            (true, true) => Judgement::Failed(what),
            (true, false) => Judgement::Passed(format!("{what}: may be chance")),
            (false, _) => Judgement::Passed(what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_written_as_it_is_read() {
        for text in [
            "network>+5%",
            "rx_softirq>+0.5pp",
            "network<-10%",
            "gro<+1pp",
        ] {
            let condition: Condition = text.parse().unwrap();
            assert_eq!(condition.to_string(), text);
        }
        let spaced: Condition = " network > 5 % ".parse().unwrap();
        assert_eq!(spaced.to_string(), "network>+5%");
    }

    #[test]
    fn what_is_no_condition_is_refused_with_what_would_be_one() {
        for text in [
            "",
            "network",
            "network>5",
            "network=5%",
            "network>%",
            "network>NaN%",
            "network>inf%",
            ">5%",
            "networking>5%",
            "network>>5%",
            "network>5pp%",
        ] {
            let error = text.parse::<Condition>().unwrap_err();
            assert!(
                error.contains("network>+5%") || error.contains("netto list"),
                "{text}: {error}"
            );
        }
    }
}
