//! The recent past shown as "now", the same for all views: the shortest time span with enough
//! stacks for a meaningful split of networking. On a busy host it is the newest interval. Pure.

use std::collections::VecDeque;

use metrics_common::{Info, Snapshot};

use metrics_common::component::NETWORK;

/// With this many stacks, a share of a half has a 95 % interval of ± 7 percentage points.
pub const ENOUGH_STACKS: u64 = 200;
/// Longest span; older data may be of another load.
const LONGEST_NS: u64 = 30_000_000_000;
/// Most intervals; each is a whole snapshot, of some hundred kilobytes with 128 CPUs.
const MOST_INTERVALS: usize = 60;

/// The newest intervals that may be shown together.
#[derive(Debug, Default)]
pub struct Recent {
    intervals: VecDeque<Interval>,
}

#[derive(Debug)]
struct Interval {
    snapshot: Snapshot,
    /// Stacks on which the split of networking rests.
    stacks: u64,
}

/// The span that is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct RecentSpan {
    /// The sum of the intervals.
    pub snapshot: Snapshot,
    /// Number of the first interval.
    pub first_sequence: u64,
}

impl Recent {
    /// Drops all intervals, because rows may have another meaning.
    pub fn forget(&mut self) {
        self.intervals.clear();
    }

    /// Adds the newest interval.
    pub fn push(&mut self, info: &Info, snapshot: Snapshot) {
        let is_next = |last: &Interval| last.snapshot.sequence + 1 == snapshot.sequence;
        // After a gap or a restart, earlier intervals are dropped.
        if !self.intervals.back().is_some_and(is_next) {
            self.intervals.clear();
        }
        let stacks = stacks(info, &snapshot);
        self.intervals.push_back(Interval { snapshot, stacks });
        // No later span goes back further than this one.
        let count = self.wanted();
        self.intervals.drain(..self.intervals.len() - count);
    }

    /// Number of the newest intervals to show.
    fn wanted(&self) -> usize {
        let (mut stacks, mut covered_ns) = (0_u64, 0_u64);
        let newest_first = self.intervals.iter().rev().take(MOST_INTERVALS);
        let mut count = 0;
        for interval in newest_first {
            covered_ns = covered_ns.saturating_add(interval.snapshot.interval_ns);
            if count > 0 && (stacks >= ENOUGH_STACKS || covered_ns > LONGEST_NS) {
                break;
            }
            stacks = stacks.saturating_add(interval.stacks);
            count += 1;
        }
        count
    }

    /// The span to show; `None` before the first interval.
    pub fn shown(&self) -> Option<RecentSpan> {
        let mut intervals = self.intervals.iter();
        let mut snapshot = intervals.next()?.snapshot.clone();
        let first_sequence = snapshot.sequence;
        for later in intervals {
            snapshot.add(&later.snapshot);
        }
        Some(RecentSpan {
            snapshot,
            first_sequence,
        })
    }
}

fn stacks(info: &Info, snapshot: &Snapshot) -> u64 {
    let rows = info.parts_of(NETWORK).chain(info.row_of(NETWORK));
    let counts = rows.filter_map(|row| snapshot.cost().samples_of(row));
    counts.flatten().map(|&count| u64::from(count)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    const SECOND_NS: u64 = 1_000_000_000;

    /// An interval of a second with this many stacks of the RX softirq.
    fn interval(sequence: u64, stacks: u32) -> Snapshot {
        let mut snapshot = fixture::snapshot(sequence);
        snapshot.interval_ns = SECOND_NS;
        let row = fixture::info().row_of("rx_softirq").unwrap();
        let cost = snapshot.sections.cost.as_mut().unwrap();
        for row in cost.samples.iter_mut().flatten() {
            row.fill(0);
        }
        cost.samples[row].as_mut().unwrap()[0] = stacks;
        snapshot
    }

    fn recent(stacks: &[u32]) -> Recent {
        let mut recent = Recent::default();
        for (sequence, &stacks) in (1..).zip(stacks) {
            recent.push(&fixture::info(), interval(sequence, stacks));
        }
        recent
    }

    fn shown_s(recent: &Recent) -> u64 {
        recent.shown().unwrap().snapshot.interval_ns / SECOND_NS
    }

    #[test]
    fn the_shortest_stretch_with_enough_stacks_is_shown() {
        assert_eq!(shown_s(&recent(&[500, 500, 500])), 1);
        assert_eq!(shown_s(&recent(&[500, 150, 60])), 2);
        assert_eq!(shown_s(&recent(&[500, 3, 2])), 3);
        let shown = recent(&[500, 150, 60]).shown().unwrap();
        assert_eq!((shown.first_sequence, shown.snapshot.sequence), (2, 3));
    }

    #[test]
    fn times_of_the_stretch_are_sums() {
        let (once, thrice) = (recent(&[500]), recent(&[0, 0, 0]));
        let total = |recent: &Recent| {
            let row = fixture::info().row_of(NETWORK).unwrap();
            recent.shown().unwrap().snapshot.total_ns(row).unwrap()
        };
        assert_eq!(total(&thrice), 3 * total(&once));
    }

    #[test]
    fn nothing_older_than_half_a_minute_is_shown() {
        assert_eq!(shown_s(&recent(&[1; 100])), 30);
    }

    #[test]
    fn no_more_is_kept_than_is_shown_however_short_intervals_are() {
        assert_eq!(recent(&[500; 100]).intervals.len(), 1);
        let mut recent = Recent::default();
        for sequence in 1..=1000 {
            let mut interval = interval(sequence, 0);
            interval.interval_ns = SECOND_NS / 100;
            recent.push(&fixture::info(), interval);
        }
        assert_eq!(recent.intervals.len(), MOST_INTERVALS);
    }

    #[test]
    fn a_gap_and_another_run_end_the_stretch() {
        let mut recent = recent(&[1, 1, 1]);
        recent.push(&fixture::info(), interval(7, 1));
        assert_eq!(shown_s(&recent), 1);
        recent.push(&fixture::info(), interval(8, 1));
        recent.push(&fixture::info(), interval(1, 1));
        assert_eq!(shown_s(&recent), 1);
        recent.forget();
        assert_eq!(recent.shown(), None);
    }
}
