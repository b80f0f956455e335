//! The map of CPUs: networking's share of each, now, beside the bars.

use crate::view_info::Pages;

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("cost");
/// The pages that it is on.
pub const PAGES: Pages = Pages::Overview;

pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
