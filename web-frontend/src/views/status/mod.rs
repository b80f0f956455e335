//! The line on the state of the measurement itself.

pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
