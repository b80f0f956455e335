//! One component's own page: its figures, its time, what makes it large and what to do about
//! it. Its CPUs and functions are shown beside it, by the views that show those of all.

use crate::view_info::Pages;

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("cost");
/// The pages that it is on.
pub const PAGES: Pages = Pages::Component;

pub mod model;

#[cfg(target_arch = "wasm32")]
pub mod page;
