//! From the clocks' readings and classified stacks to CPU time by component. Pure.

pub mod attribute;
pub mod delta;
pub mod idle;
pub mod missed;
pub mod samples;
pub mod section;
