//! Totals for the series of control groups: they never decrease, and the number of groups is
//! bounded.
//!
//! A sum over snapshots is unsuitable: it keeps processes, which have no series, and forgets
//! owners, whose time then counts elsewhere. Here time is counted for its owner at that moment, and
//! stays there. When the table is full, a new group replaces the one that has been inactive for
//! longest; that group's series end, and its past time is not counted again. Pure.

use std::collections::BTreeMap;

use metrics_common::sections::event_of;
use metrics_common::{Owner, Owners};

/// Most groups and interfaces with series of their own.
pub const LIMIT: usize = 200;

/// The owner of a series, as in the series' labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// The kind: `cgroup`, `process` (of no known group), `interface`, `nobody`, `unknown`, `other`, and, for
    /// payers only, `idle` and `kernel`.
    pub kind: &'static str,
    /// Path of the control group.
    pub cgroup: String,
    /// Identity of the container.
    pub container: String,
    /// Name of the pod.
    pub pod: String,
    /// Namespace of the pod.
    pub namespace: String,
}

impl Name {
    /// The values of the labels owner, cgroup, container, pod and namespace.
    pub fn labels(&self) -> [&str; 5] {
        [
            self.kind,
            &self.cgroup,
            &self.container,
            &self.pod,
            &self.namespace,
        ]
    }

    fn of(owner: &Owner) -> Name {
        Name {
            cgroup: owner.cgroup.clone(),
            container: owner.container.clone(),
            pod: owner.pod.clone(),
            namespace: owner.namespace.clone(),
            ..Name::bare(owner.series_kind())
        }
    }

    fn bare(kind: &'static str) -> Name {
        Name {
            kind,
            cgroup: String::new(),
            container: String::new(),
            pod: String::new(),
            namespace: String::new(),
        }
    }

    /// Whether there may be many of its kind.
    fn is_one_of_many(&self) -> bool {
        matches!(self.kind, "cgroup" | "interface")
    }
}

/// Totals of one name, nanoseconds over all CPUs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OwnerTotal {
    /// Time that it caused, by the row of the event.
    pub caused_ns: BTreeMap<usize, u64>,
    /// Softirq time that others caused and it paid for; `None` before the first.
    pub paid_ns: Option<u64>,
    /// Time that softirqs and interrupts stole from its tasks, whoever caused it; `None` before the
    /// first.
    pub stalled_ns: Option<u64>,
    /// The kernel's account of that, for all softirqs and interrupts; `None` where it has none.
    pub pressure_ns: Option<u64>,
    /// Number of the last interval with either.
    last: u64,
}

/// See the head of this file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OwnerTotals {
    names: BTreeMap<Name, OwnerTotal>,
    intervals: u64,
    given_up: u64,
}

impl OwnerTotals {
    /// Adds an interval.
    pub fn add(&mut self, owners: &Owners) {
        self.intervals += 1;
        // Largest first, so that they get the free slots.
        let owners = owners.largest(usize::MAX);
        let names: Vec<Name> = owners.owners.iter().map(Name::of).collect();
        let accounts = owners.accounts();
        let mut known: Vec<&Name> = Vec::new();
        for (name, account) in names.iter().zip(&accounts) {
            if account.weight_ns() > 0 && !known.contains(&name) {
                known.push(name);
            }
        }
        for name in &known {
            if let Some(total) = self.names.get_mut(*name) {
                total.last = self.intervals;
            }
        }
        for name in known {
            self.make_room_for(name);
        }
        for caused in &owners.caused {
            let ns = caused
                .cpu_ns
                .iter()
                .fold(0, |sum: u64, ns| sum.saturating_add(*ns));
            let Some(name) = names.get(caused.owner as usize).filter(|_| ns > 0) else {
                continue;
            };
            let event = event_of(caused.component as usize);
            let total = self.total_of(name).caused_ns.entry(event).or_default();
            *total = total.saturating_add(ns);
        }
        for taken in owners.taken.iter().filter(|taken| taken.ns > 0) {
            let name = |place: u32| names.get(place as usize);
            let (Some(cause), Some(payer)) = (name(taken.cause), name(taken.payer)) else {
                continue;
            };
            // A group that interrupts itself pays nothing.
            if cause != payer {
                let total = self.total_of(payer).paid_ns.get_or_insert_default();
                *total = total.saturating_add(taken.ns);
            }
        }
        let stalls = names.iter().zip(accounts).zip(&owners.irq_pressure_ns);
        for ((name, account), pressure_ns) in stalls {
            if account.stalled_ns > 0 {
                let total = self.total_of(name).stalled_ns.get_or_insert_default();
                *total = total.saturating_add(account.stalled_ns);
            }
            if let Some(total) = self.names.get_mut(name)
                && let Some(ns) = pressure_ns
            {
                let total = total.pressure_ns.get_or_insert_default();
                *total = total.saturating_add(*ns);
            }
        }
    }

