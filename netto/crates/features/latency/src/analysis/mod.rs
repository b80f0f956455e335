//! Evaluates requests and counts. Pure.

pub mod clock;
pub mod growth;
pub mod plan;
