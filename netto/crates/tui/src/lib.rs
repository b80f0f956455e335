//! Output on a terminal: `netto top`, the views of features, and their sources of intervals.

pub mod feed;
pub mod top;
pub mod watch;
