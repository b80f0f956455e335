//! The owners of networking's CPU time: causes, payers, and interruptions.

pub mod choices;
pub mod csv;
pub mod draw;
pub mod matrix;
pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
