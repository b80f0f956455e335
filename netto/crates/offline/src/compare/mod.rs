//! Two series of intervals against each other, and whether a change is too large for a gate.

mod bootstrap;
mod comparison;
mod gate;
mod side;

pub use bootstrap::{BLOCKS, FEWEST_BLOCKS};
pub use comparison::{Change, Comparison, Difference, Incomparable, Level, compare};
pub use gate::{Condition, Judgement};
pub use side::{About, Side};
