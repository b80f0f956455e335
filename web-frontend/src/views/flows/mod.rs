//! Who talks to whom: the conversations with the most bytes.

use crate::view_info::Pages;

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("flows");
/// The pages that it is on.
pub const PAGES: Pages = Pages::Overview;

pub mod table;

#[cfg(target_arch = "wasm32")]
pub mod page;
