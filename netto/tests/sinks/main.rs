//! The daemon's sinks with a made-up measurement: the snapshots must come out of every sink, and no
//! client may delay another.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot go on should say why"
)]

#[path = "../common/pty.rs"]
mod pty;
#[path = "../common/python.rs"]
mod python;

mod client;
mod commands;
mod elsewhere;
mod process;
mod support;

mod crowd;
mod dashboards;
mod endings;
mod gone;
mod hammered;
mod hostile;
mod latency;
mod listeners;
mod log_file;
mod log_kill;
mod main_thread;
mod open_metrics;
mod origin;
#[cfg(feature = "otlp")]
mod otlp;
mod owners;
mod passwords;
mod past;
mod program;
mod promtool;
mod quiet;
mod replay;
mod requests;
mod schemas;
mod service;
mod unix_socket;
mod values;
mod work;
