//! `netto report` and `netto diff` as programs: against what the daemon itself said of the same
//! time, against other programs that read what they write, and on what is left of logs.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot go on should say why"
)]

#[path = "../common/http.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod http;

mod files;

mod damage;
mod diff;
mod exports;
mod log_size;
mod stacks;
mod truth;
