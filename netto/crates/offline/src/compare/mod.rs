//! Comparison of two series of intervals, and conditions on the result.

mod comparison;
mod gate;
mod prices;
mod side;

pub use comparison::{Change, Comparison, Incomparable, Level, compare};
pub use gate::{Condition, Judgement};
pub use netto_estimate::difference::{BLOCKS, Difference, FEWEST_BLOCKS};
pub use prices::Price;
pub use side::{About, Side};
