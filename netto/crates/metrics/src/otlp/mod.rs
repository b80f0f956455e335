//! Pushes running totals to a receiver of OTLP (an OpenTelemetry collector, for example), over
//! HTTP with protobuf.
//!
//! The actor keeps totals and makes an export of them every so often; a thread of its own
//! (`sender`) is the only one that waits for the network. Between them stands a bounded queue
//! (`channel`). What is exported is said in `points`, where to in `target`.

pub mod target;

#[cfg(feature = "otlp")]
mod channel;
#[cfg(feature = "otlp")]
mod exporter;
#[cfg(feature = "otlp")]
mod points;
#[cfg(feature = "otlp")]
mod sender;

#[cfg(feature = "otlp")]
pub use exporter::OtlpLogger;

/// Whether this netto was built with it.
pub const IS_BUILT_IN: bool = cfg!(feature = "otlp");
