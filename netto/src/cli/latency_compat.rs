//! How metrics of latency are called.

use clap::Args;

/// How metrics of latency are called.
#[derive(Debug, Clone, Default, Args)]
pub struct LatencyCompatArgs {
    /// Give Prometheus latency under netstacklat's names and labels, too [default: false]
    #[arg(long, value_name = "BOOL", env = "NETTO_LATENCY_COMPAT")]
    pub latency_compat: Option<bool>,
}
