//! The headline: networking's share of the host, how it went lately, what leads.

pub mod spark;
pub mod trend;

#[cfg(target_arch = "wasm32")]
pub mod page;
