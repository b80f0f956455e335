//! The whole right half of the daemon, with a made-up measurement: what goes in
//! as snapshots must come out of every sink, and nobody may hold up anybody.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot go on should say why"
)]

mod client;
mod process;
mod support;

mod dashboards;
mod endings;
mod hammered;
mod hostile;
mod latency;
mod log_file;
mod log_kill;
mod origin;
#[cfg(feature = "otlp")]
mod otlp;
mod owners;
mod passwords;
mod past;
mod program;
mod promtool;
mod replay;
mod requests;
mod schemas;
mod values;
mod work;
