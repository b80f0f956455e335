//! CPU time of BPF programs on the way of packets.

use crate::view_info::Pages;

/// The section that it shows.
pub const NEEDS: Option<&str> = Some("programs");
/// The pages that it is on.
pub const PAGES: Pages = Pages::Overview;

pub mod table;

#[cfg(target_arch = "wasm32")]
pub mod page;
