//! What users may ask of a span of time: moments, spans, CPUs; and how times and figures are
//! written.

pub mod cpus;
pub mod figures;
pub mod times;
pub mod utc;
pub mod words;
