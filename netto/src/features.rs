//! The list of features: adding one is a line here and a dependency in Cargo.toml.

use netto_feature::instruments::Entry;
use netto_metrics::catalogue::Catalogue;

macro_rules! features {
    ($($name:ident: $module:ident $({ summary: $summary:path })?),* $(,)?) => {
        /// All of them, in the order in which they are asked: one may read the sections of those
        /// before it.
        pub const FEATURES: &[Entry] = &[
            $(Entry {
                name: stringify!($name),
                is_essential: $module::IS_ESSENTIAL,
                metrics: $module::metrics::METRICS,
                start: $module::start,
                api: $module::API,
                demo: $module::demo::generator,
                summary: optional!($($summary)?),
            }),*
        ];
    };
}

macro_rules! optional {
    () => {
        None
    };
    ($value:path) => {
        Some($value)
    };
}

features!(
    modes: netto_modes,
    cost: netto_cost,
    power: netto_power,
    traffic: netto_traffic,
    drops: netto_drops,
    owners: netto_owners { summary: netto_owners::report::summarizer },
    latency: netto_latency,
    own: netto_own,
);

/// What they export.
pub fn metrics() -> Vec<Catalogue> {
    FEATURES.iter().map(|feature| feature.metrics).collect()
}

#[cfg(test)]
mod catalogue;
