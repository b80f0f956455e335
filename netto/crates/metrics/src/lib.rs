//! Metrics for other systems: what a metric is ([`catalogue`]), and its writers, for Prometheus,
//! which scrapes, and OTLP, which is pushed. Which metrics there are is said by the features.

mod about;
pub mod catalogue;
pub mod families;
mod histogram;
pub mod otlp;
pub mod prometheus;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod totals;

pub use totals::{State, Totals};
