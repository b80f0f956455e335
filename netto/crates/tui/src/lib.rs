//! What is shown on a terminal: `netto top`, views of features, and where both have their
//! intervals from.

pub mod feed;
pub mod top;
pub mod watch;
