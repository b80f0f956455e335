//! The host's score: how long a read and a write may be expected to take, and why; absent where the host's
//! health is not measured. The daemon scores and is asked; a report has no daemon.

use crate::view_info::Pages;

/// The page does not read the section that has it.
pub const NEEDS: Option<&str> = None;
/// The pages that it is on.
pub const PAGES: Pages = Pages::Overview;

pub mod table;

#[cfg(target_arch = "wasm32")]
pub mod page;
