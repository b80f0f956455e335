//! netto's own cost: one figure, and its parts on request.

pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
