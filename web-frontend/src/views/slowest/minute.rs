//! The slowest softirqs of the last minute, interval by interval. Pure.

use std::collections::VecDeque;

use metrics_common::Snapshot;
use metrics_common::sections::{Columns, Section, Slowest};

/// The time that is shown, nanoseconds.
const MINUTE_NS: u64 = 60_000_000_000;
/// Short intervals are added up to pieces of this length, nanoseconds.
const PIECE_NS: u64 = 500_000_000;

/// The last minute in pieces, each with the time at which it ended.
#[derive(Debug, Default)]
pub struct Minute {
    pieces: VecDeque<(u64, Slowest)>,
}

impl Minute {
    /// Adds an interval. One that does not follow the last begins anew: a recording is at another
    /// place.
    pub fn push(&mut self, snapshot: &Snapshot) {
        let end_ns = snapshot.time_unix_ns;
        if self.pieces.back().is_some_and(|(last, _)| *last > end_ns) {
            self.pieces.clear();
        }
        if let Some(slowest) = &snapshot.sections.slowest {
            match self.pieces.back_mut() {
                Some((end, piece)) if piece.measured_ns + slowest.measured_ns <= PIECE_NS => {
                    piece.add(slowest, &Columns::folded());
                    *end = end_ns;
                }
                _ => self.pieces.push_back((end_ns, slowest.clone())),
            }
        }
        let begin_ns = end_ns.saturating_sub(MINUTE_NS);
        self.pieces.retain(|(end, _)| *end > begin_ns);
    }

    /// Their sum.
    pub fn sum(&self) -> Slowest {
        let mut sum = Slowest::default();
        for (_, piece) in &self.pieces {
            sum.add(piece, &Columns::folded());
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::sections::SlowSoftirq;
    use metrics_common::{Owner, OwnerKind};

    use super::*;

    fn snapshot(second: u64, length_ns: u64) -> Snapshot {
        let mut snapshot = Snapshot {
            time_unix_ns: second * 1_000_000_000,
            ..Snapshot::default()
        };
        let softirq = SlowSoftirq {
            began_unix_ns: second * 1_000_000_000 - 500_000_000,
            length_ns,
            cpu: 0,
            softirq: "NET_RX".to_owned(),
            part: None,
            samples: 0,
            cause: Owner::single(OwnerKind::Unknown),
            payer: Owner::single(OwnerKind::Idle),
        };
        snapshot.sections.slowest = Some(Slowest {
            softirqs: vec![softirq],
            timed: 10,
            timed_ns: 1_000_000_000,
            measured_ns: 1_000_000_000,
        });
        snapshot
    }

    #[test]
    fn what_is_older_than_a_minute_is_gone_and_so_is_what_was_elsewhere() {
        let mut minute = Minute::default();
        assert_eq!(minute.sum(), Slowest::default());
        for second in 1..=100 {
            minute.push(&snapshot(second, 1_000_000 - second));
        }
        let sum = minute.sum();
        assert_eq!((sum.timed, sum.measured_ns), (600, 60_000_000_000));
        assert_eq!(sum.softirqs[0].length_ns, 1_000_000 - 41);
        minute.push(&snapshot(7, 5));
        assert_eq!(minute.sum().timed, 10);
    }
}
