//! The line on the state of the measurement itself.

/// The state of the connection and the probes concerns every measurement.
pub const NEEDS: Option<&str> = None;

pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
