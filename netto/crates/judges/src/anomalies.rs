//! Anomalies: what left its own usual values, from when until when, by how much, and what moved with
//! it. Pure, and of bounded memory.
//!
//! * [`metrics`]: the one table of what is watched. A row is a few lines.
//! * [`health`]: values of disks, page cache, queues and pressure for it.
//! * [`baseline`]: what is usual for one metric.
//! * [`judge`]: when an anomaly begins and ends, from values.
//! * [`detector`]: the same from snapshots, by whoever reads them: a log has the anomalies that the
//!   daemon had.
//!
//! It names no section, and writes into none.

mod baseline;
mod detector;
#[doc(hidden)]
pub mod fixture;
mod health;
mod judge;
mod metrics;

pub use baseline::{BLOCK_NS, MOST_BLOCKS, WARM_BLOCKS};
pub use detector::{Described, Detector, LONGEST_INTERVAL_NS, STEP_NS};
pub use judge::{Anomaly, ENDS_NS, LONGEST_NS, MOST_KEPT, Moved, REOPENS_NS, Transition, WITH_NS};
pub use metrics::{Direction, METRICS, Metric, Role, Unit};

#[cfg(test)]
mod tests;
