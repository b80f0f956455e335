//! The whole right half of the daemon, with a made-up measurement: what goes in
//! as snapshots must come out of every sink, and nobody may hold up anybody.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot go on should say why"
)]

#[path = "sinks/client.rs"]
mod client;
#[path = "sinks/process.rs"]
mod process;
#[path = "sinks/support.rs"]
mod support;

#[path = "sinks/dashboards.rs"]
mod dashboards;
#[path = "sinks/endings.rs"]
mod endings;
#[path = "sinks/hammered.rs"]
mod hammered;
#[path = "sinks/hostile.rs"]
mod hostile;
#[path = "sinks/log_file.rs"]
mod log_file;
#[path = "sinks/origin.rs"]
mod origin;
#[path = "sinks/passwords.rs"]
mod passwords;
#[path = "sinks/program.rs"]
mod program;
#[path = "sinks/requests.rs"]
mod requests;
#[path = "sinks/values.rs"]
mod values;
