//! The line on the state of the measurement itself.

use crate::view_info::Pages;

/// The state of the connection and the probes concerns every measurement.
pub const NEEDS: Option<&str> = None;
/// The pages that it is on.
pub const PAGES: Pages = Pages::Every;

pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
