//! Anomalies: what left its usual values, from when until when; absent while there is none. The daemon judges
//! and is asked; a report has no daemon.

pub mod list;

#[cfg(target_arch = "wasm32")]
pub mod page;
