//! What a feature adds to the report on a log: it is shown the intervals, and says in the end what
//! they come to.

use metrics_common::Snapshot;

/// Sums up the feature's section of intervals, in bounded memory.
pub trait Summarizer {
    /// Adds an interval, or the sum of several; one without the section adds nothing.
    fn add(&mut self, snapshot: &Snapshot);

    /// What they come to, of the component with this slug and its parts; `None` if no interval
    /// has the section.
    fn finish(self: Box<Self>, component: Option<&str>) -> Option<Summary>;
}

/// The same thing for people and for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Lines for a terminal.
    pub text: String,
    /// JSON, with indentation.
    pub json: String,
}
