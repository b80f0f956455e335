//! What the metrics are called, and what they say, in the terms of Prometheus: one file of
//! families for each section of a snapshot, and one of netto itself.
//!
//! Names carry the prefix `netto_` and base units. A thing that is not measured has no series.
//! These files only read totals.

use super::family::{Family, Inputs};
use super::text::Text;

mod about;
mod cost;
mod drops;
mod latency;
mod modes;
mod own;
mod owners;
mod power;
mod traffic;

pub use about::FAMILIES as ABOUT;
pub use latency::COMPAT;

/// The families of all sections.
pub fn of_sections() -> impl Iterator<Item = &'static Family<Text>> {
    [
        cost::FAMILIES,
        modes::FAMILIES,
        owners::FAMILIES,
        power::FAMILIES,
        traffic::FAMILIES,
        drops::FAMILIES,
        latency::FAMILIES,
        own::FAMILIES,
    ]
    .into_iter()
    .flatten()
}

/// Calls `each` with every CPU, as a label and as its column.
fn per_cpu(inputs: &Inputs<'_>, mut each: impl FnMut(&str, usize)) {
    for (column, cpu) in inputs.totals.sum.cpus.iter().enumerate() {
        each(&cpu.to_string(), column);
    }
}

#[cfg(test)]
mod tests {
    use prometheus::core::Desc;
    use prometheus::proto::MetricType;

    use super::*;

    fn check<S>(family: &Family<S>) {
        let name = family.name;
        let labels = family.labels.iter().map(|&label| label.to_owned());
        let described = Desc::new(
            name.to_owned(),
            family.help.to_owned(),
            labels.collect(),
            Default::default(),
        );
        assert!(described.is_ok(), "{name}: {described:?}");
        assert!(name.starts_with("netto_"), "{name}");
        let is_counter = family.metric_type == MetricType::COUNTER;
        assert_eq!(is_counter, name.ends_with("_total"), "{name}");
        assert!(family.help.ends_with('.'), "{name}");
        assert!(!family.help.contains(['\\', '\n']), "{name}");
    }

    #[test]
    fn names_are_well_formed_carry_the_prefix_and_counters_their_suffix() {
        ABOUT.iter().for_each(check);
        of_sections().for_each(check);
    }

    #[test]
    fn every_name_stands_for_one_family() {
        let about = ABOUT.iter().map(|family| family.name);
        let mut names: Vec<&str> = about
            .chain(of_sections().map(|family| family.name))
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
