//! Stacked areas over time: events, and the parts of one.

use crate::view_info::Pages;

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("cost");
/// The pages that it is on.
pub const PAGES: Pages = Pages::Overview;

#[cfg(target_arch = "wasm32")]
pub mod page;
