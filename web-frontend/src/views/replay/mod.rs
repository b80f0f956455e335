//! The playback of a recording: what it is of, its overview as a slider, play, pause and speed.
//! Only there where the daemon plays a log.

pub mod model;

#[cfg(target_arch = "wasm32")]
mod fetch;
#[cfg(target_arch = "wasm32")]
pub mod page;
