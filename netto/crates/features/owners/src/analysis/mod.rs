//! From samples with owner tags to the time that each owner caused and paid, and the parsers of
//! owners' names. Pure.

pub mod divide;
pub mod fit;
pub mod flows;
pub mod owner_table;
pub mod path;
pub mod pods;
pub mod pool;
pub mod precision;
pub mod process;
pub mod ranking;
pub mod recent;
pub mod verdict;
