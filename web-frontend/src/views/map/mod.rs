//! The map of CPUs: networking's share of each, now, beside the bars.

pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
