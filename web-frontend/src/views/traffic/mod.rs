//! The work of networking, the cost of a packet, and dropped packets.

use crate::view_info::Pages;

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("traffic");
/// The pages that it is on.
pub const PAGES: Pages = Pages::Overview;

pub mod choices;
pub mod model;
pub mod tables;
pub mod unit_cost;

#[cfg(target_arch = "wasm32")]
pub mod page;
