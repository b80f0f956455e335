//! Which rules hold now, and what they say. Pure.

use serde::Serialize;

use super::figures::Figures;
use super::rules::{Limit, RULES, Rule};
use crate::snapshot::Snapshot;
use crate::steady::Steady;

/// Advice begins once so much time was measured, nanoseconds.
pub const LEAST_NS: u64 = 3_000_000_000;

/// A rule that holds, in words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// [`Rule::slug`].
    pub rule: &'static str,
    /// [`Rule::name`].
    pub name: &'static str,
    /// What was measured.
    pub evidence: String,
    /// The figures of its limits.
    pub figures: Vec<LimitFigure>,
    /// What to try: commands, none of which netto runs.
    #[serde(rename = "try")]
    pub commands: Vec<String>,
    /// CPUs that could be gained at most; absent if no CPU time can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain_cpus: Option<f64>,
    /// What that is, and from which figure.
    pub gain: String,
    /// Usual reasons and remedies.
    pub more: &'static str,
    /// Where the rule is explained.
    pub link: String,
}

/// A figure, and the limit from which on the rule holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LimitFigure {
    /// What it is.
    pub figure: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Its value.
    pub value: f64,
    /// The limit.
    pub begins: f64,
}

impl Advice {
    fn of(rule: &'static Rule, figures: &Figures) -> Advice {
        let words = (rule.words)(figures);
        let values = (rule.figures)(figures).into_iter().zip(rule.limits);
        let figures = values.map(|(value, limit)| LimitFigure {
            figure: limit.figure,
            unit: limit.unit.slug(),
            value,
            begins: limit.begins,
        });
        Advice {
            rule: rule.slug,
            name: rule.name,
            evidence: words.evidence,
            figures: figures.collect(),
            commands: words.commands,
            gain_cpus: Some(words.gain_cpus.max(0.0)).filter(|_| words.gain_cpus.is_finite()),
            gain: words.gain,
            more: super::advice(rule.about).unwrap_or_default(),
            link: format!("docs/ADVICE.md#{}", rule.slug),
        }
    }

    /// What could be gained, for people.
    pub fn gain_words(&self) -> String {
        match self.gain_cpus {
            Some(gain) => format!("at most {} CPUs: {}", crate::text::cpus(gain), self.gain),
            None => self.gain.clone(),
        }
    }
}

/// What some time gives reason for.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Judgement {
    /// One for each rule that holds, in the order of [`RULES`].
    pub advice: Vec<Advice>,
    /// Rules that cannot be judged, each with the figure that is not known.
    pub unjudged: Vec<Unjudged>,
}

/// A rule that may hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unjudged {
    /// [`Rule::slug`].
    pub rule: &'static str,
    /// The figure that is not known.
    pub figure: &'static str,
}

impl Judgement {
    /// Which rules cannot be judged, in one line for people; `None` if all can.
    pub fn unjudged_words(&self) -> Option<String> {
        let all = self.unjudged.iter();
        let all: Vec<String> = all
            .map(|own| format!("{} ({})", own.rule, own.figure))
            .collect();
        (!all.is_empty()).then(|| format!("not judged, for lack of a figure: {}", all.join("; ")))
    }
}

/// Whether a rule holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Holds {
    /// It does not.
    #[default]
    No,
    /// It does.
    Yes,
    /// What is known does not say.
    Unknown,
}

/// Remembers which rules hold.
#[derive(Debug, Clone, Default)]
pub struct Adviser {
    rules: [Holds; RULES.len()],
}

impl Adviser {
    /// What these intervals, added up, give reason for. A rule that has begun to hold is easier to
    /// keep than to reach.
    pub fn judge(&mut self, sum: &Snapshot) -> Judgement {
        let mut judgement = Judgement::default();
        self.find(sum, |rule, figures, unknown| match unknown {
            None => judgement.advice.push(Advice::of(rule, figures)),
            Some(limit) => judgement.unjudged.push(Unjudged {
                rule: rule.slug,
                figure: limit.figure,
            }),
        });
        judgement
    }

