//! Options of `netto latency`, and how metrics of latency are called.

use std::path::PathBuf;

use clap::Args;

use super::HostArgs;

/// Options of `netto latency`.
#[derive(Debug, Clone, Default, Args)]
pub struct LatencyShowArgs {
    /// The daemon to look at, as http://user:password@host:port [default:
    /// http://127.0.0.1:10880, or a measurement of its own where there is none]
    #[arg(long, value_name = "URL", env = "NETTO_CONNECT", hide_env = true)]
    pub connect: Option<String>,
    /// Certificates (PEM) by which an https daemon may prove who it is [default: this host's]
    #[arg(long, value_name = "FILE", env = "NETTO_CA_FILE", hide_env = true)]
    pub ca_file: Option<PathBuf>,
    /// How much time is shown, seconds, a minute at most [default: 5]
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = clap::value_parser!(u64).range(1..=60),
        env = "NETTO_SECONDS",
        hide_env = true
    )]
    pub seconds: Option<u64>,
    /// Show it once, when so much time is over, and end; so it is where nobody looks at a terminal
    #[arg(long)]
    pub once: bool,
    /// Once, as JSON like that of /api/v1/latency
    #[arg(long)]
    pub json: bool,
    /// Show interfaces and owners too, where they are told apart
    #[arg(long)]
    pub groups: bool,
    /// Options of every command.
    #[command(flatten)]
    pub host: HostArgs,
}

/// How metrics of latency are called.
#[derive(Debug, Clone, Default, Args)]
pub struct LatencyCompatArgs {
    /// Give Prometheus latency under netstacklat's names and labels, too [default: false]
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        env = "NETTO_LATENCY_COMPAT",
        hide_env = true
    )]
    pub latency_compat: Option<bool>,
}
