//! How metrics of latency are called.

use clap::Args;

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
