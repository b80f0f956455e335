//! The features of the product: adding one is a line here and a dependency in Cargo.toml.

use netto_feature::instruments::Feature;
use netto_metrics::catalogue::Catalogue;

/// All of them, in the order in which they are asked: one may read the sections of those before it.
pub const FEATURES: &[Feature] = &[
    netto_modes::FEATURE,
    netto_cost::FEATURE,
    netto_power::FEATURE,
    netto_traffic::FEATURE,
    netto_drops::FEATURE,
    netto_owners::FEATURE,
    netto_slowest::FEATURE,
    netto_intruders::FEATURE,
    netto_programs::FEATURE,
    netto_latency::FEATURE,
    netto_flows::FEATURE,
    netto_advice::FEATURE,
    netto_anomalies::FEATURE,
    netto_health::FEATURE,
    netto_own::FEATURE,
];

/// What features export.
pub fn metrics(features: &[Feature]) -> Vec<Catalogue> {
    features.iter().map(|feature| feature.metrics).collect()
}

#[cfg(test)]
mod catalogue;
