//! Queries of users about a time span, over HTTP and on a terminal: selection of times, CPUs,
//! series and limits; encoding of answers; and the interface of features that answer.

pub mod api;
pub mod cpus;
pub mod figures;
pub mod history;
pub mod line;
pub mod newest;
pub mod selection;
pub mod table;
pub mod terminal;
pub mod times;
pub mod utc;
pub mod values;
pub mod window;
pub mod words;
