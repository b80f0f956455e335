//! From samples with whose they are to the time that each owner caused, and who paid; and what
//! names of owners are made of. Pure.

pub mod divide;
pub mod owner_table;
pub mod path;
pub mod pods;
pub mod pool;
pub mod process;
pub mod ranking;
pub mod recent;
pub mod verdict;
