//! Components by CPU: all values of one interval.

use crate::view_info::Pages;

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("cost");
/// The pages that it is on.
pub const PAGES: Pages = Pages::Overview;

pub mod choices;
pub mod csv;
pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
