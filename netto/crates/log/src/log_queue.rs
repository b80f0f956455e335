//! Snapshots that wait for the log's disk: the newest within a bound, and a record of the dropped
//! ones.
//!
//! Pure: it knows neither files nor threads, and is given the time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics_common::codec::Gap;

/// Most bytes of queued messages: at least two minutes of a host with 128 CPUs, and more than
/// [`LONGEST_WAIT`] of one with 16.
pub const MOST_BYTES: usize = 16 << 20;
/// How long a snapshot may wait.
pub const LONGEST_WAIT: Duration = Duration::from_secs(15 * 60);

/// One snapshot as a message.
#[derive(Debug)]
pub struct QueuedSnapshot {
    /// The Hello required before it, encoded. Snapshots share one until it changes.
    pub hello: Arc<[u8]>,
    /// The snapshot, encoded.
    pub message: Vec<u8>,
    /// The snapshot's number.
    pub sequence: u64,
    /// The snapshot's time, nanoseconds since the Unix epoch.
    pub time_unix_ns: u64,
    /// The snapshots missing before it.
    pub missing: Option<Missing>,
}

/// Consecutive missing snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing {
    snapshots: u64,
    first: (u64, u64),
    last: (u64, u64),
}

impl Missing {
    /// One snapshot, by its number and time.
    pub fn one(sequence: u64, time_unix_ns: u64) -> Missing {
        Missing {
            snapshots: 1,
            first: (sequence, time_unix_ns),
            last: (sequence, time_unix_ns),
        }
    }

    /// Their number.
    pub fn snapshots(&self) -> u64 {
        self.snapshots
    }

    /// Joins both, the later behind the earlier.
    fn join(earlier: Option<Missing>, later: Option<Missing>) -> Option<Missing> {
        match (earlier, later) {
            (Some(earlier), Some(later)) => Some(Missing {
                snapshots: earlier.snapshots + later.snapshots,
                first: earlier.first,
                last: later.last,
            }),
            (one, other) => one.or(other),
        }
    }

    /// The record for the log.
    pub fn to_gap(self, reason: String) -> Gap {
        Gap {
            snapshots: self.snapshots,
            first_sequence: self.first.0,
            last_sequence: self.last.0,
            first_time_unix_ns: self.first.1,
            last_time_unix_ns: self.last.1,
            reason,
        }
    }
}

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Queue {
    entries: VecDeque<(Instant, QueuedSnapshot)>,
    bytes: usize,
    /// The snapshots missing after the last entry.
    missing: Option<Missing>,
}

impl Queue {
    /// Appends a snapshot; returns the number of older ones dropped for it.
    pub fn push(&mut self, mut entry: QueuedSnapshot, now: Instant) -> u64 {
        entry.missing = Missing::join(entry.missing, self.missing.take());
        self.bytes += entry.message.len();
        self.entries.push_back((now, entry));
        let mut dropped = 0;
        while self.entries.len() > 1 && self.is_too_much(now) {
            self.drop_oldest();
            dropped += 1;
        }
        dropped
    }

    fn is_too_much(&self, now: Instant) -> bool {
        let waited = self.entries.front().map(|(since, _)| now - *since);
        self.bytes > MOST_BYTES || waited > Some(LONGEST_WAIT)
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.pop() {
            let one = Missing::one(oldest.sequence, oldest.time_unix_ns);
            let missing = Missing::join(oldest.missing, Some(one));
            let next = match self.entries.front_mut() {
                Some((_, next)) => &mut next.missing,
                None => &mut self.missing,
            };
            *next = Missing::join(missing, *next);
        }
    }

    /// Records snapshots that were never queued as missing after the others.
    pub fn skip(&mut self, missing: Missing) {
        self.missing = Missing::join(self.missing, Some(missing));
    }

    /// Removes the oldest.
    pub fn pop(&mut self) -> Option<QueuedSnapshot> {
        let (_, entry) = self.entries.pop_front()?;
        self.bytes -= entry.message.len();
        Some(entry)
    }

    /// Takes the record of snapshots missing after the last entry.
    pub fn take_missing(&mut self) -> Option<Missing> {
        self.missing.take()
    }

    /// Number of queued snapshots.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(sequence: u64, bytes: usize) -> QueuedSnapshot {
        QueuedSnapshot {
            hello: Arc::from(&b"hello"[..]),
            message: vec![0; bytes],
            sequence,
            time_unix_ns: 10 * sequence,
            missing: None,
        }
    }

    proptest! {
        #[test]
        fn what_is_popped_and_what_is_missing_are_all_in_order(
            steps in prop::collection::vec((0_usize..9 << 20, 0_u64..200, 0_u8..8), 1..60)
        ) {
            let start = Instant::now();
            let (mut queue, mut now) = (Queue::default(), start);
            let mut accounted = Vec::new();
            let mut dropped = 0;
            let mut account = |missing: Option<Missing>, sequence: Option<u64>| {
                if let Some(missing) = missing {
                    prop_assert_eq!(missing.first.1, 10 * missing.first.0);
                    prop_assert_eq!(missing.last.0 - missing.first.0 + 1, missing.snapshots);
                    accounted.extend(missing.first.0..=missing.last.0);
                }
                accounted.extend(sequence);
                Ok(())
            };
            let count = steps.len() as u64;
            for (sequence, (bytes, seconds, act)) in (1..).zip(steps) {
                now += Duration::from_secs(seconds);
                match act {
                    0 => queue.skip(Missing::one(sequence, 10 * sequence)),
                    _ => dropped += queue.push(entry(sequence, bytes), now),
                }
                prop_assert!(queue.len() <= 1 || !queue.is_too_much(now) || act == 0);
                if act == 1 && let Some(entry) = queue.pop() {
                    account(entry.missing, Some(entry.sequence))?;
                }
            }
            while let Some(entry) = queue.pop() {
                account(entry.missing, Some(entry.sequence))?;
            }
            account(queue.take_missing(), None)?;
            prop_assert_eq!(queue.bytes, 0);
            prop_assert!(dropped <= count);
            prop_assert_eq!(accounted, (1..=count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_newest_is_kept_however_large_and_old() {
        let now = Instant::now();
        let mut queue = Queue::default();
        assert_eq!(queue.push(entry(1, MOST_BYTES + 1), now), 0);
        assert_eq!(queue.push(entry(2, MOST_BYTES + 1), now), 1);
        let kept = queue.pop().expect("the newest");
        assert_eq!(kept.sequence, 2);
        assert_eq!(kept.missing.map(|missing| missing.snapshots()), Some(1));
    }
}
