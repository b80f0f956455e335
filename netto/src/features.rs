//! The list of features: adding one is a line here and a dependency in Cargo.toml.

use netto_feature::instruments::Entry;
use netto_metrics::catalogue::Catalogue;

/// All of them, in the order in which they are asked: one may read the sections of those before it.
pub const FEATURES: &[Entry] = &[
    netto_modes::ENTRY,
    netto_cost::ENTRY,
    netto_power::ENTRY,
    netto_traffic::ENTRY,
    netto_drops::ENTRY,
    netto_owners::ENTRY,
    netto_latency::ENTRY,
    netto_own::ENTRY,
];

/// What they export.
pub fn metrics() -> Vec<Catalogue> {
    FEATURES.iter().map(|feature| feature.metrics).collect()
}

#[cfg(test)]
mod catalogue;
