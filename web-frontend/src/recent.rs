//! The recent past shown as "now", the same for all views, the verdict included: some seconds, or as
//! long a time as has enough stacks for a meaningful split of networking. Pure.

use std::collections::VecDeque;

use metrics_common::{Info, Snapshot};

use metrics_common::component::NETWORK;

/// With this many stacks, a share of a half has a 95 % interval of ± 7 percentage points.
pub const ENOUGH_STACKS: u64 = 200;
/// Shortest span, unless one interval is longer or nothing older is known: what is said of it does not
/// change with every interval.
const SHORTEST_NS: u64 = 3_000_000_000;
/// Longest span; older data may be of another load.
const LONGEST_NS: u64 = 30_000_000_000;
/// Most intervals; each is a whole snapshot, of some hundred kilobytes with 128 CPUs.
const MOST_INTERVALS: usize = 60;

/// What the time that is shown is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownTime {
    /// The newest.
    Now,
    /// That at which the page was paused.
    Paused,
    /// The last before the connection was lost.
    Stale,
    /// What the reader has selected.
    Selected,
    /// All of a report.
    Report,
}

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
            let is_enough = covered_ns >= SHORTEST_NS && stacks >= ENOUGH_STACKS;
            covered_ns = covered_ns.saturating_add(interval.snapshot.interval_ns);
            if count > 0 && (is_enough || covered_ns > LONGEST_NS) {
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
        assert_eq!(shown_s(&recent(&[500, 50, 100, 60])), 3);
        assert_eq!(shown_s(&recent(&[500, 150, 3, 3, 50])), 4);
        assert_eq!(shown_s(&recent(&[500, 3, 2, 1, 1])), 5);
        let shown = recent(&[500, 150, 60, 3]).shown().unwrap();
        assert_eq!((shown.first_sequence, shown.snapshot.sequence), (2, 4));
    }

    #[test]
    fn many_stacks_do_not_make_it_shorter_than_what_can_be_read() {
        assert_eq!(shown_s(&recent(&[500; 9])), 3);
        assert_eq!(shown_s(&recent(&[500])), 1, "nothing older is known");
    }

    #[test]
    fn times_of_the_stretch_are_sums() {
        let (once, thrice) = (recent(&[500]), recent(&[0, 0, 500]));
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
        assert_eq!(recent(&[500; 100]).intervals.len(), 3);
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
