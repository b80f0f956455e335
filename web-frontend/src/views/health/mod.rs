//! The host's score: how long a read and a write may be expected to take, and why; absent where the host's
//! health is not measured. The daemon scores and is asked; a report has no daemon.

pub mod table;

#[cfg(target_arch = "wasm32")]
pub mod page;
