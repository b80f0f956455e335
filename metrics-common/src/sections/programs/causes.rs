//! The owners whose packets a program ran for.
//!
//! Their weights are times as they were found; the program's time is divided in proportion to them,
//! so that parts sum to it to the nanosecond, also after a log has rounded it.

use netto_estimate::Figure;
use serde::{Deserialize, Serialize};

use crate::confidence::{NS_PER_MS, rounded};
use crate::sections::owners::{Bounds, Owner, OwnerKind};
use crate::sort::sort_by_key;

/// Most owners of a program in an interval or a sum; those with the least time are
/// [`OwnerKind::Other`].
pub const MOST_CAUSES: usize = 8;

/// See the head of this file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Causes {
    /// Each owner once.
    owners: Vec<Weight>,
    /// The sum over intervals of the program's time, nanoseconds, times the time for which one
    /// independent sample of a cause stands, milliseconds; see [`crate::OwnerBasis::cause_ns_ms`].
    /// `None` in what an older netto has written, and in a sum that contains it.
    #[serde(default)]
    sample_ns_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Weight {
    owner: Owner,
    ns: u64,
}

/// A program's CPU time for an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cause<'a> {
    /// The owner of the packets.
    pub owner: &'a Owner,
    /// CPU time over all CPUs, nanoseconds.
    pub ns: u64,
    /// Its 95 % interval, which takes the program's time as given; `None` of an unknown owner.
    pub interval_ns: Option<Bounds>,
}

impl Causes {
    /// Nothing yet, of a time with this [`Causes::sample_ns_ms`].
    pub fn new(sample_ns_ms: u64) -> Causes {
        Causes {
            owners: Vec::new(),
            sample_ns_ms: Some(sample_ns_ms),
        }
    }

    /// Adds time for an owner, of whom more may be known than before.
    pub fn add(&mut self, owner: &Owner, ns: u64) {
        match self.owners.iter_mut().find(|own| own.owner.is(owner)) {
            Some(own) => {
                own.ns = own.ns.saturating_add(ns);
                own.owner.clone_from(owner);
            }
            None => self.owners.push(Weight {
                owner: owner.clone(),
                ns,
            }),
        }
    }

    /// Keeps the owners with the most time; the others are one.
    pub fn keep_largest(&mut self) {
        self.owners.retain(|own| own.ns > 0);
        if self.owners.len() <= MOST_CAUSES {
            return;
        }
        // Single kinds are few.
        let rank = |own: &Weight| (!own.owner.kind.is_single(), std::cmp::Reverse(own.ns));
        sort_by_key(&mut self.owners, rank);
        let rest = self.owners.split_off(MOST_CAUSES - 1);
        let rest_ns = rest.iter().map(|own| own.ns);
        let rest_ns = rest_ns.fold(0, u64::saturating_add);
        self.add(&Owner::single(OwnerKind::Other), rest_ns);
    }

    /// Adds those of a later interval.
    pub(super) fn add_later(&mut self, later: &Causes) {
        for more in &later.owners {
            self.add(&more.owner, more.ns);
        }
        self.keep_largest();
        self.sample_ns_ms =
            (self.sample_ns_ms.zip(later.sample_ns_ms)).map(|(sum, more)| sum.saturating_add(more));
    }

    /// Time of an interval without owners.
    pub(super) fn add_unknown(&mut self, ns: u64) {
        self.add(&Owner::single(OwnerKind::Unknown), ns);
        self.keep_largest();
    }

    pub(super) fn is_bounded(&self) -> bool {
        self.owners.len() <= MOST_CAUSES
    }

