//! The last seconds as one interval, so that what is said of now does not change with every interval.
//! Pure.

use metrics_common::snapshot::Snapshot;

/// A sum is of this time at least, once so much was measured, and of twice as much at most.
const STEADY_NS: u64 = 3_000_000_000;

/// The last seconds, summed in two pieces, the older of which is dropped when the newer one is full.
#[derive(Debug, Clone, Default)]
pub struct Steady {
    pieces: Option<Pieces>,
}

#[derive(Debug, Clone)]
struct Pieces {
    both: Snapshot,
    newer: Snapshot,
}

impl Steady {
    /// Adds the newest interval: what `add` takes of it. It is not copied, as most of it is for
    /// nobody here.
    pub fn push(&mut self, newest: &Snapshot, add: impl Fn(&mut Snapshot, &Snapshot)) {
        let empty = || Snapshot {
            cpus: newest.cpus.clone(),
            ..Snapshot::default()
        };
        match &mut self.pieces {
            Some(Pieces { both, newer }) if is_soon_after(newer, newest) => {
                if newer.interval_ns >= STEADY_NS {
                    *both = std::mem::replace(newer, empty());
                }
                add(newer, newest);
                add(both, newest);
            }
            // A recording that goes back, another run, or a long gap.
            pieces => {
                let mut first = empty();
                add(&mut first, newest);
                *pieces = Some(Pieces {
                    both: first.clone(),
                    newer: first,
                });
            }
        }
    }

    /// The sum of both pieces; `None` before the first interval.
    pub fn sum(&self) -> Option<&Snapshot> {
        self.pieces.as_ref().map(|pieces| &pieces.both)
    }
}

fn is_soon_after(last: &Snapshot, next: &Snapshot) -> bool {
    let gap_ns = next.time_unix_ns.saturating_sub(last.time_unix_ns);
    next.sequence > last.sequence && gap_ns <= next.interval_ns.saturating_add(STEADY_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn a_sum_rests_on_seconds_and_not_on_what_was_before_a_gap() {
        let mut steady = Steady::default();
        assert_eq!(steady.sum(), None);
        let mut push = |sequence: u64, time_s: u64| {
            let newest = Snapshot {
                sequence,
                time_unix_ns: time_s * SECOND_NS,
                interval_ns: SECOND_NS,
                ..Snapshot::default()
            };
            steady.push(&newest, Snapshot::add);
            steady.sum().unwrap().interval_ns / SECOND_NS
        };
        let lengths: Vec<u64> = (1..=9).map(|second| push(second, second)).collect();
        assert_eq!(lengths, [1, 2, 3, 4, 5, 6, 4, 5, 6]);
        assert_eq!(push(11, 11), 4, "a skipped interval is no gap");
        assert_eq!(push(12, 60), 1);
        assert_eq!(push(1, 61), 1, "another run");
    }
}
