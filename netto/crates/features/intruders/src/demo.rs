//! The made-up host keeps its last CPU quiet, and its networking does not.

use metrics_common::Cost;
use metrics_common::sections::{QuietCpu, QuietKind, Quietness, event_of, is_softirq};
use netto_feature::demo::Generator;
use netto_platform::TakenThere;

use crate::analysis::account;

/// Fills the section.
pub(crate) fn generator() -> Generator {
    Box::new(|interval, sections| {
        let work = interval.work;
        let cpus: Vec<u32> = (0..work.modes.len() as u32).collect();
        // A host of one CPU has none to spare.
        let Some(&last) = cpus.last().filter(|last| **last > 0) else {
            return;
        };
        let quiet = QuietCpu {
            cpu: last,
            why: vec![Quietness {
                kind: QuietKind::Isolcpus,
                cpuset: String::new(),
            }],
            ways: vec!["RPS of eth0 rx-0".to_owned()],
        };
        let cost = Cost {
            components: work.components.clone(),
            ..Cost::default()
        };
        let owners = sections.owners.as_ref();
        let mut taken = Vec::new();
        for (section, row) in owners
            .iter()
            .flat_map(|section| section.caused.iter().map(|row| (*section, row)))
        {
            let event = event_of(row.component as usize);
            let cause = section.owners.get(row.owner as usize);
            let pair = section.taken.iter().find(|taken| taken.cause == row.owner);
            let payer = pair.and_then(|taken| section.owners.get(taken.payer as usize));
            if let Some((cause, payer)) = cause.zip(payer).filter(|_| is_softirq(event)) {
                taken.push(TakenThere {
                    cpu: last,
                    event,
                    cause: cause.clone(),
                    payer: payer.clone(),
                    ns: row.cpu_ns.last().copied().unwrap_or(0),
                });
            }
        }
        sections.intruders = account::section(&[quiet], &cpus, &cost, taken, owners);
    })
}
