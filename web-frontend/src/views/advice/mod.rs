//! Advice: what could be tried on this host, and what it would gain at most; absent while there is none.

use crate::view_info::Pages;

/// Advice is found from whatever sections there are.
pub const NEEDS: Option<&str> = None;
/// The pages that it is on.
pub const PAGES: Pages = Pages::Overview;

pub mod list;

#[cfg(target_arch = "wasm32")]
pub mod page;
