//! Divides a program's time in each event on a CPU among the owners of the packets that it ran for, by the
//! samples there whose owner is known: of the interval, else of late, else by those of all CPUs, else
//! nobody knows. CPUs are sampled at unlike rates, and each has owners of its own.

use metrics_common::sections::Causes;
use metrics_common::{Owner, OwnerKind};
use netto_analysis::fading::fade;
use rustc_hash::FxHashMap;

/// Most owners kept of a program and event on a CPU, and of all CPUs; above that, the lightest are forgotten. A
/// host of 128 CPUs has as many pools of each program.
const MOST: usize = 16;

type Weights = Vec<(Owner, f64)>;

#[derive(Debug, Default)]
struct Pool {
    now: Weights,
    past: Weights,
    /// For how long one independent sample stands, milliseconds.
    sample_ms: f64,
}

impl Pool {
    fn begin(&mut self, interval_ns: u64) {
        for (owner, weight) in self.now.drain(..) {
            add(&mut self.past, owner, weight);
        }
        fade(&mut self.past, interval_ns, MOST);
    }

    /// Those of the interval, else of late; `None` without any.
    fn weights(&self) -> Option<&Weights> {
        let weights = [&self.now, &self.past].into_iter();
        weights.into_iter().find(|weights| !weights.is_empty())
    }
}

/// Where a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) slot: usize,
    /// Row of the event.
    pub(crate) event: usize,
    /// `None` is all of them.
    pub(crate) cpu: Option<usize>,
}

fn add(weights: &mut Weights, owner: Owner, weight: f64) {
    match weights.iter_mut().find(|(known, _)| known.is(&owner)) {
        Some(known) => *known = (owner, known.1 + weight),
        None => weights.push((owner, weight)),
    }
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    pools: FxHashMap<Place, Pool>,
}

impl Evidence {
    /// Begins an interval of this length.
    pub(crate) fn begin(&mut self, interval_ns: u64) {
        let pools = self.pools.values_mut();
        pools.for_each(|pool| pool.begin(interval_ns));
        self.pools.retain(|_, pool| !pool.past.is_empty());
    }

    /// Adds samples of the interval by their weights, of which an independent one stands for so long.
    pub(crate) fn add(&mut self, place: Place, owner: &Owner, weight: f64, sample_ms: f64) {
        for cpu in [place.cpu, None] {
            let pool = self.pools.entry(Place { cpu, ..place }).or_default();
            // Of all CPUs, that of the least sampled one.
            pool.sample_ms = if pool.now.is_empty() {
                sample_ms
            } else {
                pool.sample_ms.max(sample_ms)
            };
            add(&mut pool.now, owner.clone(), weight);
        }
    }

    /// Divides the time that a program took.
    pub(crate) fn divide(&self, place: Place, ns: u64, causes: &mut Causes) {
        let pools = [place.cpu, None].map(|cpu| self.pools.get(&Place { cpu, ..place }));
        let mut known = pools.into_iter().flatten();
        let known = known.find_map(|pool| Some((pool.weights()?, pool.sample_ms)));
        let Some((weights, sample_ms)) = known else {
            causes.add(&Owner::single(OwnerKind::Unknown), ns, None);
            return;
        };
        let all: f64 = weights.iter().map(|(_, weight)| weight).sum();
        for (owner, weight) in weights {
            let ns = ns as f64 * weight / all;
            causes.add(owner, ns as u64, Some((ns * sample_ms).ceil() as u64));
        }
    }

