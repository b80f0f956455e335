//! One component's own page: its figures, its time, and advice. Its CPUs and functions are shown
//! beside it, by the same views as on the overview.

use crate::view_info::Pages;

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("cost");
/// The pages that it is on.
pub const PAGES: Pages = Pages::Component;

pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
