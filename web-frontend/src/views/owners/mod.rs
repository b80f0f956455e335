//! The owners of networking's CPU time: causes, payers, and interruptions.

use crate::view_info::Pages;

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("owners");
/// The pages that it is on.
pub const PAGES: Pages = Pages::OverviewAndComponent;

pub mod choices;
pub mod csv;
pub mod draw;
pub mod matrix;
pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