    /// Finds which rules hold, and tells of each that does or, with the first figure that it lacks,
    /// cannot be judged.
    fn find(
        &mut self,
        sum: &Snapshot,
        mut tell: impl FnMut(&'static Rule, &Figures, Option<&'static Limit>),
    ) {
        if sum.interval_ns == 0 {
            return;
        }
        let figures = Figures::of(sum);
        for (rule, holds) in RULES.iter().zip(&mut self.rules) {
            let has_begun = *holds == Holds::Yes;
            let values = (rule.figures)(&figures);
            let limits = || values.iter().zip(rule.limits);
            let fails =
                limits().any(|(value, own)| !value.is_nan() && !own.is_met(*value, has_begun));
            let unknown = limits().find(|(value, _)| value.is_nan());
            *holds = match (fails, unknown) {
                (true, _) => Holds::No,
                (false, None) => {
                    tell(rule, &figures, None);
                    Holds::Yes
                }
                (false, Some((_, limit))) => {
                    tell(rule, &figures, Some(limit));
                    Holds::Unknown
                }
            };
        }
    }

    /// Whether each rule of [`RULES`] holds.
    pub fn holds(&self) -> &[Holds] {
        &self.rules
    }
}

/// A rule is said once it has held for so long, nanoseconds.
const BEGINS_NS: u64 = 10_000_000_000;
/// It is said for so long after it held last.
const ENDS_NS: u64 = 300_000_000_000;

/// Which rules are said of a host that is judged again and again: loads change by the second, what
/// advice is about does not.
#[derive(Debug, Clone, Default)]
pub struct Lasting {
    rules: [Said; RULES.len()],
}

/// Times are of the clock of intervals.
#[derive(Debug, Clone, Copy, Default)]
struct Said {
    is_said: bool,
    /// Since when it holds.
    since_ns: Option<u64>,
    held_last_ns: u64,
}

impl Lasting {
    /// Takes the judgement of now: whether each rule of [`RULES`] holds.
    pub fn add(&mut self, now_ns: u64, holds: &[Holds]) {
        for (own, holds) in self.rules.iter_mut().zip(holds) {
            if *holds == Holds::Yes {
                let since_ns = *own.since_ns.get_or_insert(now_ns);
                own.held_last_ns = now_ns;
                own.is_said |= now_ns.abs_diff(since_ns) >= BEGINS_NS;
            } else {
                own.since_ns = None;
                own.is_said &= now_ns.abs_diff(own.held_last_ns) <= ENDS_NS;
            }
        }
    }

    /// Whether each rule of [`RULES`] is said.
    pub fn said(&self) -> impl Iterator<Item = bool> {
        self.rules.iter().map(|own| own.is_said)
    }
}

/// Which rules are said of a host that is being measured, by its last seconds. Kept for each interval,
/// and seldom read: it copies nothing, and words are left to whoever asks for advice.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    steady: Steady,
    adviser: Adviser,
    lasting: Lasting,
}

impl Watch {
    /// Adds the newest interval.
    pub fn push(&mut self, snapshot: &Snapshot) {
        self.steady.push(snapshot, |sum, later| {
            super::add_without_owners(sum, later);
            // Of owners, rules look at who takes from whom.
            if let Some(owners) = &later.sections.owners {
                sum.sections
                    .owners
                    .get_or_insert_default()
                    .add_pairs(owners);
            }
        });
    }

    /// Judges the last seconds, once there are enough.
    pub fn judge(&mut self) {
        let sum = self.steady.sum();
        if let Some(sum) = sum.filter(|sum| sum.interval_ns >= LEAST_NS) {
            self.adviser.find(sum, |_, _, _| ());
            self.lasting.add(sum.time_unix_ns, self.adviser.holds());
        }
    }

    #[cfg(test)]
    pub(super) fn sum(&self) -> Option<&Snapshot> {
        self.steady.sum()
    }

    #[cfg(test)]
    pub(super) fn holds(&self) -> &[Holds] {
        self.adviser.holds()
    }

    /// A copy that knows which rules are said, and no interval.
    pub fn without_past(&self) -> Watch {
        Watch {
            steady: Steady::default(),
            adviser: self.adviser.clone(),
            lasting: self.lasting.clone(),
        }
    }

    /// Whether each rule of [`RULES`] is said; unknown if it is not, and cannot be judged.
    pub fn said(&self) -> impl Iterator<Item = Holds> {
        let all = self.lasting.said().zip(self.adviser.holds());
        all.map(|(is_said, holds)| match (is_said, holds) {
            (true, _) => Holds::Yes,
            (false, Holds::Unknown) => Holds::Unknown,
            (false, _) => Holds::No,
        })
    }
}
