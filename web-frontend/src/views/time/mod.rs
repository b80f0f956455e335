//! Stacked areas over time: events, and the parts of one.

#[cfg(target_arch = "wasm32")]
pub mod page;
