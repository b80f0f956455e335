//! Evaluation of logs for people and programs: `netto report` and `netto diff`.

pub mod diff;
pub mod outcome;
pub mod output;
pub mod progress;
pub mod report;
pub mod span;
pub mod stacks;
pub mod standalone;
