//! The headline: networking's share of the host, its recent trend, the largest component.

pub mod model;
pub mod spark;
pub mod trend;

#[cfg(target_arch = "wasm32")]
pub mod page;
