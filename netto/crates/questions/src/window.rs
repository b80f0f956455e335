//! The last minute in pieces, any number of which can be summed: the averaging window of commands
//! on a terminal. Pure.
//!
//! Intervals are summed as everywhere else, so that shares equal those of the API for the same
//! intervals. Memory is bounded: short intervals are merged into pieces.

use std::collections::VecDeque;

use metrics_common::Snapshot;

use crate::api::Covered;

/// Longest time kept, nanoseconds.
const LONGEST_NS: u64 = 60_000_000_000;
/// Longest piece of merged intervals.
const PIECE_NS: u64 = 500_000_000;

/// The last intervals; see the head of this file.
#[derive(Debug, Clone, Default)]
pub struct Window {
    newest: Option<Snapshot>,
    pieces: VecDeque<Piece>,
}

/// Intervals, added up.
#[derive(Debug, Clone)]
struct Piece {
    sum: Snapshot,
    intervals: u64,
}

impl Window {
    /// Adds an interval, and drops old ones.
    pub fn push(&mut self, snapshot: &Snapshot) {
        self.newest = Some(snapshot.clone());
        match self.pieces.back_mut() {
            Some(piece)
                if piece.sum.interval_ns.saturating_add(snapshot.interval_ns) <= PIECE_NS =>
            {
                piece.sum.add(snapshot);
                piece.intervals += 1;
            }
            _ => self.pieces.push_back(Piece {
                sum: snapshot.clone(),
                intervals: 1,
            }),
        }
        let surplus = self.pieces.len().saturating_sub(self.covering(LONGEST_NS));
        self.pieces.drain(..surplus);
    }

    /// Number of the newest pieces that cover this length.
    fn covering(&self, length_ns: u64) -> usize {
        let mut sum_ns = 0_u64;
        let lengths = self.pieces.iter().rev();
        let lengths = lengths.map(|piece| piece.sum.interval_ns);
        let is_short = |ns: &u64| {
            let goes_on = sum_ns < length_ns;
            sum_ns = sum_ns.saturating_add(*ns);
            goes_on
        };
        lengths.take_while(is_short).count()
    }

    /// The sum of the newest intervals over this length; 0: the newest one. `None` if there are
    /// none.
    pub fn sum(&self, length_ns: u64) -> Option<Snapshot> {
        if length_ns == 0 {
            return self.newest.clone();
        }
        let mut pieces = self.newest_pieces(length_ns).map(|piece| &piece.sum);
        let mut sum = pieces.next()?.clone();
        pieces.for_each(|piece| sum.add(piece));
        Some(sum)
    }

    /// What [`Window::sum`] of this length covers.
    pub fn covered(&self, length_ns: u64) -> Covered {
        let mut covered = Covered::default();
        match &self.newest {
            Some(newest) if length_ns == 0 => covered.add(newest),
            _ => self
                .newest_pieces(length_ns)
                .for_each(|piece| covered.add_sum(&piece.sum, piece.intervals)),
        }
        covered
    }

    /// The newest pieces that cover this length, the oldest first.
    fn newest_pieces(&self, length_ns: u64) -> impl Iterator<Item = &Piece> {
        let others = self.pieces.len() - self.covering(length_ns);
        self.pieces.iter().skip(others)
    }

    /// The pieces of the last minute, the oldest first.
    pub fn pieces(&self) -> impl Iterator<Item = &Snapshot> {
        self.pieces.iter().map(|piece| &piece.sum)
    }

    /// Drops all intervals.
    pub fn clear(&mut self) {
        *self = Window::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn window(intervals: u64, interval_ns: u64) -> Window {
        let mut window = Window::default();
        for sequence in 1..=intervals {
            window.push(&Snapshot {
                sequence,
                interval_ns,
                ..Snapshot::default()
            });
        }
        window
    }

    #[test]
    fn it_is_as_long_as_asked_for_and_hardly_longer() {
        for length_ns in [5_000 * MS, 60_000 * MS] {
            for interval_ns in [7 * MS, 50 * MS, 500 * MS, 2_000 * MS] {
                let window = window(10_000, interval_ns);
                let sum = window.sum(length_ns).unwrap();
                assert_eq!(sum.sequence, 10_000, "it ends with the newest");
                let most_ns = length_ns + interval_ns.max(PIECE_NS);
                assert!((length_ns..=most_ns).contains(&sum.interval_ns), "{sum:?}");
                assert!(window.pieces.len() <= 130);
            }
        }
        let usual = window(100, 500 * MS).sum(5_000 * MS);
        assert_eq!(usual.map(|sum| sum.interval_ns), Some(5_000 * MS));
        let covered = window(100, 50 * MS).covered(1_000 * MS);
        let covered = serde_json::to_value(covered).unwrap();
        assert_eq!(
            (&covered["intervals"], &covered["measured_seconds"]),
            (&20.into(), &1.0.into())
        );
    }

    #[test]
    fn of_a_length_of_nothing_it_is_the_newest_interval() {
        let newest = window(3, 50 * MS).sum(0);
        assert_eq!(newest.map(|newest| newest.interval_ns), Some(50 * MS));
        assert!(Window::default().sum(0).is_none());
        assert!(Window::default().sum(9).is_none());
    }
}
