//! Metrics for other systems: the declaration of a metric ([`catalogue`]), and the writers for
//! Prometheus (pull) and OTLP (push), and of profiles in pprof's format. Features declare their metrics.

mod about;
pub mod catalogue;
pub mod families;
mod histogram;
pub mod otlp;
pub mod per_cpu;
pub mod pprof;
pub mod prometheus;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod totals;

pub use totals::{State, Totals};
