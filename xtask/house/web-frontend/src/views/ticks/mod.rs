//! The ticks of the instrument that does nothing else.

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("ticks");

#[cfg(target_arch = "wasm32")]
pub mod page;
