//! The actors between the measurement and the sinks: lifecycle and delivery only.
//!
//! Nothing here knows what a component means or how a sink encodes it.

pub mod attention;
pub mod clients;
pub mod compression;
pub mod metrics_collector;
pub mod options;
pub mod overview;
pub mod playback;
pub mod profile;
pub mod recent;
pub mod shared;
pub mod single_flight;
pub mod supervisor;
pub mod trace_analyzer;
mod wakeups;
