//! Softirqs on CPUs that are meant to be quiet.

use crate::view_info::Pages;

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("intruders");
/// The pages that it is on.
pub const PAGES: Pages = Pages::Overview;

pub mod table;

#[cfg(target_arch = "wasm32")]
pub mod page;
