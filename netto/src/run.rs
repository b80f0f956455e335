//! Carries out a command of the user, and is where the measurement is plugged in.

use anyhow::bail;

use crate::cli::{Cli, Command, RunArgs};
use crate::config::Config;
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
    let _prepared = bind(config)?;
    bail!("this netto was built without its measurement")
}

fn check(_config: &Config) -> anyhow::Result<()> {
    bail!("this netto was built without its measurement")
}

fn list(_config: &Config) -> anyhow::Result<()> {
    bail!("this netto was built without its measurement")
}
