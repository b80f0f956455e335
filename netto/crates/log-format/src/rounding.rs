//! Rounds snapshots for a log: sections round themselves ([`metrics_common::sections::Section::round`]), and
//! rounding errors are carried to the next snapshot of the same CPUs.

use std::collections::BTreeMap;

use metrics_common::rounding::Carry;
use metrics_common::snapshot::Snapshot;

/// Rounds consecutive snapshots of a log; see the head of this file.
#[derive(Debug, Default)]
pub struct Rounding {
    /// CPUs of the carried errors, which are dropped when the CPUs change.
    cpus: Vec<u32>,
    carries: BTreeMap<&'static str, Carry>,
}

impl Rounding {
    /// The rounded snapshot.
    pub fn round(&mut self, snapshot: &Snapshot) -> Snapshot {
        let mut snapshot = snapshot.clone();
        if self.cpus != snapshot.cpus {
            self.cpus.clone_from(&snapshot.cpus);
            self.carries.clear();
        }
        snapshot.sections.round(&mut self.carries);
        snapshot
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use metrics_common::Cost;
    use metrics_common::component::{COMPONENTS, children, index_of};
    use metrics_common::rounding::TIME_UNIT_NS;
    use metrics_common::sections::{SUMS, Sections};
    use metrics_common::steps;

    const CPUS: usize = 3;

    /// A snapshot whose parts sum to their wholes.
    fn snapshot(values: &[u64]) -> Snapshot {
        let mut values = values.iter().copied().cycle();
        let mut row = || Some((0..CPUS).map(|_| values.next().unwrap()).collect());
        let mut components: Vec<Option<Vec<u64>>> = COMPONENTS.iter().map(|_| row()).collect();
        components[index_of("gro").unwrap()] = None;
        for (whole, parts) in SUMS.iter() {
            for &part in parts {
                let part = components[part].clone().unwrap_or_default();
                for (value, part) in components[*whole].iter_mut().flatten().zip(part) {
                    *value += part;
                }
            }
        }
        let cost = Cost {
            components,
            entries: COMPONENTS.iter().map(|_| row()).collect(),
            ksoftirqd_rx_ns: row(),
            ..Cost::default()
        };
        Snapshot {
            cpus: (0..CPUS as u32).collect(),
            sections: Sections {
                cost: Some(cost),
                ..Sections::default()
            },
            ..Snapshot::default()
        }
    }

    proptest! {
        #[test]
        fn parts_sum_to_their_whole_and_sums_over_time_are_right_to_half_a_step_of_each_row(
            intervals in prop::collection::vec(prop::collection::vec(prop_oneof![Just(0_u64), 0..300_000_000_u64], 1..50), 1..20),
        ) {
            let mut rounding = Rounding::default();
            let mut errors = vec![[0_i64; CPUS]; COMPONENTS.len()];
            let mut largest = 0;
            for values in &intervals {
                let exact = snapshot(values);
                let kept = rounding.round(&exact);
                for (row, error) in errors.iter_mut().enumerate() {
                    let Some(cells) = kept.cost().cpu_ns(row) else {
                        prop_assert!(exact.cost().cpu_ns(row).is_none());
                        continue;
                    };
                    for cpu in 0..CPUS {
                        let unattributed = |snapshot: &Snapshot| {
                            let ns = |row: usize| Some(snapshot.cost().cpu_ns(row)?[cpu] as i64);
                            let parts: i64 = children(row).iter().filter_map(|&part| ns(part)).sum();
                            ns(row).unwrap() - parts
                        };
                        prop_assert!(unattributed(&kept) >= 0, "{row}: parts are more than their whole");
                        prop_assert_eq!(cells[cpu] % TIME_UNIT_NS, 0);
                        error[cpu] += unattributed(&exact) - unattributed(&kept);
                        largest = largest.max(unattributed(&exact) as u64);
                    }
                }
            }
            // 300 ms and the carried error.
            let half = steps::step(largest / TIME_UNIT_NS + 1000) * TIME_UNIT_NS / 2 + TIME_UNIT_NS;
            for row in errors {
                prop_assert!(row.iter().all(|left| left.unsigned_abs() <= half), "{row:?} beyond {half}");
            }
        }
    }

    #[test]
    fn idle_cpus_stay_idle() {
        let mut rounding = Rounding::default();
        let busy = snapshot(&[123_456_789]);
        let idle = snapshot(&[0]);
        rounding.round(&busy);
        assert_eq!(rounding.round(&idle), idle);
    }
}
