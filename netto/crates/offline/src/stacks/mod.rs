//! Sampled stacks of a series, or of two compared series, and their layout in a flame graph.

mod counted;
mod layout;

pub use counted::{About, Compared, Line, OTHER, Stacks, Which};
pub use layout::{Rect, layout};
