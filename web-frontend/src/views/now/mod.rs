//! The current CPU time: three linked bars, and lists of their parts.

pub mod draw;
pub mod legend;
pub mod model;
pub mod tip;

#[cfg(target_arch = "wasm32")]
pub mod page;
