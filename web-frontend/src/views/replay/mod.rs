//! The playback of a recording: what it is of, its overview as a slider, play, pause and speed.
//! Only there where the daemon plays a log.

use crate::view_info::Pages;

/// A recording may hold any section, or none.
pub const NEEDS: Option<&str> = None;
/// The pages that it is on.
pub const PAGES: Pages = Pages::Every;

pub mod model;

#[cfg(target_arch = "wasm32")]
mod fetch;
#[cfg(target_arch = "wasm32")]
pub mod page;
