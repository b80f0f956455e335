//! The headline: networking's share of the host, its recent trend, the largest component.

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
