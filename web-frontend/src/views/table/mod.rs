//! Components by CPU: all values of one interval.

pub mod choices;
pub mod csv;
pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
