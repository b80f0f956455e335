//! The ticks of the example feature.

use crate::view_info::Pages;

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("ticks");
/// The pages that it is on.
pub const PAGES: Pages = Pages::Overview;

#[cfg(target_arch = "wasm32")]
pub mod page;
