//! Whose networking's CPU time was, over a series of intervals: the largest owners, and who took
//! most from whom. Pure, and bounded by what a sum of owners keeps apart.

use metrics_common::component::index_of;
use metrics_common::sections::{Account, Columns, Section};
use metrics_common::{OwnerKind, Owners, Snapshot};
use serde::Serialize;

/// So many owners stand by themselves.
const MOST_OWNERS: usize = 20;

/// Adds up the owners of intervals.
#[derive(Debug, Clone, Default)]
pub struct OwnersSum {
    sum: Option<Owners>,
    measured_ns: u64,
}

/// What they came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OwnersSummary {
    /// Length of the intervals that have owners, nanoseconds.
    pub measured_ns: u64,
    /// What all owners caused, nanoseconds over all CPUs.
    pub total_ns: u64,
    /// The owners, the largest first.
    pub owners: Vec<OwnerSummary>,
    /// Of owners with a name, who took most softirq time from another.
    pub largest_pair: Option<Pair>,
}

/// An owner.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OwnerSummary {
    /// Its name for people.
    pub label: String,
    /// What it is.
    pub kind: OwnerKind,
    /// What it caused and paid.
    #[serde(flatten)]
    pub account: Account,
}

/// Who took softirq time from whom.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// Name for people of who caused it.
    pub cause: String,
    /// Name for people of who was interrupted.
    pub payer: String,
    /// CPU time, nanoseconds.
    pub ns: u64,
}

impl OwnersSum {
    /// Adds an interval; one without owners adds nothing.
    pub fn interval(&mut self, snapshot: &Snapshot) {
        if let Some(owners) = &snapshot.sections.owners {
            let sum = self.sum.get_or_insert_default();
            sum.add(owners, &Columns::folded());
            self.measured_ns = self.measured_ns.saturating_add(snapshot.interval_ns);
        }
    }

    /// What they came to, of the component with this slug and its parts; `None` where no
    /// interval has owners.
    pub fn finish(self, component: Option<&str>) -> Option<OwnersSummary> {
        let sum = self.sum?;
        let sum = match component.and_then(index_of) {
            Some(component) => sum.of_component(component),
            None => sum,
        };
        let totals = sum.totals_ns();
        let pair = sum.largest_pair();
        let label = |place: u32| sum.owners[place as usize].label();
        let largest = sum.largest(MOST_OWNERS);
        let owners = largest.owners.iter().zip(largest.accounts());
        Some(OwnersSummary {
            measured_ns: self.measured_ns,
            total_ns: totals.into_iter().fold(0, u64::saturating_add),
            owners: owners
                .filter(|(_, account)| account.weight_ns() > 0)
                .map(|(owner, account)| OwnerSummary {
                    label: owner.label(),
                    kind: owner.kind,
                    account,
                })
                .collect(),
            largest_pair: pair.map(|taken| Pair {
                cause: label(taken.cause),
                payer: label(taken.payer),
                ns: taken.ns,
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::sections::{Caused, Taken};
    use metrics_common::{Owner, Sections};

    use super::*;

    fn interval(ns: u64) -> Snapshot {
        let group = |id| Owner {
            id,
            unit: format!("{id}.service"),
            ..Owner::single(OwnerKind::Cgroup)
        };
        let mut owners = Owners::default();
        let (cause, payer) = (owners.place_of(&group(1)), owners.place_of(&group(2)));
        for (owner, slug) in [(cause, "gro"), (payer, "send_copy")] {
            owners.caused.push(Caused {
                owner,
                component: index_of(slug).unwrap() as u32,
                cpu_ns: vec![ns, ns],
            });
        }
        owners.taken.push(Taken { cause, payer, ns });
        Snapshot {
            interval_ns: 1_000,
            cpus: vec![0, 1],
            sections: Sections {
                owners: Some(owners),
                ..Sections::default()
            },
            ..Snapshot::default()
        }
    }

    #[test]
    fn owners_of_intervals_add_up_and_a_component_has_its_own() {
        let mut sum = OwnersSum::default();
        sum.interval(&interval(10));
        sum.interval(&Snapshot::default());
        sum.interval(&interval(5));
        let all = sum.clone().finish(None).unwrap();
        assert_eq!((all.measured_ns, all.total_ns), (2_000, 60));
        assert_eq!(all.owners[0].label, "2.service", "it caused 30 and paid 15");
        let pair = all.largest_pair.unwrap();
        let named = (pair.cause.as_str(), pair.payer.as_str(), pair.ns);
        assert_eq!(named, ("1.service", "2.service", 15));
        let of_one = sum.finish(Some("rx_softirq")).unwrap();
        assert_eq!(of_one.total_ns, 30);
        assert_eq!(of_one.owners[0].label, "1.service");
        assert_eq!(OwnersSum::default().finish(None), None);
    }
}
