//! From what the kernel's counters say to what was done in an interval. Pure.

pub mod follow;
pub mod protocols;
pub mod softnet;
pub mod stillness;
pub mod work;
