//! Computes the work in an interval from the kernel's counters. Pure.

pub mod follow;
pub mod protocols;
pub mod softnet;
pub mod stillness;
pub mod work;
