//! Shared by the tests with processes and browsers, with and without root.

pub mod child;
pub mod http;
#[allow(
    dead_code,
    reason = "tests without a live kernel or browser are tried once"
)]
pub mod repeat;
#[allow(dead_code, reason = "the root tests choose by it")]
pub mod tiers;
pub mod trial;
#[allow(dead_code, reason = "demonstrations measure nothing")]
pub mod turn;
pub mod webdriver;
