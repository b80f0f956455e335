//! Commands at an interface whose terminal or reader has gone, and when they are told to end; all others
//! are in sinks/gone.rs.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::child;
use crate::daemon;
use crate::flow_table::network;
use crate::pty::{self, OnTerminal};
use crate::trial::tests;

tests! {
    gone::flows_ends_when_its_terminal_or_reader_has_gone_and_when_it_is_told_to ["ip", "setsid"] = flows;
    gone::synth_ends_when_its_terminal_has_gone_and_when_it_is_told_to ["ip", "setsid"] = synth;
}

/// They promise 3 s, of a host that is not busy with tests.
const BOUND: Duration = Duration::from_secs(10);
const MOST_CPU: Duration = Duration::from_secs(5);

/// Loses its terminal, or gets the signal of this name, when it has said that it runs; it puts its work in
/// order in each case.
fn ends(command: &Command, expected: &str, signal: Option<&str>) -> Result<()> {
    let mut process = OnTerminal::start(command, false)?;
    child::eventually(|| {
        let screen = process.screen();
        ensure!(screen.contains(expected), "it does not run: {screen:?}");
        Ok(())
    })?;
    match signal {
        Some(name) => {
            let pid = process.child().id().to_string();
            child::run(Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &pid]))?;
        }
        None => process.close(),
    }
    check(pty::end(process.child(), BOUND)?, signal)
}

fn check(end: Option<pty::End>, signal: Option<&str>) -> Result<()> {
    let end = end.with_context(|| format!("{signal:?}: it goes on"))?;
    ensure!(end.code == 0 && end.cpu < MOST_CPU, "{signal:?}: {end:?}");
    Ok(())
}

fn flows() -> Result<()> {
    let network = network()?;
    let binary = daemon::binary();
    let command = |options: &[&str]| {
        let mut command = network.right.command(&binary.to_string_lossy());
        command.args(["flows", "lan"]).args(options);
        command
    };
    for signal in [None, Some("TERM"), Some("HUP")] {
        ends(&command(&[]), " under way", signal)?;
        ends(&command(&["--once", "--seconds", "300"]), "at most", signal)?;
    }
    let mut command = command(&["--json", "--seconds", "300"]);
    let command = command.stdin(Stdio::null()).stderr(Stdio::null());
    let mut unread = command.stdout(Stdio::piped()).spawn()?;
    drop(unread.stdout.take());
    let end = pty::end(&mut unread, BOUND);
    // It has ended, if all is well.
    let _ = unread.kill();
    check(end?, None)
}

fn synth() -> Result<()> {
    let network = network()?;
    let folder = tempfile::tempdir()?;
    let records = folder.path().join("records.csv");
    // A packet at once, and another in an hour.
    let hour = "1500000000,1500003600,10.1.1.1,10.1.1.2,4000,4000,17,0,0,2,200\n";
    std::fs::write(&records, hour)?;
    let mut command = network.left.command(&daemon::binary().to_string_lossy());
    command.args(["synth", &records.to_string_lossy(), "--to", "lan"]);
    for signal in [None, Some("TERM"), Some("HUP")] {
        ends(&command, "packet", signal)?;
    }
    Ok(())
}
