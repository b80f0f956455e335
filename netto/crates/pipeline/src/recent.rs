//! The newest snapshots as they were sent to dashboards, so that the recent past can be written
//! into a log afterwards.
//!
//! Pure, and bounded by [`MOST_BYTES`] and [`LONGEST_NS`]. A snapshot is encoded once for all uses.
//! Its bytes are copied into pieces of memory that many share: snapshots of all lengths, each an
//! allocation of its own that is freed a quarter of an hour later, would leave holes in the
//! allocator's heap, and resident memory would grow for hours.

use std::collections::VecDeque;
use std::sync::Arc;

use actix_web::web::{Bytes, BytesMut};
use metrics_common::Info;
use metrics_common::codec::{self, CodecError, ServerMessage};
use metrics_common::history::LEAST_COVERED_NS;

/// Bytes kept in all: a minute and a half of a host with 128 CPUs at the default period, and all of
/// [`LONGEST_NS`] of one with eight.
pub const MOST_BYTES: usize = 4 << 20;
/// Longest time kept, nanoseconds: that of the history.
pub const LONGEST_NS: u64 = LEAST_COVERED_NS;
/// A piece: large enough that the allocator maps it separately, and so gives it back as a whole. Besides
/// [`MOST_BYTES`] about two are there: the newest is not full, and of the oldest something is gone.
const PIECE_BYTES: usize = 256 << 10;
/// An entry's size beside its bytes.
const ENTRY_BYTES: usize = size_of::<RecentSnapshot>() + 64;

/// A snapshot and the description of its rows, each an encoded [`ServerMessage`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentSnapshot {
    /// The Hello; snapshots share one until it changes.
    pub hello: Bytes,
    /// The snapshot.
    pub snapshot: Bytes,
    time_unix_ns: u64,
}

/// See the head of this file.
#[derive(Debug, Clone, Default)]
pub struct Recent {
    entries: VecDeque<RecentSnapshot>,
    bytes: usize,
    /// What is left of the newest piece.
    room: BytesMut,
    /// The newest description, as given and as encoded.
    newest: Option<(Arc<Info>, Bytes)>,
}

impl RecentSnapshot {
    /// End of the snapshot's interval, nanoseconds since the Unix epoch.
    pub fn time_unix_ns(&self) -> u64 {
        self.time_unix_ns
    }
}

impl Recent {
    /// Adds a snapshot, and removes the oldest to keep the bounds.
    ///
    /// # Errors
    /// Only when memory runs out.
    pub fn push(
        &mut self,
        info: &Arc<Info>,
        snapshot: &[u8],
        time_unix_ns: u64,
    ) -> Result<(), CodecError> {
        let hello = match &self.newest {
            Some((known, hello)) if Arc::ptr_eq(known, info) => hello.clone(),
            _ => {
                let message = ServerMessage::Hello(Box::new((**info).clone()));
                let hello = self.copy(&codec::encode(&message)?);
                self.bytes += hello.len();
                self.newest = Some((info.clone(), hello.clone()));
                hello
            }
        };
        self.bytes += snapshot.len() + ENTRY_BYTES;
        let snapshot = self.copy(snapshot);
        self.entries.push_back(RecentSnapshot {
            hello,
            snapshot,
            time_unix_ns,
        });
        while self.entries.len() > 1 && self.is_too_much(time_unix_ns) {
            self.drop_oldest();
        }
        Ok(())
    }

    /// The same bytes in a piece.
    fn copy(&mut self, bytes: &[u8]) -> Bytes {
        if self.room.capacity() < bytes.len() {
            self.room = BytesMut::with_capacity(PIECE_BYTES.max(bytes.len()));
        }
        self.room.extend_from_slice(bytes);
        self.room.split().freeze()
    }

    fn is_too_much(&self, now_unix_ns: u64) -> bool {
        let oldest = self.entries.front().map_or(0, |entry| entry.time_unix_ns);
        self.bytes > MOST_BYTES || now_unix_ns.saturating_sub(oldest) > LONGEST_NS
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.entries.pop_front() {
            self.bytes -= oldest.snapshot.len() + ENTRY_BYTES;
            let next = self.entries.front().map(|next| &next.hello);
            if next.is_some_and(|next| next.as_ptr() != oldest.hello.as_ptr()) {
                self.bytes -= oldest.hello.len();
            }
        }
    }

    /// The snapshots, the oldest first.
    pub fn entries(&self) -> impl Iterator<Item = &RecentSnapshot> {
        self.entries.iter()
    }

    /// Bytes kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::fixture;
    use proptest::prelude::*;

    use super::*;

    fn of(length: usize) -> Vec<u8> {
        vec![7; length]
    }

    #[test]
    fn many_share_a_piece_of_memory_that_goes_as_a_whole() {
        let info = Arc::new(fixture::info());
        let mut recent = Recent::default();
        let mut most = 0;
        for length in 1_000..3_000 {
            recent.push(&info, &of(length), 0).unwrap();
            let entries: Vec<_> = recent.entries().collect();
            assert_eq!(entries.last().unwrap().snapshot, of(length));
            // Where one did not fit into the piece before it.
            let pairs = entries.windows(2);
            let borders = pairs
                .filter(|pair| pair[0].snapshot.as_ptr_range().end != pair[1].snapshot.as_ptr());
            most = most.max(borders.count());
        }
        let pieces = MOST_BYTES / PIECE_BYTES;
        assert!((pieces - 2..=pieces + 1).contains(&most), "{most}");
    }

    #[test]
    fn what_is_too_old_goes_and_the_newest_stays() {
        let info = Arc::new(fixture::info());
        let mut recent = Recent::default();
        for seconds in [0, 900, 959, 961, 5_000] {
            recent
                .push(&info, &of(10), seconds * 1_000_000_000)
                .unwrap();
            let oldest = recent
                .entries()
                .next()
                .map(|e| e.time_unix_ns / 1_000_000_000);
            let expected = match seconds {
                0 | 900 | 959 => 0,
                961 => 900,
                _ => 5_000,
            };
            assert_eq!(oldest, Some(expected), "at {seconds}");
        }
        recent.push(&info, &of(2 * MOST_BYTES), 0).unwrap();
        assert_eq!(recent.entries().count(), 1, "the newest, however large");
    }

    proptest! {
        #[test]
        fn what_is_kept_is_bounded_and_counted_to_the_byte(
            steps in prop::collection::vec((0_usize..2 << 20, any::<bool>(), 0_u64..100), 1..80)
        ) {
            let mut info = Arc::new(fixture::info());
            let (mut recent, mut now) = (Recent::default(), 0);
            for (length, is_changed, seconds) in steps {
                if is_changed {
                    info = Arc::new((*info).clone());
                }
                now += seconds * 1_000_000_000;
                recent.push(&info, &of(length), now).unwrap();
                let mut hellos: Vec<_> = recent.entries().map(|e| (e.hello.as_ptr(), e.hello.len())).collect();
                hellos.dedup();
                let hellos: usize = hellos.iter().map(|(_, length)| length).sum();
                let snapshots: usize = recent.entries().map(|e| e.snapshot.len() + ENTRY_BYTES).sum();
                prop_assert_eq!(recent.bytes(), hellos + snapshots);
                prop_assert!(recent.bytes() <= MOST_BYTES || recent.entries().count() == 1);
            }
        }
    }
}
