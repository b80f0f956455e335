//! CPUs over time: one component on every CPU as a heat map.

pub mod choices;
pub mod csv;
pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
