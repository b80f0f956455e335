//! The slowest softirqs of the last minute; absent while there are none.

use crate::view_info::Pages;

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("slowest");
/// The pages that it is on.
pub const PAGES: Pages = Pages::Overview;

pub mod minute;
pub mod table;

#[cfg(target_arch = "wasm32")]
pub mod page;
