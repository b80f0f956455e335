//! Divides a program's time in each event among the owners of the packets that it ran for, by the
//! samples whose owner is known: of the interval, else of late, else nobody knows.

use metrics_common::sections::Causes;
use metrics_common::{Owner, OwnerKind};
use netto_analysis::fading::fade;
use rustc_hash::FxHashMap;

/// Most owners kept of a program and event; above that, the lightest are forgotten.
const MOST: usize = 64;

type Weights = Vec<(Owner, f64)>;

#[derive(Debug, Default)]
struct Pool {
    now: Weights,
    past: Weights,
}

impl Pool {
    fn begin(&mut self, interval_ns: u64) {
        for (owner, weight) in self.now.drain(..) {
            add(&mut self.past, owner, weight);
        }
        fade(&mut self.past, interval_ns, MOST);
    }
}

fn add(weights: &mut Weights, owner: Owner, weight: f64) {
    match weights.iter_mut().find(|(known, _)| known.is(&owner)) {
        Some(own) => *own = (owner, own.1 + weight),
        None => weights.push((owner, weight)),
    }
}

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// By slot of the program and row of the event.
    pools: FxHashMap<(usize, usize), Pool>,
}

impl Evidence {
    /// Begins an interval of this length.
    pub(crate) fn begin(&mut self, interval_ns: u64) {
        let pools = self.pools.values_mut();
        pools.for_each(|pool| pool.begin(interval_ns));
        self.pools.retain(|_, pool| !pool.past.is_empty());
    }

    /// Adds samples of the interval.
    pub(crate) fn add(&mut self, slot: usize, event: usize, owner: Owner, samples: u32) {
        let pool = self.pools.entry((slot, event)).or_default();
        add(&mut pool.now, owner, f64::from(samples));
    }

    /// Divides the time that a program took in an event.
    pub(crate) fn divide(&self, slot: usize, event: usize, ns: u64, causes: &mut Causes) {
        let pool = self.pools.get(&(slot, event));
        let weights = pool.into_iter().flat_map(|pool| [&pool.now, &pool.past]);
        let Some(weights) = weights.into_iter().find(|weights| !weights.is_empty()) else {
            causes.add(&Owner::single(OwnerKind::Unknown), ns);
            return;
        };
        let all: f64 = weights.iter().map(|(_, weight)| weight).sum();
        for (owner, weight) in weights {
            causes.add(owner, (ns as f64 * weight / all) as u64);
        }
    }

    /// Forgets what had this slot.
    pub(crate) fn forget(&mut self, slot: usize) {
        self.pools.retain(|(own, _), _| *own != slot);
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

    /// The parts of a time in slot 0, by the numbers of owners.
    fn parts(evidence: &Evidence, event: usize, ns: u64) -> Vec<(OwnerKind, u64, u64)> {
        let mut causes = Causes::default();
        evidence.divide(0, event, ns, &mut causes);
        let program = Program {
            cpu_ns: vec![ns],
            causes: Some(causes),
            ..Program::default()
        };
        let causes = program.causes().into_iter();
        causes
            .map(|own| (own.owner.kind, own.owner.id, own.ns))
            .collect()
    }

    #[test]
    fn time_is_divided_by_samples_of_the_interval_then_earlier_ones_then_it_is_unknown() {
        let mut evidence = Evidence::default();
        assert_eq!(parts(&evidence, EVENT, 100), [(OwnerKind::Unknown, 0, 100)]);
        evidence.add(0, EVENT, group(1), 3);
        evidence.add(0, EVENT, group(2), 1);
        evidence.add(1, EVENT, group(9), 1);
        let both = [(OwnerKind::Cgroup, 1, 75), (OwnerKind::Cgroup, 2, 25)];
        assert_eq!(parts(&evidence, EVENT, 100), both);
        evidence.begin(SECOND_NS);
        assert_eq!(parts(&evidence, EVENT, 100), both);
        evidence.add(0, EVENT, group(2), 1);
        assert_eq!(parts(&evidence, EVENT, 100), [(OwnerKind::Cgroup, 2, 100)]);
        assert_eq!(
            parts(&evidence, EVENT + 1, 100),
            [(OwnerKind::Unknown, 0, 100)]
        );
        evidence.begin(60 * SECOND_NS);
        assert!(evidence.pools.is_empty());
    }

    #[test]
    fn what_is_learnt_of_an_owner_replaces_what_was_known_and_a_new_program_has_none() {
        let mut evidence = Evidence::default();
        evidence.add(0, EVENT, group(1), 1);
        let named = Owner {
            cgroup: "/web".to_owned(),
            ..group(1)
        };
        evidence.add(0, EVENT, named, 1);
        let [(owner, weight)] = &evidence.pools[&(0, EVENT)].now[..] else {
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
            evidence.add(0, EVENT, group(id), 1);
            evidence.begin(1_000_000);
        }
        assert_eq!(evidence.pools[&(0, EVENT)].past.len(), MOST);
    }
}
