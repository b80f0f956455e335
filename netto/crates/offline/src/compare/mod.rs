//! Comparison of two series of intervals, and conditions on the result.

mod bootstrap;
mod comparison;
mod gate;
mod side;
mod work;

pub use bootstrap::{BLOCKS, FEWEST_BLOCKS};
pub use comparison::{Change, Comparison, Difference, Incomparable, Level, compare};
pub use gate::{Condition, Judgement};
pub use side::{About, Side};
pub use work::{Price, Work};
