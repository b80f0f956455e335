//! The owners whose packets a program ran for.
//!
//! Their weights are times as they were found; the program's time is divided in proportion to them,
//! so that parts sum to it to the nanosecond, also after a log has rounded it.

use netto_estimate::Figure;
use serde::{Deserialize, Serialize};

use crate::confidence::{figure, rounded};
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
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Weight {
    owner: Owner,
    ns: u64,
    /// The sum over CPUs and intervals of that time × the time for which one independent sample stands
    /// there, nanoseconds × milliseconds; see [`crate::OwnerBasis::cause_ns_ms`]. `None` in what an older
    /// netto has written, and in a sum that contains it.
    #[serde(default)]
    sample_ns_ms: Option<u64>,
}

impl Weight {
    fn add(&mut self, ns: u64, sample_ns_ms: Option<u64>) {
        self.ns = self.ns.saturating_add(ns);
        self.sample_ns_ms =
            (self.sample_ns_ms.zip(sample_ns_ms)).map(|(sum, more)| sum.saturating_add(more));
    }

    /// The figure of so much of the program's time.
    fn figure(&self, ns: u64) -> Option<Figure> {
        let found = figure(self.ns.max(1) as f64, self.sample_ns_ms?);
        Some(Figure::weighted(ns as f64, found.weight()?))
    }
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
    /// Adds time for an owner, of whom more may be known than before, and that time × the time for which
    /// one independent sample stands, nanoseconds × milliseconds.
    pub fn add(&mut self, owner: &Owner, ns: u64, sample_ns_ms: Option<u64>) {
        match self.owners.iter_mut().find(|known| known.owner.is(owner)) {
            Some(known) => {
                known.add(ns, sample_ns_ms);
                known.owner.clone_from(owner);
            }
            None => self.owners.push(Weight {
                owner: owner.clone(),
                ns,
                sample_ns_ms,
            }),
        }
    }

    /// Keeps the owners with the most time; the others are one.
    pub fn keep_largest(&mut self) {
        self.owners.retain(|weight| weight.ns > 0);
        if self.owners.len() <= MOST_CAUSES {
            return;
        }
        // Single kinds are few.
        let rank = |weight: &Weight| (!weight.owner.kind.is_single(), std::cmp::Reverse(weight.ns));
        sort_by_key(&mut self.owners, rank);
        let other = Owner::single(OwnerKind::Other);
        for rest in self.owners.split_off(MOST_CAUSES - 1) {
            self.add(&other, rest.ns, rest.sample_ns_ms);
        }
    }

    /// Adds those of a later interval.
    pub(super) fn add_later(&mut self, later: &Causes) {
        for more in &later.owners {
            self.add(&more.owner, more.ns, more.sample_ns_ms);
        }
        self.keep_largest();
    }

    /// Time of an interval without owners.
    pub(super) fn add_unknown(&mut self, ns: u64) {
        self.add(&Owner::single(OwnerKind::Unknown), ns, None);
        self.keep_largest();
    }

    pub(super) fn is_bounded(&self) -> bool {
        self.owners.len() <= MOST_CAUSES
    }

    /// Divides the program's time: those with the most first, what is unknown last.
    pub(super) fn of_time(&self, total_ns: u64) -> Vec<Cause<'_>> {
        let all: u128 = self.owners.iter().map(|weight| u128::from(weight.ns)).sum();
        let is_unknown = |owner: &Owner| owner.kind == OwnerKind::Unknown;
        let mut order: Vec<&Weight> = self.owners.iter().filter(|weight| weight.ns > 0).collect();
        sort_by_key(&mut order, |weight| {
            (is_unknown(&weight.owner), std::cmp::Reverse(weight.ns))
        });
        let mut left_ns = total_ns;
        let mut causes: Vec<Cause<'_>> = Vec::with_capacity(order.len());
        for weight in order {
            // At most the total, whose part it is.
            let ns = (u128::from(total_ns) * u128::from(weight.ns) / all.max(1)) as u64;
            left_ns -= ns.min(left_ns);
            causes.push(Cause {
                owner: &weight.owner,
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
        let figure = |cause: &Cause<'_>| {
            let weight = self
                .owners
                .iter()
                .find(|weight| weight.owner.is(cause.owner))?;
            weight.figure(cause.ns)
        };
        let known = causes.iter().filter(|cause| !is_unknown(cause.owner));
        let known: Option<Figure> = known.map(figure).sum();
        for cause in &mut causes {
            let part = figure(cause).filter(|_| !is_unknown(cause.owner));
            let bounds = part.zip(known).map(|(part, known)| part.part_of(&known));
            cause.interval_ns = bounds.map(|bounds| rounded(bounds, cause.ns as f64));
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
        let mut causes = Causes::default();
        causes.add_unknown(500);
        causes.add(&group(1), 300, Some(22));
        causes.add(&group(2), 100, Some(8));
        let found = causes.of_time(1_000_001);
        let parts: Vec<_> = found
            .iter()
            .map(|cause| (cause.owner.id, cause.ns))
            .collect();
        assert_eq!(parts, [(1, 333_334), (2, 111_111), (0, 555_556)]);
        assert_eq!(found.iter().map(|cause| cause.ns).sum::<u64>(), 1_000_001);
        assert!(found[2].interval_ns.is_none() && found[0].interval_ns.is_some());
        // Of a time without any evidence, as of one that a log's rounding has moved.
        let nothing = Causes::default();
        assert_eq!(nothing.of_time(7)[0].owner.kind, OwnerKind::Unknown);
        assert!(nothing.of_time(0).is_empty());
    }

    #[test]
    fn intervals_are_those_of_independent_samples() {
        // A hundred milliseconds, and one sample in a millisecond.
        let mut causes = Causes::default();
        causes.add(&group(1), 75, Some(75));
        causes.add(&group(2), 25, Some(25));
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
        let mut sum = Causes::default();
        for id in 1..=1_000 {
            let mut later = Causes::default();
            later.add(&group(id), id, Some(2 * id));
            later.add_unknown(1);
            sum.add_later(&later);
        }
        assert!(sum.is_bounded());
        assert_eq!(
            sum.owners.iter().map(|weight| weight.ns).sum::<u64>(),
            501_500
        );
        let known = sum.owners.iter().filter_map(|weight| weight.sample_ns_ms);
        assert_eq!(known.sum::<u64>(), 1_001_000);
        let largest = sum.of_time(501_500);
        assert!(largest.iter().any(|cause| cause.owner.id == 1_000));
        assert!(
            largest
                .iter()
                .any(|cause| cause.owner.kind == OwnerKind::Other)
        );
    }
}
