//! What this host does not measure, and why.

use crate::view_info::Pages;

/// Reasons are there whatever is measured.
pub const NEEDS: Option<&str> = None;
/// The pages that it is on.
pub const PAGES: Pages = Pages::Overview;

pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
