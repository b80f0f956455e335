//! From the kernel's counters to the work done in an interval. Pure.

pub mod follow;
pub mod protocols;
pub mod softnet;
pub mod stillness;
pub mod work;
