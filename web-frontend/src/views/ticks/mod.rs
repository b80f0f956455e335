//! The ticks of the example feature.

#[cfg(target_arch = "wasm32")]
pub mod page;