    /// Forgets what had this slot.
    pub(crate) fn forget(&mut self, slot: usize) {
        self.pools.retain(|place, _| place.slot != slot);
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::sections::Program;

    use super::*;

    const EVENT: usize = 3;
    const SECOND_NS: u64 = 1_000_000_000;

    fn group(id: u64) -> Owner {
        Owner {
            id,
            ..Owner::single(OwnerKind::Cgroup)
        }
    }

    fn place(slot: usize, event: usize) -> Place {
        let cpu = Some(0);
        Place { slot, event, cpu }
    }

    /// The parts of a time in slot 0, by the numbers of owners.
    fn parts(evidence: &Evidence, event: usize, ns: u64) -> Vec<(OwnerKind, u64, u64)> {
        let mut causes = Causes::default();
        evidence.divide(place(0, event), ns, &mut causes);
        let program = Program {
            cpu_ns: vec![ns],
            causes: Some(causes),
            ..Program::default()
        };
        let causes = program.causes().into_iter();
        causes
            .map(|cause| (cause.owner.kind, cause.owner.id, cause.ns))
            .collect()
    }

    #[test]
    fn time_is_divided_by_samples_of_the_interval_then_earlier_ones_then_it_is_unknown() {
        let mut evidence = Evidence::default();
        assert_eq!(parts(&evidence, EVENT, 100), [(OwnerKind::Unknown, 0, 100)]);
        evidence.add(place(0, EVENT), &group(1), 3.0, 1.0);
        evidence.add(place(0, EVENT), &group(2), 1.0, 1.0);
        evidence.add(place(1, EVENT), &group(9), 1.0, 1.0);
        let both = [(OwnerKind::Cgroup, 1, 75), (OwnerKind::Cgroup, 2, 25)];
        assert_eq!(parts(&evidence, EVENT, 100), both);
        evidence.begin(SECOND_NS);
        assert_eq!(parts(&evidence, EVENT, 100), both);
        evidence.add(place(0, EVENT), &group(2), 1.0, 1.0);
        assert_eq!(parts(&evidence, EVENT, 100), [(OwnerKind::Cgroup, 2, 100)]);
        assert_eq!(
            parts(&evidence, EVENT + 1, 100),
            [(OwnerKind::Unknown, 0, 100)]
        );
        evidence.begin(60 * SECOND_NS);
        assert!(evidence.pools.is_empty());
    }

    #[test]
    fn each_cpu_has_its_owners_and_those_of_all_stand_for_a_cpu_without_any() {
        let mut evidence = Evidence::default();
        let on = |cpu| Place {
            cpu: Some(cpu),
            ..place(0, EVENT)
        };
        // A CPU that is sampled a hundredth as often.
        evidence.add(on(0), &group(1), 1.0, 100.0);
        evidence.add(on(1), &group(2), 99.0, 1.0);
        let ids = |cpu| {
            let mut causes = Causes::default();
            evidence.divide(on(cpu), 100, &mut causes);
            let program = Program {
                cpu_ns: vec![100],
                causes: Some(causes),
                ..Program::default()
            };
            let causes = program.causes().into_iter();
            causes
                .map(|cause| (cause.owner.id, cause.ns))
                .collect::<Vec<_>>()
        };
        assert_eq!((ids(0), ids(1)), (vec![(1, 100)], vec![(2, 100)]));
        assert_eq!(ids(2), [(2, 99), (1, 1)]);
    }

    #[test]
    fn the_interval_of_a_part_is_that_of_so_many_samples_of_the_time() {
        let mut evidence = Evidence::default();
        evidence.add(place(0, EVENT), &group(1), 3.0, 10.0);
        evidence.add(place(0, EVENT), &group(2), 1.0, 10.0);
        let mut causes = Causes::default();
        // A hundred independent samples, each of which stands for ten milliseconds.
        evidence.divide(place(0, EVENT), SECOND_NS, &mut causes);
        let program = Program {
            cpu_ns: vec![SECOND_NS],
            causes: Some(causes),
            ..Program::default()
        };
        let cause = program.causes()[0];
        let (low, high) = cause.interval_ns.unwrap();
        let (least, most) = netto_estimate::proportion::wilson(0.75, 100.0);
        assert_eq!(cause.ns, SECOND_NS / 4 * 3);
        for (bound, ratio) in [(low, least), (high, most)] {
            let ratio_found = bound as f64 / SECOND_NS as f64;
            assert!((ratio_found - ratio).abs() < 1e-6, "{ratio_found} {ratio}");
        }
    }

    #[test]
    fn what_is_learnt_of_an_owner_replaces_what_was_known_and_a_new_program_has_none() {
        let mut evidence = Evidence::default();
        evidence.add(place(0, EVENT), &group(1), 1.0, 1.0);
        let named = Owner {
            cgroup: "/web".to_owned(),
            ..group(1)
        };
        evidence.add(place(0, EVENT), &named, 1.0, 1.0);
        let [(owner, weight)] = &evidence.pools[&place(0, EVENT)].now[..] else {
            panic!("it is one owner");
        };
        assert_eq!((owner.cgroup.as_str(), *weight), ("/web", 2.0));
        evidence.forget(0);
        assert_eq!(parts(&evidence, EVENT, 1), [(OwnerKind::Unknown, 0, 1)]);
    }

    #[test]
    fn the_past_takes_bounded_memory() {
        let mut evidence = Evidence::default();
        for id in 0..1_000 {
            evidence.add(place(0, EVENT), &group(id), 1.0, 1.0);
            evidence.begin(1_000_000);
        }
        assert_eq!(evidence.pools[&place(0, EVENT)].past.len(), MOST);
    }
}