    /// Ensures a slot for this name, if one is free or can be taken from another.
    fn make_room_for(&mut self, name: &Name) {
        if self.names.contains_key(name) {
            return;
        }
        let many = self.names.iter().filter(|(name, _)| name.is_one_of_many());
        if name.is_one_of_many() && many.clone().count() >= LIMIT {
            let idle = many.filter(|(_, total)| total.last < self.intervals);
            let longest = idle.min_by_key(|(_, total)| total.last);
            let Some(oldest) = longest.map(|(name, _)| name.clone()) else {
                return;
            };
            self.names.remove(&oldest);
            self.given_up += 1;
        }
        let total = OwnerTotal {
            last: self.intervals,
            ..OwnerTotal::default()
        };
        self.names.insert(name.clone(), total);
    }

    /// The total that counts this name's time: its own, or that of all others.
    fn total_of(&mut self, name: &Name) -> &mut OwnerTotal {
        let name = if self.names.contains_key(name) || !name.is_one_of_many() {
            name.clone()
        } else {
            Name::bare("other")
        };
        self.names.entry(name).or_default()
    }

    /// Every name with its totals.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &OwnerTotal)> {
        self.names.iter()
    }

    /// Number of names whose series ended because another name took the slot; `None` before the
    /// first interval.
    pub fn given_up(&self) -> Option<u64> {
        (self.intervals > 0).then_some(self.given_up)
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::OwnerKind;
    use metrics_common::component::index_of;
    use metrics_common::sections::{Caused, Interruption};
    use proptest::prelude::*;

    use super::*;

    fn group(id: u64) -> Owner {
        Owner {
            id,
            cgroup: format!("/g{id}"),
            ..Owner::single(OwnerKind::Cgroup)
        }
    }

    fn process(id: u64, pid: u32) -> Owner {
        Owner {
            kind: OwnerKind::Process,
            pid,
            comm: "iperf3".to_owned(),
            ..group(id)
        }
    }

    /// An interval in which each of these caused GRO on one CPU, with its payers.
    fn of(causes: &[(Owner, u64, Owner)]) -> Owners {
        let mut owners = Owners::default();
        for (cause, ns, payer) in causes {
            let (cause, payer) = (owners.place_of(cause), owners.place_of(payer));
            owners.caused.push(Caused {
                owner: cause,
                component: index_of("gro").unwrap() as u32,
                cpu_ns: vec![*ns],
            });
            owners.taken.push(Interruption {
                cause,
                payer,
                ns: *ns,
            });
        }
        owners
    }

    fn idle() -> Owner {
        Owner::single(OwnerKind::Idle)
    }

    fn caused(totals: &OwnerTotals, cgroup: &str) -> Option<u64> {
        let mut all = totals.iter();
        let found = all.find(|(name, _)| name.kind == "cgroup" && name.cgroup == cgroup);
        found.map(|(_, total)| total.caused_ns.values().sum())
    }

    #[test]
    fn processes_are_their_groups_and_what_a_group_takes_from_itself_is_not_paid_for_others() {
        let mut totals = OwnerTotals::default();
        totals.add(&of(&[
            (process(7, 1), 10, process(7, 2)),
            (process(7, 2), 5, process(8, 3)),
            (process(0, 9), 1, idle()),
        ]));
        assert_eq!(caused(&totals, "/g7"), Some(15));
        let paid = |cgroup: &str| {
            let mut all = totals.iter();
            let found = all.find(|(name, _)| name.cgroup == cgroup);
            found.and_then(|(_, total)| total.paid_ns)
        };
        assert_eq!((paid("/g7"), paid("/g8")), (None, Some(5)));
        let stalled = |kind: &str, cgroup: &str| {
            let mut all = totals.iter();
            let found = all.find(|(name, _)| (name.kind, name.cgroup.as_str()) == (kind, cgroup));
            found.and_then(|(_, total)| total.stalled_ns)
        };
        let stalls = (stalled("cgroup", "/g7"), stalled("cgroup", "/g8"));
        assert_eq!(stalls, (Some(10), Some(5)), "by whomever");
        assert_eq!(stalled("idle", ""), None);
        let events: Vec<usize> = totals
            .iter()
            .flat_map(|(_, t)| t.caused_ns.keys().copied())
            .collect();
        assert!(
            events
                .iter()
                .all(|&event| event == index_of("rx_softirq").unwrap())
        );
    }

    #[test]
    fn the_kernels_pressure_stands_beside_the_stall_where_it_has_one() {
        let mut totals = OwnerTotals::default();
        let mut owners = of(&[(group(1), 10, group(1)), (group(2), 5, group(1))]);
        let place = owners.place_of(&group(1)) as usize;
        owners.irq_pressure_ns[place] = Some(20);
        totals.add(&owners);
        totals.add(&owners);
        let of_group = |cgroup: &str| {
            let mut all = totals.iter();
            let (_, total) = all.find(|(name, _)| name.cgroup == cgroup).unwrap();
            (total.stalled_ns, total.pressure_ns)
        };
        assert_eq!(of_group("/g1"), (Some(30), Some(40)));
        assert_eq!(of_group("/g2"), (None, None));
    }

    #[test]
    fn who_comes_when_there_is_no_room_takes_the_place_of_who_did_nothing_for_longest() {
        let mut totals = OwnerTotals::default();
        let all: Vec<_> = (0..LIMIT as u64)
            .map(|id| (group(id), 100, idle()))
            .collect();
        totals.add(&of(&all));
        totals.add(&of(&all[1..]));
        totals.add(&of(&[(group(9_999), 3, idle())]));
        assert_eq!(caused(&totals, "/g0"), None);
        assert_eq!(caused(&totals, "/g9999"), Some(3));
        assert_eq!(totals.given_up(), Some(1));
        assert_eq!(caused(&totals, "/g1"), Some(200), "the others stay");
        // A name that returns starts at zero.
        totals.add(&of(&[(group(0), 1, idle())]));
        assert_eq!(caused(&totals, "/g0"), Some(1));
    }

    proptest! {
        #[test]
        fn no_series_ever_falls_and_no_interval_is_lost(
            intervals in prop::collection::vec(prop::collection::vec((0_u64..600, 1_u64..1_000), 0..300), 1..12)
        ) {
            let mut totals = OwnerTotals::default();
            for interval in intervals {
                let all: Vec<_> = interval.iter().map(|&(id, ns)| (group(id), ns, idle())).collect();
                let before = totals.clone();
                totals.add(&of(&all));
                let mut grown = 0;
                for (name, total) in totals.iter() {
                    let was = before.names.get(name).cloned().unwrap_or_default();
                    for (event, ns) in &total.caused_ns {
                        let was = was.caused_ns.get(event).copied().unwrap_or(0);
                        prop_assert!(*ns >= was);
                        grown += ns - was;
                    }
                }
                prop_assert_eq!(grown, interval.iter().map(|(_, ns)| ns).sum::<u64>());
                let many = totals.iter().filter(|(name, _)| name.is_one_of_many()).count();
                prop_assert!(many <= LIMIT);
            }
        }
    }
}
