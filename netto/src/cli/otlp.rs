//! Options of pushing metrics by OTLP.

use clap::Args;
use netto_metrics::otlp::target;

use netto_feature::values::{in_range, understood};

/// Where metrics are pushed, and how often.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Pushing metrics by OTLP")]
pub struct OtlpArgs {
    /// Push metrics to this receiver of OTLP over HTTP, such as an OpenTelemetry collector at
    /// http://127.0.0.1:4318; without a path, to /v1/metrics there
    #[arg(long, value_name = "URL", value_parser = understood(target::url))]
    pub otlp_endpoint: Option<String>,
    /// Further headers for that receiver, such as authorization=Bearer%20TOKEN; other users of this
    /// host see an argument, but not the environment and not the configuration file
    #[arg(long, value_name = "NAME=VALUE", value_delimiter = ',', value_parser = understood(target::header), hide_env_values = true)]
    pub otlp_headers: Vec<String>,
    /// Seconds from one push to the next [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = in_range(1..=3600_u64, "s"))]
    pub otlp_interval: Option<u64>,
}
