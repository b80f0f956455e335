//! Computes CPU time by component from clock readings and classified stacks. Pure.

pub mod attribute;
pub mod delta;
pub mod idle;
pub mod missed;
pub mod samples;
pub mod section;
