//! The daemon's notes for the user.

use crate::view_info::Pages;

/// They do not depend on a section.
pub const NEEDS: Option<&str> = None;
/// The pages that it is on.
pub const PAGES: Pages = Pages::Every;

pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
