//! How long packets wait inside the stack: figures, buckets over time, and the cost beside them.

pub mod choices;
pub mod draw;
pub mod heat;
pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
