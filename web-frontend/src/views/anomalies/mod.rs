//! Anomalies: what left its usual values, from when until when; absent while there is none. The daemon judges
//! and is asked; a report has no daemon.

use crate::view_info::Pages;

/// No section has them.
pub const NEEDS: Option<&str> = None;
/// The pages that it is on.
pub const PAGES: Pages = Pages::Overview;

pub mod list;

#[cfg(target_arch = "wasm32")]
pub mod page;
