//! Whose networking's CPU time is: who caused it, who paid for it, and who took from whom.

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
