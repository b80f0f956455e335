//! What the metrics are called, and what they say, in the terms of Prometheus: one file of
//! families for each section of a snapshot, and one of netto itself.
//!
//! Names carry the prefix `netto_` and base units. A thing that is not measured has no series.
//! These files only read totals.

use super::registry::{Family, Inputs};

mod about;
mod cost;
mod modes;
mod own;
mod power;

/// Every family.
pub fn all() -> impl Iterator<Item = &'static Family> {
    [
        about::FAMILIES,
        cost::FAMILIES,
        modes::FAMILIES,
        power::FAMILIES,
        own::FAMILIES,
    ]
    .into_iter()
    .flatten()
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Calls `each` with every CPU, as a label and as its column.
fn per_cpu(inputs: &Inputs<'_>, mut each: impl FnMut(&str, usize)) {
    for (column, cpu) in inputs.totals.sum.cpus.iter().enumerate() {
        each(&cpu.to_string(), column);
    }
}

#[cfg(test)]
mod tests {
    use prometheus::proto::MetricType;

    use super::*;

    #[test]
    fn names_carry_the_prefix_and_counters_their_suffix() {
        for family in all() {
            assert!(family.name.starts_with("netto_"), "{}", family.name);
            assert_eq!(
                family.metric_type == MetricType::COUNTER,
                family.name.ends_with("_total"),
                "{}",
                family.name
            );
            assert!(family.help.ends_with('.'), "{}", family.name);
        }
    }
}
