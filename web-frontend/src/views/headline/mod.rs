//! The headline: networking's share of the host, how it went lately, what leads.

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("cost");

pub mod model;
pub mod spark;
pub mod trend;

#[cfg(target_arch = "wasm32")]
pub mod page;
