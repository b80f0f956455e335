//! What the daemon wants its user to know, and what it does not measure here.

pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
