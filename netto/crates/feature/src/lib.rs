//! What a feature is, those that run, and the order of a tick.

pub mod command;
pub mod demo;
pub mod instruments;
pub mod measurement;
pub mod options;
pub mod summary;

pub use netto_questions::values;
