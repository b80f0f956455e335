//! Sampled stacks of a series, or of two against each other, and where they stand in a flame graph.

mod counted;
mod layout;

pub use counted::{About, Compared, Line, OTHER, Stacks, Which};
pub use layout::{Rect, layout};
