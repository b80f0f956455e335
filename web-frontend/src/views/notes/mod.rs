//! What the daemon wants its user to know before any figure is read.

use crate::view_info::Pages;

/// The daemon says them, whatever it measures.
pub const NEEDS: Option<&str> = None;
/// The pages that it is on.
pub const PAGES: Pages = Pages::Every;

pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