    /// Divides the program's time: those with the most first, what is unknown last.
    pub(super) fn of_time(&self, total_ns: u64) -> Vec<Cause<'_>> {
        let all: u128 = self.owners.iter().map(|own| u128::from(own.ns)).sum();
        let is_unknown = |owner: &Owner| owner.kind == OwnerKind::Unknown;
        let mut order: Vec<&Weight> = self.owners.iter().filter(|own| own.ns > 0).collect();
        sort_by_key(&mut order, |own| {
            (is_unknown(&own.owner), std::cmp::Reverse(own.ns))
        });
        let mut left_ns = total_ns;
        let mut causes: Vec<Cause<'_>> = Vec::with_capacity(order.len());
        for own in order {
            // At most the total, whose part it is.
            let ns = (u128::from(total_ns) * u128::from(own.ns) / all.max(1)) as u64;
            left_ns -= ns.min(left_ns);
            causes.push(Cause {
                owner: &own.owner,
                ns,
                interval_ns: None,
            });
        }
        match causes.first_mut() {
            Some(first) => first.ns += left_ns,
            None if total_ns > 0 => causes.push(Cause {
                owner: &UNKNOWN,
                ns: total_ns,
                interval_ns: None,
            }),
            None => {}
        }
        let known = causes.iter().filter(|own| !is_unknown(own.owner));
        let known_ns = known.map(|own| own.ns as f64).sum::<f64>();
        let Some(ns_ms) = self.sample_ns_ms else {
            return causes;
        };
        let weight_ns = ns_ms as f64 * NS_PER_MS / total_ns.max(1) as f64;
        let known = Figure::weighted(known_ns, weight_ns);
        for own in causes.iter_mut().filter(|own| !is_unknown(own.owner)) {
            let ns = own.ns as f64;
            let bounds = Figure::weighted(ns, weight_ns).part_of(&known);
            own.interval_ns = Some(rounded(bounds, ns));
        }
        causes
    }
}

static UNKNOWN: Owner = Owner::single(OwnerKind::Unknown);

impl Cause<'_> {
    /// Half of its interval, as a share of its time; `None` without.
    pub fn margin_ratio(&self) -> Option<f64> {
        let (low, high) = self.interval_ns?;
        Some((high - low) as f64 / 2.0 / self.ns.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(id: u64) -> Owner {
        Owner {
            id,
            ..Owner::single(OwnerKind::Cgroup)
        }
    }

    #[test]
    fn parts_sum_to_the_programs_time_and_what_is_unknown_is_last() {
        let mut causes = Causes::new(30);
        causes.add_unknown(500);
        causes.add(&group(1), 300);
        causes.add(&group(2), 100);
        let found = causes.of_time(1_000_001);
        let parts: Vec<_> = found.iter().map(|own| (own.owner.id, own.ns)).collect();
        assert_eq!(parts, [(1, 333_334), (2, 111_111), (0, 555_556)]);
        assert_eq!(found.iter().map(|own| own.ns).sum::<u64>(), 1_000_001);
        assert!(found[2].interval_ns.is_none() && found[0].interval_ns.is_some());
        // Of a time without any evidence, as of one that a log's rounding has moved.
        let nothing = Causes::default();
        assert_eq!(nothing.of_time(7)[0].owner.kind, OwnerKind::Unknown);
        assert!(nothing.of_time(0).is_empty());
    }

    #[test]
    fn intervals_are_those_of_independent_samples() {
        // A hundred milliseconds, and one sample in a millisecond.
        let mut causes = Causes::new(100_000_000);
        causes.add(&group(1), 75);
        causes.add(&group(2), 25);
        let found = causes.of_time(100_000_000);
        let (low, high) = found[0].interval_ns.unwrap();
        let expected = netto_estimate::proportion::wilson(0.75, 100.0);
        assert!(low.abs_diff((expected.0 * 1e8) as u64) <= 1, "{low}");
        assert!(
            high.abs_diff((expected.1 * 1e8).ceil() as u64) <= 1,
            "{high}"
        );
        assert!((0.05..0.15).contains(&found[0].margin_ratio().unwrap()));
    }

    #[test]
    fn a_sum_is_bounded_and_loses_no_time() {
        let mut sum = Causes::new(0);
        for id in 1..=1_000 {
            let mut later = Causes::new(1);
            later.add(&group(id), id);
            later.add_unknown(1);
            sum.add_later(&later);
        }
        assert!(sum.is_bounded());
        assert_eq!(sum.owners.iter().map(|own| own.ns).sum::<u64>(), 501_500);
        assert_eq!(sum.sample_ns_ms, Some(1_000));
        let largest = sum.of_time(501_500);
        assert!(largest.iter().any(|own| own.owner.id == 1_000));
        assert!(largest.iter().any(|own| own.owner.kind == OwnerKind::Other));
    }
}
