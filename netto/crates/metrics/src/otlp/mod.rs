//! Pushes running totals to an OTLP receiver (such as an OpenTelemetry collector), over HTTP with
//! protobuf.
//!
//! The actor keeps totals and queues an export of them at intervals; only a thread of its own
//! (`sender`) waits for the network. A bounded queue (`channel`) connects them. `points` defines
//! the content of exports, `target` their destination.

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

/// Whether this build of netto includes it.
pub const IS_BUILT_IN: bool = cfg!(feature = "otlp");
