//! Carries out a command of the user, and is where the measurement is plugged in.

use std::io::Write as _;

use crate::cli::{Cli, Command, RunArgs};
use crate::config::Config;
use crate::inspect;
use crate::kernel::preflight;
use crate::kernel::session::quieten_libbpf;
use crate::measurement::{self, Measurement, Settings};
use crate::telemetry;

pub use crate::daemon::{Prepared, bind, serve};

/// How a command ended.
#[derive(Debug)]
pub enum Outcome {
    /// All went well.
    Done,
    /// It could not be done.
    Failed(anyhow::Error),
    /// The user asked for something impossible.
    Usage(String),
}

/// Carries out what the user asked for.
pub fn command(cli: &Cli) -> Outcome {
    let (config, action): (_, fn(&Config) -> anyhow::Result<()>) = match &cli.command {
        None => (Config::for_run(&cli.run), run),
        Some(Command::Run(args)) => (Config::for_run(args), run),
        Some(Command::Check(args)) => (Config::for_host(args), check),
        Some(Command::List(args)) => (Config::for_host(args), list),
    };
    let config = match config {
        Ok(config) => config,
        Err(error) => return Outcome::Usage(error.to_string()),
    };
    telemetry::init(config.log_level);
    if asks_for_prometheus(cli) {
        tracing::info!("--prometheus is no longer needed: metrics are always served at /metrics");
    }
    match action(&config) {
        Ok(()) => Outcome::Done,
        Err(error) => Outcome::Failed(error),
    }
}

fn asks_for_prometheus(cli: &Cli) -> bool {
    let RunArgs { prometheus, .. } = match &cli.command {
        Some(Command::Run(args)) => args,
        _ => &cli.run,
    };
    *prometheus
}

// The three commands. The measurement is plugged in here and nowhere else.

fn run(config: &Config) -> anyhow::Result<()> {
    let prepared = bind(config)?;
    quieten_libbpf();
    let Measurement {
        info,
        source,
        session,
    } = measurement::start(&Settings::from(config))?;
    for note in &info.notes {
        tracing::warn!("{note}");
    }
    let outcome = prepared.serve(info, Box::new(source));
    // The probes go before the process says how it ended.
    drop(session);
    outcome
}

fn check(config: &Config) -> anyhow::Result<()> {
    quieten_libbpf();
    let measurement = measurement::start(&Settings::from(config))?;
    print(&inspect::check_report(&measurement.info));
    Ok(())
}

fn list(config: &Config) -> anyhow::Result<()> {
    let symbols = preflight::read_symbols(&Settings::from(config).roots, true)
        .map_err(|error| format!("{error:#}"));
    print(&inspect::component_list(
        symbols.as_ref().map_err(String::as_str),
    ));
    Ok(())
}

/// Prints a report; a closed pipe behind `netto list | head` is not worth a word.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
