//! The CPU time of the made-up host's networking. Pure.

use metrics_common::Cost;
use netto_feature::demo::Generator;

/// Copies the time of each component; no stack is lost.
pub fn generator() -> Generator {
    Box::new(|interval, sections| {
        let (work, cpus) = (interval.work, interval.work.modes.len());
        sections.cost = Some(Cost {
            components: work.components.clone(),
            samples: work.samples.clone(),
            entries: work.entries.clone(),
            stacks_taken: vec![interval.stacks; cpus],
            stacks_lost: vec![0; cpus],
            ..Cost::default()
        });
    })
}
