//! How long packets wait inside the stack: figures, buckets over time, and the cost beside them.

use crate::view_info::Pages;

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("latency");
/// The pages that it is on.
pub const PAGES: Pages = Pages::Overview;

pub mod choices;
pub mod draw;
pub mod heat;
pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
