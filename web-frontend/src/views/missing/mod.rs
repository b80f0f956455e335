//! Components that this host does not measure, and the reasons.

use crate::view_info::Pages;

/// It does not depend on a section.
pub const NEEDS: Option<&str> = None;
/// The pages that it is on.
pub const PAGES: Pages = Pages::Overview;

pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
