//! netto: how much CPU networking costs this host, on which CPU, in which part
//! of the network stack.
//!
//! First what the user asked for, then the modules in the order in which data
//! goes through them. Which features there are is its caller's choice: the product has those of
//! [`features::FEATURES`].

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use netto_feature::instruments::Feature;
use netto_questions::figures::plain_lines;
use netto_sys::ending;

use crate::run::Outcome;

pub mod cli;
pub mod config;
pub mod run;
pub mod telemetry;

pub mod daemon;

pub mod environment;

pub mod commands;
pub mod inspect;

pub mod features;

/// Runs netto with these features and arguments, the program's name first, and maps the outcome to
/// an exit code.
pub fn main(features: &'static [Feature], arguments: &[OsString]) -> ExitCode {
    // First of all: a signal that comes before this ends the process by the kernel's default.
    let outcome = match ending::listen() {
        Ok(()) => run::command(features, arguments),
        Err(error) => Outcome::Failed(error),
    };
    ending::pass_on();
    let (code, message) = match outcome {
        Outcome::Done => return ExitCode::SUCCESS,
        Outcome::Failed(error) => (1, format!("{error:#}")),
        Outcome::Usage(message) => (2, message),
    };
    // If standard error is closed, the exit code still tells.
    let _ = writeln!(std::io::stderr(), "error: {}", plain_lines(&message));
    ExitCode::from(code)
}
