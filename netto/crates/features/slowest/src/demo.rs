//! Slow softirqs of the made-up host: some receive softirqs of its busiest CPU, and now and then a
//! timer. Pure.

use std::cmp::Reverse;

use metrics_common::component::index_of;
use metrics_common::sections::{SLOW_NS, SlowSoftirq, Slowest};
use metrics_common::{Owner, OwnerKind, Owners};
use netto_feature::demo::{Generator, Interval};

/// Length of a usual receive softirq.
const USUAL_NS: u64 = 40_000;
/// A slow one in so many intervals, for each percent of the busiest CPU's receive softirqs.
const SELDOM: u64 = 97;
/// Parts that take long, in turn.
const PARTS: [&str; 4] = ["gro", "tc_classify", "local_delivery_v4", "driver_poll"];

/// Fills the section; the history holds no softirqs.
pub(crate) fn generator() -> Generator {
    let mut number = 0;
    Box::new(move |interval, sections| {
        number += 1;
        sections.slowest = (!interval.is_past)
            .then(|| section(interval, sections.owners.as_ref(), number))
            .flatten();
    })
}

fn section(interval: &Interval<'_>, owners: Option<&Owners>, number: u64) -> Option<Slowest> {
    let work = interval.work;
    let rx = work.components.get(index_of("rx_softirq")?)?.as_ref()?;
    let (cpu, rx_ns) = rx.iter().enumerate().max_by_key(|(_, ns)| **ns)?;
    let all_ns: u64 = rx.iter().sum();
    let percent = rx_ns * 100 / interval.length_ns.max(1);
    let chance = |at: u64| (number * 31 + at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let mut softirqs = Vec::new();
    for at in 0..3 {
        if chance(at) % SELDOM >= percent {
            continue;
        }
        let length_ns = SLOW_NS + chance(at + 7) % 300_000 * (1 + chance(at + 11) % 4);
        let part = PARTS[chance(at + 13) as usize % PARTS.len()];
        softirqs.push(SlowSoftirq {
            began_unix_ns: interval.time_unix_ns - interval.length_ns * (at + 1) / 4,
            length_ns,
            cpu: cpu as u32,
            softirq: "NET_RX".to_owned(),
            part: (length_ns > 300_000).then(|| part.to_owned()),
            samples: (length_ns / 1_000_000) as u32 + u32::from(length_ns > 300_000),
            cause: of(owners, chance(at + 17), OwnerKind::Unknown),
            payer: of(owners, chance(at + 19), OwnerKind::Idle),
        });
    }
    softirqs.sort_by_key(|slow| Reverse(slow.length_ns));
    Some(Slowest {
        softirqs,
        timed: all_ns / USUAL_NS,
        timed_ns: interval.length_ns,
        measured_ns: interval.length_ns,
    })
}

/// One of the control groups, if there are any.
fn of(owners: Option<&Owners>, chance: u64, without: OwnerKind) -> Owner {
    let groups = owners.iter().flat_map(|owners| &owners.owners);
    let groups: Vec<&Owner> = groups
        .filter(|owner| owner.kind == OwnerKind::Cgroup)
        .collect();
    let place = chance as usize % groups.len().max(1);
    let one = groups.get(place).map(|owner| (*owner).clone());
    one.unwrap_or_else(|| Owner::single(without))
}
