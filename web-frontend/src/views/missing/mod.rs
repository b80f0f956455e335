//! What this host does not measure, and why.

/// Reasons are there whatever is measured.
pub const NEEDS: Option<&str> = None;

pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
