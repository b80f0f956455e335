//! The CPU time of the made-up host's networking. Pure.

use metrics_common::Cost;
use netto_feature::demo::Generator;

/// Copies the time of each component; no stack is lost.
pub fn generator() -> Generator {
    Box::new(|interval, sections| {
        let (work, cpus) = (interval.work, interval.work.modes.len());
        let total_ns = |row: &Option<Vec<u64>>| row.iter().flatten().sum::<u64>();
        sections.cost = Some(Cost {
            // As if samples were taken 250 times a second.
            sample_ns_ms: Some(
                work.components
                    .iter()
                    .map(|row| 4 * total_ns(row))
                    .collect(),
            ),
            components: work.components.clone(),
            samples: work.samples.clone(),
            entries: work.entries.clone(),
            stacks_taken: vec![interval.stacks; cpus],
            stacks_lost: vec![0; cpus],
            ..Cost::default()
        });
    })
}
