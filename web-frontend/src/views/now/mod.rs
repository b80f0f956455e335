//! The current CPU time: three linked bars, and lists of their parts.

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
