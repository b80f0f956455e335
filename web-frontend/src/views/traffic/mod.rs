//! What work networking does, what a packet of it costs, and what was dropped.

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("traffic");

pub mod choices;
pub mod course;
pub mod model;
pub mod tables;

#[cfg(target_arch = "wasm32")]
pub mod page;
