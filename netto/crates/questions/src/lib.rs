//! What users may ask of a span of time, over HTTP and on a terminal: which moments, CPUs, series
//! and how much; how an answer is written; and what a feature gives of itself to be asked.

pub mod api;
pub mod cpus;
pub mod figures;
pub mod history;
pub mod line;
pub mod selection;
pub mod times;
pub mod utc;
pub mod window;
pub mod words;
