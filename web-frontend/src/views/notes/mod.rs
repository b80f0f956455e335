//! What the daemon wants its user to know, and what it does not measure here.

/// The daemon says them, whatever it measures.
pub const NEEDS: Option<&str> = None;

pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
