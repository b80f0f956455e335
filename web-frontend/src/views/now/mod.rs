//! Where the time goes now: three linked bars, and lists of what they hold.

use crate::view_info::Pages;

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("cost");
/// The pages that it is on.
pub const PAGES: Pages = Pages::Overview;

pub mod draw;
pub mod legend;
pub mod model;
pub mod tip;

#[cfg(target_arch = "wasm32")]
pub mod page;
