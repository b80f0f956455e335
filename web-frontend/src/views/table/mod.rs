//! Components by CPU: every value of one interval.

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("cost");

pub mod choices;
pub mod csv;
pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
