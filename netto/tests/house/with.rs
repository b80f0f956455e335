//! The two programs: netto with the features of this house, which is this program, and without.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::child;
use crate::daemon::Daemon;

/// The word after which this program is netto.
pub const NETTO: &str = "netto";
/// A daemon that makes snapshots quickly and stays as it is.
pub const QUICK: [&str; 5] = ["run", "--user-period", "100", "--max-overhead", "100"];

/// Netto with both features.
pub fn with() -> Result<Command> {
    let program: PathBuf = std::env::current_exe()?;
    let mut command = child::mortal(&program.to_string_lossy());
    command.arg(NETTO);
    Ok(command)
}

/// The netto of this workspace.
pub fn without() -> Result<Command> {
    Ok(child::mortal(env!("CARGO_BIN_EXE_netto")))
}

/// Has a netto serve, by these words, on a port of its own.
pub fn serve(mut program: Command, words: &[&str]) -> Result<Daemon> {
    let port = child::free_port()?;
    let port_text = port.to_string();
    program.args(words).args(["--address", "127.0.0.1"]);
    Daemon::of(program.args(["--port", &port_text]), port)
}

/// Waits until so many snapshots were made.
pub fn wait_for(daemon: &Daemon, snapshots: u64) -> Result<()> {
    child::eventually(|| {
        let made = daemon.sequence()?;
        ensure!(made >= snapshots, "only {made} snapshots");
        Ok(())
    })
}
