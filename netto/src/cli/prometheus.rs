//! Which metrics Prometheus gets, and how they are called.

use clap::{Args, ValueEnum};
use netto_metrics::per_cpu::PerCpu;

/// Which metrics Prometheus gets, and how they are called.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Metrics for Prometheus")]
pub struct PrometheusArgs {
    /// Which of Prometheus' metrics are by CPU: components (all of them), events (all except those
    /// by component), or none; the others are sums of all CPUs [default: components]
    #[arg(long, value_name = "WHICH", hide_possible_values = true)]
    pub prometheus_per_cpu: Option<PerCpuName>,
    /// Give Prometheus latency under netstacklat's names and labels, too [default: false]
    #[arg(long, value_name = "BOOL")]
    pub latency_compat: Option<bool>,
}

/// Metrics by CPU, as the user names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PerCpuName {
    /// All that there are
    Components,
    /// All except those by component
    Events,
    /// None
    None,
}

impl From<PerCpuName> for PerCpu {
    fn from(name: PerCpuName) -> Self {
        match name {
            PerCpuName::Components => PerCpu::Components,
            PerCpuName::Events => PerCpu::Events,
            PerCpuName::None => PerCpu::None,
        }
    }
}
