//! The flame graph: networking's time by kernel function.

pub mod choices;
pub mod draw;
pub mod model;
pub mod path;

#[cfg(target_arch = "wasm32")]
mod fetch;
#[cfg(target_arch = "wasm32")]
pub mod page;
