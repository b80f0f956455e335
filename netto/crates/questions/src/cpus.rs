//! A selection of a host's CPUs, and the part of a snapshot for them. Pure.

use std::str::FromStr;

use metrics_common::sections::Rows;
use metrics_common::{Cost, CpuModes, Modes, OwnCost, Sections, Snapshot};

/// CPU numbers as written by users: `0-3,8`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuSet {
    /// First and last of each run.
    runs: Vec<(u32, u32)>,
    text: String,
}

impl FromStr for CpuSet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let run = |part: &str| -> Option<(u32, u32)> {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (first <= last).then_some((first, last))
        };
        let runs: Option<Vec<_>> = text.split(',').map(run).collect();
        let runs = runs.ok_or("write CPUs as 0-3,8")?;
        Ok(CpuSet {
            runs,
            text: text.to_owned(),
        })
    }
}

impl CpuSet {
    /// Whether this CPU is one of them.
    pub fn holds(&self, cpu: u32) -> bool {
        let mut runs = self.runs.iter();
        runs.any(|&(first, last)| (first..=last).contains(&cpu))
    }

    /// The original text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The part of a snapshot for these CPUs. Power and the time of netto's process exist only for
    /// the host, and are absent.
    pub fn of(&self, snapshot: Snapshot) -> Snapshot {
        let kept: Vec<usize> = (0..snapshot.cpus.len())
            .filter(|&column| self.holds(snapshot.cpus[column]))
            .collect();
        let Snapshot {
            sequence,
            time_unix_ns,
            interval_ns,
            cpus,
            sections,
        } = snapshot;
        let Sections {
            cost,
            modes,
            own: own_cost,
            ..
        } = sections;
        Snapshot {
            sequence,
            time_unix_ns,
            interval_ns,
            cpus: columns(&cpus, &kept),
            sections: Sections {
                cost: cost.map(|cost| Cost {
                    components: rows(&cost.components, &kept),
                    samples: rows(&cost.samples, &kept),
                    entries: rows(&cost.entries, &kept),
                    ksoftirqd_rx_ns: cost.ksoftirqd_rx_ns.map(|row| columns(&row, &kept)),
                    stacks_taken: columns(&cost.stacks_taken, &kept),
                    stacks_lost: columns(&cost.stacks_lost, &kept),
                    // That of all CPUs is not that of some.
                    sample_ns_ms: cost.sample_ns_ms.filter(|_| kept.len() == cpus.len()),
                    ticks_shared_ns: cost.ticks_shared_ns.filter(|_| kept.len() == cpus.len()),
                    ..cost
                }),
                modes: modes.map(|modes| {
                    let cpus = columns(&modes.cpus, &kept);
                    let mut host = [0_u64; CpuModes::NAMES.len()];
                    for modes in &cpus {
                        for (sum, ns) in host.iter_mut().zip(modes.values()) {
                            *sum = sum.saturating_add(ns);
                        }
                    }
                    Modes {
                        cpus,
                        host: CpuModes::from_values(host),
                    }
                }),
                own: own_cost.map(|own_cost| OwnCost {
                    taken_ns: rows(&own_cost.taken_ns, &kept),
                    ..OwnCost::default()
                }),
                ..Sections::default()
            },
        }
    }
}

fn columns<T: Clone + Default>(row: &[T], kept: &[usize]) -> Vec<T> {
    let column = |&column: &usize| row.get(column).cloned().unwrap_or_default();
    kept.iter().map(column).collect()
}

fn rows<T: Clone + Default>(rows: &Rows<T>, kept: &[usize]) -> Rows<T> {
    let some = |row: &Option<Vec<T>>| row.as_ref().map(|row| columns(row, kept));
    rows.iter().map(some).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_written_as_the_kernel_writes_them() {
        let set: CpuSet = "0-3,8".parse().unwrap();
        let held: Vec<u32> = (0..10).filter(|&cpu| set.holds(cpu)).collect();
        assert_eq!(held, [0, 1, 2, 3, 8]);
        for text in ["", "a", "3-1", "1-", "-1", "1,,2", "99999999999"] {
            assert!(text.parse::<CpuSet>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_snapshot_of_some_cpus_has_only_their_columns() {
        let snapshot = Snapshot {
            cpus: vec![0, 2, 5],
            interval_ns: 7,
            sections: Sections {
                cost: Some(Cost {
                    components: vec![Some(vec![1, 2, 3]), None],
                    samples: vec![None, Some(vec![4, 5, 6])],
                    // A short row, which no daemon writes.
                    stacks_taken: vec![9],
                    ..Cost::default()
                }),
                power: Some(Default::default()),
                ..Sections::default()
            },
            ..Snapshot::default()
        };
        let some = "2-9".parse::<CpuSet>().unwrap().of(snapshot);
        assert_eq!(some.cpus, [2, 5]);
        assert_eq!(some.capacity_ns(), 14);
        let cost = some.cost();
        assert_eq!(cost.components, [Some(vec![2, 3]), None]);
        assert_eq!(cost.samples, [None, Some(vec![5, 6])]);
        assert_eq!(cost.stacks_taken, [0, 0]);
        assert_eq!(some.sections.power, None);
    }
}
