//! One component's own page: its figures, its time, and advice. Its CPUs and functions are shown
//! beside it, by the same views as on the overview.

pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
