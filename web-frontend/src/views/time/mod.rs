//! Over time: events, and the parts of one, as areas on top of each other.

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("cost");

#[cfg(target_arch = "wasm32")]
pub mod page;
