//! netto's own cost: one figure, and its parts on request.

use crate::view_info::Pages;

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("own");
/// The pages that it is on.
pub const PAGES: Pages = Pages::Every;

pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
