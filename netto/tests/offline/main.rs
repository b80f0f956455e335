//! `netto report` and `netto diff` as programs: compared with the daemon's own values of the same
//! time, and with other programs that read their output; and on damaged logs.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot go on should say why"
)]

#[path = "../common/http.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod http;
#[cfg(feature = "parquet")]
#[path = "../common/python.rs"]
mod python;

mod files;

mod damage;
mod diff;
#[cfg(feature = "parquet")]
mod engines;
mod exports;
mod log_size;
mod stacks;
mod truth;
mod views;
