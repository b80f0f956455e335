//! Options of the commands that show what was or is measured elsewhere.

use std::path::PathBuf;

use clap::Args;

use netto_pipeline::playback::SPEEDS;

use super::{FileArgs, LevelArgs, MeasureArgs, ServeArgs};
use netto_feature::values::in_range;

/// Options of `netto replay`.
#[derive(Debug, Clone, Args)]
pub struct ReplayArgs {
    /// The log to play
    #[arg(value_name = "LOG")]
    pub log: PathBuf,
    /// How many times as fast as it was recorded, 0.1 to 1000; viewers can change it [default: 1]
    #[arg(long, value_name = "TIMES", value_parser = in_range(SPEEDS, "times"))]
    pub speed: Option<f64>,
    /// Begin standing still
    #[arg(long)]
    pub paused: bool,
    /// Whom to serve and how.
    #[command(flatten)]
    pub serve: ServeArgs,
    /// The configuration file, for what it says of serving.
    #[command(flatten)]
    pub file: FileArgs,
    /// How much is logged.
    #[command(flatten)]
    pub level: LevelArgs,
}

/// Options of `netto dump`.
#[derive(Debug, Clone, Default, Args)]
pub struct DumpArgs {
    /// The daemon that has it, as http://user:password@host:port or unix:PATH [default:
    /// http://127.0.0.1:10880]
    #[arg(long, value_name = "URL")]
    pub connect: Option<String>,
    /// Certificates (PEM) by which an https daemon may prove who it is [default: this host's]
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// Write to this file, or to standard output with `-`
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "-",
        hide_default_value = true
    )]
    pub output: PathBuf,
}

/// Options of `netto top`.
#[derive(Debug, Clone, Default, Args)]
pub struct TopArgs {
    /// The daemon to look at, as http://user:password@host:port or unix:PATH [default:
    /// http://127.0.0.1:10880, or a measurement of its own where there is none]
    #[arg(long, value_name = "URL", conflicts_with = "replay")]
    pub connect: Option<String>,
    /// Certificates (PEM) by which an https daemon may prove who it is [default: this host's]
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// The log to play
    #[arg(long, value_name = "LOG")]
    pub replay: Option<PathBuf>,
    /// How many times as fast as it was recorded to play it [default: 1]
    #[arg(long, value_name = "TIMES", value_parser = in_range(SPEEDS, "times"), requires = "replay")]
    pub speed: Option<f64>,
    /// How this host is measured where there is no daemon.
    #[command(flatten)]
    pub measure: MeasureArgs,
}
