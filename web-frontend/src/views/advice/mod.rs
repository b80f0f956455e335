//! Advice: what could be tried on this host, and what it would gain at most; absent while there is none.

pub mod list;

#[cfg(target_arch = "wasm32")]
pub mod page;
