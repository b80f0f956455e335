//! The headline: networking's share of the host, how it went lately, what leads.

use crate::view_info::Pages;

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("cost");
/// The pages that it is on.
pub const PAGES: Pages = Pages::Every;

pub mod model;
pub mod spark;
pub mod trend;

#[cfg(target_arch = "wasm32")]
pub mod page;
