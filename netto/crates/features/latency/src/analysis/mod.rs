//! What follows from what is asked for and from what was counted. Pure.

pub mod clock;
pub mod growth;
pub mod plan;
