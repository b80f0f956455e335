//! Over time: events, and the parts of one, as areas on top of each other.

use crate::view_info::Pages;

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("cost");
/// The pages that it is on.
pub const PAGES: Pages = Pages::Overview;

#[cfg(target_arch = "wasm32")]
pub mod page;
