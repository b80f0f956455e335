//! Options of `netto demo`.

use clap::Args;

use super::RunArgs;
use netto_feature::values::in_range;

/// What the made-up host is like, and whom to serve.
#[derive(Debug, Clone, Default, Args)]
pub struct DemoArgs {
    /// How many CPUs the made-up host has [default: 16]
    #[arg(long, value_name = "COUNT", value_parser = in_range(netto_demo::CPUS, ""))]
    pub cpus: Option<u32>,
    /// Another number makes up another host [default: 1]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// So many further made-up hosts, for a Prometheus to scrape: /hosts is their list, as its HTTP
    /// service discovery takes it, and /hosts/NAME/metrics has the metrics of each
    #[arg(long, value_name = "COUNT", value_parser = in_range(netto_demo::HOSTS, ""))]
    pub hosts: Option<u32>,
    /// Options of `netto run`.
    #[command(flatten)]
    pub run: RunArgs,
}
