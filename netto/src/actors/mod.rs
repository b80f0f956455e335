//! The actors between the measurement and the sinks: lifecycle and delivery only.
//!
//! Nothing here knows what a component means or how a sink writes it down.

pub mod metrics_collector;
pub mod recent;
pub mod shared;
pub mod supervisor;
pub mod trace_analyzer;
