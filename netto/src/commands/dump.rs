//! `netto dump`: the newest snapshots of a running daemon as a log, so that the recent past can be
//! reported on, played and compared without a log file.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read, Write};
use std::path::Path;

use anyhow::{Context as _, ensure};
use netto_log_format as log;

use crate::cli::DumpArgs;
use netto_client::{DEFAULT_URL, Daemon};
use netto_report::outcome::Outcome;
use netto_report::output::is_closed_pipe;

/// The path that gives the log.
const PATH: &str = "/api/v1/dump";
/// Most bytes of an answer: many times what a daemon keeps.
const MOST_BYTES: u64 = 64 << 20;
/// What stands for standard output.
const STANDARD_OUTPUT: &str = "-";

/// Whether somebody may read the log as it comes.
pub fn is_to_standard_output(args: &DumpArgs) -> bool {
    args.output == Path::new(STANDARD_OUTPUT)
}

/// Writes what the daemon at this address has into a file.
pub fn run(args: &DumpArgs) -> Outcome {
    let (url, output) = (args.connect.as_deref(), &args.output);
    let daemon = match Daemon::at(url.unwrap_or(DEFAULT_URL), args.ca_file.as_deref()) {
        Ok(daemon) => daemon,
        Err(error) => return Outcome::Usage(format!("{error:#}")),
    };
    let is_standard_output = is_to_standard_output(args);
    if is_standard_output && io::stdout().is_terminal() {
        return Outcome::Usage(
            "a log is nothing to read on a terminal\n  name a file with --output, or redirect it"
                .to_owned(),
        );
    }
    let written = if is_standard_output {
        dump(&daemon, || Ok(io::stdout()))
    } else {
        dump(&daemon, || {
            let path = output.display();
            File::create(output).with_context(|| format!("cannot write {path}"))
        })
    };
    match written {
        Ok(bytes) => {
            if !is_standard_output {
                let path = output.display();
                // If standard error is closed, the message is lost.
                let _ = writeln!(
                    io::stderr(),
                    "{path}: {} kB of {}; `netto report {path}` says what is in it",
                    bytes.div_ceil(1000),
                    daemon.name()
                );
            }
            Outcome::Done
        }
        Err(error) if is_closed_pipe(&error) => Outcome::Done,
        Err(error) => Outcome::Failed(error),
    }
}

/// Asks for the log and writes it; gives its length. A file is made only when there is
/// something to put into it.
fn dump<W: Write>(
    daemon: &Daemon,
    output: impl FnOnce() -> anyhow::Result<W>,
) -> anyhow::Result<u64> {
    let mut body = daemon.get(PATH)?;
    let mut begin = vec![0; log::MAGIC.len()];
    let broken = || {
        format!(
            "{} breaks off: what has come until then can be read",
            daemon.name()
        )
    };
    body.read_exact(&mut begin).with_context(broken)?;
    ensure!(
        begin == log::MAGIC,
        "the server at {} is not netto: its answer is not a log",
        daemon.name()
    );
    let mut output = output()?;
    output.write_all(&begin).context("cannot write the log")?;
    let mut buffer = vec![0; 64 << 10];
    let mut bytes = begin.len() as u64;
    loop {
        let length = body.read(&mut buffer).with_context(broken)?;
        if length == 0 {
            break;
        }
        ensure!(
            bytes + length as u64 <= MOST_BYTES,
            "{} sends more than {} MiB, which no netto keeps: what has come until then was written",
            daemon.name(),
            MOST_BYTES >> 20
        );
        output
            .write_all(&buffer[..length])
            .context("cannot write the log")?;
        bytes += length as u64;
    }
    output.flush().context("cannot write the log")?;
    Ok(bytes)
}
