//! What netto itself costs: one figure, and its parts for those who ask.

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("own");

pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
