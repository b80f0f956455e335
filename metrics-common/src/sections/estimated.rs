//! Counts that are estimated, because their probes were attached for a part of the time only.

use netto_estimate::{Bounds, Figure};
use serde::{Deserialize, Serialize, Serializer};

use crate::text::percent;

/// How counts were estimated, and how sure they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(with = "EstimatedView")
)]
pub struct Estimated {
    /// The time for which counts were estimated, nanoseconds.
    pub ns: u64,
    /// The part of it in which they were counted.
    pub counted_ns: u64,
    /// All that was counted, as it was estimated.
    pub events: u64,
    /// Its variance; `None` if it is unknown: before the first window, and in what an older netto has
    /// written, whose variances were of one pair of windows.
    pub variance: Option<Variance>,
}

/// The variance of counts, by how much windows differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variance {
    /// In events².
    pub events2: u64,
    /// Hundredths of degrees of freedom of what it rests on: that was known before, and that this time
    /// has added.
    pub freedom: [u64; 2],
    /// The time for which one event stood, by the time in which it was counted, thousandths.
    pub weight: u64,
}

impl Estimated {
    /// The 95 % interval of all that was counted; `None` if it is unknown.
    pub fn interval(&self) -> Option<Bounds> {
        let Variance {
            events2,
            freedom,
            weight,
        } = self.variance?;
        let freedom = freedom.iter().sum::<u64>() as f64 / 100.0;
        let variance = events2 as f64;
        let figure = Figure {
            value: self.events as f64,
            variance,
            square_by_freedom: variance * variance / freedom.max(1.0),
            ..Figure::default()
        };
        Some(figure.of_clusters(weight as f64 / 1e3))
    }

    /// Half of that interval relative to all that was counted; `None` without any.
    pub fn margin_ratio(&self) -> Option<f64> {
        let (low, high) = self.interval()?;
        (self.events > 0).then(|| (high - low) / 2.0 / self.events as f64)
    }

    /// One sentence for people.
    pub fn sentence(&self, what: &str) -> String {
        let share = percent(self.counted_ns as f64 / self.ns.max(1) as f64);
        let margin = match (self.events, self.margin_ratio(), self.interval()) {
            (_, Some(margin), _) => format!(", ± {:.0} % in all", margin * 100.0),
            (0, None, Some((_, most))) => format!(", at most {most:.0} in all"),
            _ => String::new(),
        };
        format!("{what} are estimated: they were counted for {share} of the time{margin}.")
    }

    /// Adds what a later interval says.
    pub(super) fn add(estimated: &mut Option<Self>, later: Option<&Self>) {
        let Some(later) = later else {
            return;
        };
        let is_first = estimated.is_none();
        let sum = estimated.get_or_insert_default();
        sum.ns = sum.ns.saturating_add(later.ns);
        sum.counted_ns = sum.counted_ns.saturating_add(later.counted_ns);
        sum.events = sum.events.saturating_add(later.events);
        let both = sum.variance.zip(later.variance);
        sum.variance = if is_first {
            later.variance
        } else {
            both.map(|(sum, more)| sum.and(more))
        };
    }

    pub(super) fn to_wire(estimated: Option<&Self>) -> Option<Wire> {
        estimated.map(|estimated| {
            let mut wire = vec![estimated.ns, estimated.counted_ns, estimated.events];
            if let Some(variance) = estimated.variance {
                let [before, added] = variance.freedom;
                wire.extend([variance.events2, before, added, variance.weight]);
            }
            wire
        })
    }
}

impl Variance {
    fn and(self, later: Variance) -> Variance {
        let [before, added] = self.freedom;
        Variance {
            events2: self.events2.saturating_add(later.events2),
            freedom: [before, added.saturating_add(later.freedom[1])],
            weight: self.weight.max(later.weight),
        }
    }
}

/// Its numbers: of an older netto four.
pub(super) type Wire = Vec<u64>;

impl From<Wire> for Estimated {
    fn from(wire: Wire) -> Self {
        let number = |place: usize| wire.get(place).copied().unwrap_or(0);
        Estimated {
            ns: number(0),
            counted_ns: number(1),
            events: number(2),
            variance: (wire.len() == 7).then(|| Variance {
                events2: number(3),
                freedom: [number(4), number(5)],
                weight: number(6),
            }),
        }
    }
}

/// As JSON has it.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct EstimatedView {
    /// The time for which they were estimated, nanoseconds.
    ns: u64,
    /// The part of it in which they were counted.
    counted_ns: u64,
    /// Half of the 95 % interval of all of them together, as a share of them; null where there are
    /// none.
    margin_ratio: Option<f64>,
}

impl Serialize for Estimated {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let view = EstimatedView {
            ns: self.ns,
            counted_ns: self.counted_ns,
            margin_ratio: self.margin_ratio(),
        };
        view.serialize(serializer)
    }
}

/// Counts that can be estimated from a part of the time.
pub trait Estimable: Clone + Default {
    /// Adds what came later on the same CPUs.
    fn join(&mut self, later: &Self, cpus: &[u32]);

    /// Multiplies each count.
    fn stretch(&mut self, factor: f64);

    /// Says how it was estimated.
    fn set_estimated(&mut self, estimated: Estimated);
}

/// A count times a factor.
pub(super) fn stretch(count: &mut u64, factor: f64) {
    *count = (*count as f64 * factor).round() as u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(events: u64, events2: u64) -> Estimated {
        Estimated {
            ns: 500,
            counted_ns: 10,
            events,
            variance: Some(Variance {
                events2,
                freedom: [10_000, 67],
                weight: 1_000,
            }),
        }
    }

    #[test]
    fn a_sum_is_surer_than_its_parts_and_says_what_was_counted() {
        let mut sum = None;
        Estimated::add(&mut sum, None);
        assert_eq!(sum, None);
        for _ in 0..4 {
            Estimated::add(&mut sum, Some(&of(100, 400)));
        }
        let sum = sum.unwrap();
        let margin = of(100, 400).margin_ratio().unwrap();
        assert!((margin - 0.40).abs() < 0.01, "{margin}");
        let of_sum = sum.margin_ratio().unwrap();
        assert!((of_sum - margin / 2.0).abs() < 0.01, "{of_sum}");
        assert_eq!(
            sum.sentence("Packets"),
            "Packets are estimated: they were counted for 2.0 % of the time, ± 20 % in all."
        );
    }

    #[test]
    fn windows_without_events_are_not_certain_and_before_the_first_nothing_is_known() {
        assert_eq!(of(0, 0).margin_ratio(), None);
        let (low, high) = of(0, 0).interval().unwrap();
        assert!(low == 0.0 && high > 3.0 && high < 6.0, "{high}");
        assert_eq!(
            of(0, 0).sentence("Packets"),
            "Packets are estimated: they were counted for 2.0 % of the time, at most 5 in all."
        );
        let unknown = Estimated {
            variance: None,
            ..of(7, 9)
        };
        assert_eq!(unknown.interval(), None);
        let mut sum = Some(of(7, 9));
        Estimated::add(&mut sum, Some(&unknown));
        assert_eq!(sum.unwrap().interval(), None);
    }

    #[test]
    fn what_an_older_netto_has_written_has_no_interval() {
        let read = Estimated::from(vec![500, 10, 7, 9]);
        assert_eq!((read.events, read.interval()), (7, None));
        let wire = Estimated::to_wire(Some(&of(7, 9))).unwrap();
        assert_eq!(Estimated::from(wire), of(7, 9));
    }
}
