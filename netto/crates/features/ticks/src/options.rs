//! What users may ask of it.

use clap::{Args, FromArgMatches};
use netto_feature::options::Options;
use netto_feature::values::in_range;
use netto_pipeline::options::FeatureOptions;

/// Its options.
pub(crate) const OPTIONS: Options = Options {
    arguments: TicksOptions::augment_args,
    read: |matches, options| {
        let given = TicksOptions::from_arg_matches(matches).map_err(|error| error.to_string())?;
        Ok(match given.ticks_step {
            Some(step) => options.with(crate::NAME, step),
            None => options,
        })
    },
    is_reread: true,
};

/// How it counts.
#[derive(Debug, Args)]
struct TicksOptions {
    /// Count each tick so many times [default: 1]
    #[arg(long, value_name = "COUNT", value_parser = in_range(1..=1_000_u64, "times"))]
    ticks_step: Option<u64>,
}

/// How many times each tick is to be counted.
pub(crate) fn step(options: &FeatureOptions) -> u64 {
    options.of(crate::NAME).copied().unwrap_or(1)
}
