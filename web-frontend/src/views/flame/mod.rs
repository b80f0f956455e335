//! The flame graph: networking's time by kernel function.

use crate::view_info::Pages;

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("cost");
/// The pages that it is on.
pub const PAGES: Pages = Pages::OverviewAndComponent;

pub mod choices;
pub mod draw;
pub mod model;
pub mod path;

#[cfg(target_arch = "wasm32")]
mod fetch;
#[cfg(target_arch = "wasm32")]
pub mod page;
