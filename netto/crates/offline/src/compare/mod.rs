//! Comparison of two series of intervals, and conditions on the result.

mod bootstrap;
mod comparison;
mod gate;
mod prices;
mod side;

pub use bootstrap::{BLOCKS, Difference, FEWEST_BLOCKS};
pub use comparison::{Change, Comparison, Incomparable, Level, compare};
pub use gate::{Condition, Judgement};
pub use prices::Price;
pub use side::{About, Side};
