//! What the daemon wants its user to know before any figure is read.

/// The daemon says them, whatever it measures.
pub const NEEDS: Option<&str> = None;

pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
