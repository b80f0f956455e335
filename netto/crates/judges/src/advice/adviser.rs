//! Which rules hold now, and what they say. Pure.

use serde::Serialize;

use super::figures::Figures;
use super::rules::{Limit, RULES, Rule};
use crate::verdict::{InUnit, of_host};
use metrics_common::snapshot::Snapshot;

/// A rule that holds, in words.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Advice {
    /// Name of the rule: its heading in docs/ADVICE.md.
    pub rule: &'static str,
    /// What is wrong, for people.
    pub name: &'static str,
    /// What was measured, for people.
    pub evidence: String,
    /// The figures that the rule looks at.
    pub figures: Vec<LimitFigure>,
    /// What to try: commands, none of which netto runs.
    #[serde(rename = "try")]
    pub commands: Vec<String>,
    /// CPUs that could be gained at most; absent if no CPU time can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gain_cpus: Option<f64>,
    /// The same for people, in the reader's unit: `at most 2.0 % of this host`.
    #[serde(skip)]
    pub most: Option<String>,
    /// What that is, and from which figure.
    pub gain: String,
    /// Usual reasons and remedies.
    pub more: &'static str,
    /// Where the rule is explained.
    pub link: String,
}

/// A figure, and the limit from which on the rule holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitFigure {
    /// What it is.
    pub figure: &'static str,
    /// Its unit.
    #[cfg_attr(feature = "schema", schemars(extend("enum" = super::rules::Unit::ALL.map(super::rules::Unit::slug))))]
    pub unit: &'static str,
    /// Its value.
    pub value: f64,
    /// The limit from which on the rule holds.
    pub begins: f64,
}

impl Advice {
    fn of(rule: &'static Rule, figures: &Figures) -> Advice {
        let words = (rule.words)(figures);
        let gain_cpus = Some(words.gain_cpus.max(0.0)).filter(|_| words.gain_cpus.is_finite());
        let most = gain_cpus.map(|gain| format!("at most {}", figures.said(gain)));
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
            gain_cpus,
            most,
            gain: words.gain,
            more: super::advice(rule.about).unwrap_or_default(),
            link: format!("docs/ADVICE.md#{}", rule.slug),
        }
    }

    /// What could be gained, for people.
    pub fn gain_words(&self) -> String {
        match &self.most {
            Some(most) => format!("{most}: {}", self.gain),
            None => self.gain.clone(),
        }
    }
}

/// What some time gives reason for.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Judgement {
    /// One for each rule that holds, in the order of docs/ADVICE.md.
    pub advice: Vec<Advice>,
    /// Rules that cannot be judged, each with the figure that is not known.
    pub unjudged: Vec<Unjudged>,
}

/// A rule that may hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unjudged {
    /// Name of the rule: its heading in docs/ADVICE.md.
    pub rule: &'static str,
    /// The figure that is not known.
    pub figure: &'static str,
}

/// Which rules cannot be judged, in one line for people; `None` if all can.
pub fn unjudged_words(all: &[Unjudged]) -> Option<String> {
    let words = all.iter();
    let words: Vec<String> = words
        .map(|unjudged| format!("{} ({})", unjudged.rule, unjudged.figure))
        .collect();
    let words = words.join("; ");
    (!all.is_empty()).then(|| format!("not judged, for lack of a figure: {words}"))
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
        self.judge_in(sum, &of_host)
    }

    /// The same, with CPU time in the reader's unit.
    pub fn judge_in(&mut self, sum: &Snapshot, in_unit: InUnit) -> Judgement {
        let mut judgement = Judgement::default();
        self.find(
            Figures::in_unit(sum, in_unit),
            |rule, figures, unknown| match unknown {
                None => judgement.advice.push(Advice::of(rule, figures)),
                Some(limit) => judgement.unjudged.push(Unjudged {
                    rule: rule.slug,
                    figure: limit.figure,
                }),
            },
        );
        judgement
    }

    /// Finds which rules hold, and tells of each that does or, with the first figure that it lacks,
    /// cannot be judged.
    pub(super) fn find(
        &mut self,
        figures: Figures<'_>,
        mut tell: impl FnMut(&'static Rule, &Figures, Option<&'static Limit>),
    ) {
        if figures.sum().interval_ns == 0 {
            return;
        }
        for (rule, holds) in RULES.iter().zip(&mut self.rules) {
            let has_begun = *holds == Holds::Yes;
            let values = (rule.figures)(&figures);
            let limits = || values.iter().zip(rule.limits);
            let fails =
                limits().any(|(value, limit)| !value.is_nan() && !limit.is_met(*value, has_begun));
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
