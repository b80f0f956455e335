//! A feature's part of the report on a log: it is given the intervals, and returns their summary.

use metrics_common::sections::{Columns, Section};
use metrics_common::{Sections, Snapshot};
use serde::Serialize;

/// Sums up the feature's section of intervals, in bounded memory.
pub trait Summarizer {
    /// Adds an interval, or the sum of several; one without the section adds nothing.
    fn add(&mut self, snapshot: &Snapshot);

    /// The summary, of the component with this slug and its parts; `None` if no interval has the
    /// section.
    fn finish(self: Box<Self>, component: Option<&str>) -> Option<Summary>;
}

/// The same content for people and for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Lines for a terminal.
    pub text: String,
    /// JSON, with indentation.
    pub json: String,
}

impl Summary {
    /// This text, and this value as JSON; `None` if it cannot be encoded.
    pub fn of(text: String, value: &impl Serialize) -> Option<Summary> {
        let json = serde_json::to_string_pretty(value).ok()?;
        Some(Summary { text, json })
    }
}

/// A section's sum, and for how long it was measured.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SectionSum<S> {
    /// Length of the intervals, nanoseconds.
    pub measured_ns: u64,
    /// The sum.
    #[serde(flatten)]
    pub section: S,
}

impl<S: Section> SectionSum<S> {
    /// Adds the section of a later interval.
    pub fn add(&mut self, section: &S, interval_ns: u64) {
        self.section.add(section, &Columns::folded());
        self.measured_ns = self.measured_ns.saturating_add(interval_ns);
    }
}

/// Sums up a section.
pub struct SectionSummarizer<S> {
    sum: SectionSum<S>,
    section: fn(&Sections) -> Option<&S>,
    counts_all: bool,
    finish: Finish<S>,
}

/// Words the sum, of the component with this slug, if there is something to say.
type Finish<S> = fn(&SectionSum<S>, Option<&str>) -> Option<Summary>;

impl<S: Section + Default + 'static> SectionSummarizer<S> {
    /// Without an interval; `counts_all`: those without the section are measured, too.
    pub fn start(
        section: fn(&Sections) -> Option<&S>,
        counts_all: bool,
        finish: Finish<S>,
    ) -> Box<dyn Summarizer> {
        let sum = SectionSum::default();
        Box::new(SectionSummarizer {
            sum,
            section,
            counts_all,
            finish,
        })
    }
}

impl<S: Section + Default> Summarizer for SectionSummarizer<S> {
    fn add(&mut self, snapshot: &Snapshot) {
        match (self.section)(&snapshot.sections) {
            Some(section) => self.sum.add(section, snapshot.interval_ns),
            None if self.counts_all => self.sum.add(&S::default(), snapshot.interval_ns),
            None => {}
        }
    }

    fn finish(self: Box<Self>, component: Option<&str>) -> Option<Summary> {
        (self.finish)(&self.sum, component)
    }
}
