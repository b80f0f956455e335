//! Statistics of what netto publishes: figures, their errors, and the intervals that follow. Pure; knows
//! nothing of netto.
//!
//! * [`figure`]: a value with its sampling variance and its shared error; sums over strata.
//! * [`proportion`], [`quantile`]: what intervals are made of.
//! * [`shares`]: the division of a whole by samples, and the weights of these.
//! * [`crossed`], [`design_effect`]: the same of two sides, causes and payers, whose samples come in windows.
//! * [`clusters`]: shares of what is sampled in clusters. [`difference`]: that of two series.
//! * [`windowed_counts`], [`mean_length`]: what is measured in windows only.
//! * [`bias`]: the factor by which samples are wrong. [`two_clocks`]: samples of one that is in step with the
//!   work, corrected by few of another. [`slope`]: how much one quantity grows with another, beside a guess.
//!
//! How often intervals have the truth is tried in `tests/coverage`.

pub mod bias;
pub mod clusters;
pub mod crossed;
pub mod design_effect;
pub mod difference;
pub mod figure;
pub mod mean_length;
pub mod proportion;
pub mod quantile;
pub mod random;
pub mod shares;
pub mod slope;
pub mod two_clocks;
pub mod windowed_counts;

pub use bias::Correction;
pub use figure::Figure;
pub use proportion::Bounds;
