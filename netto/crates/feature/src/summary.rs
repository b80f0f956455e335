//! A feature's part of the report on a log: it is given the intervals, and returns their summary.

use metrics_common::Snapshot;

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
