//! The index of a recording: where in its file the blocks of some of its snapshots begin, in bounded
//! memory. Pure: offsets are told, nothing is read.

use std::sync::Arc;

use metrics_common::codec;
use metrics_common::{Info, Snapshot};

use super::timeline::{Frame, MonotonicTimeline};

/// Places in the index.
const MOST_POINTS: usize = 4096;
/// Snapshots between two places at the beginning; twice as many whenever there are too many places.
const FIRST_STRIDE: u64 = 16;
/// Descriptions that the index holds, as they are encoded.
const MOST_INFO_BYTES: usize = 16 << 20;

/// A place from which a snapshot can be read.
#[derive(Debug, Clone)]
pub(super) struct Point {
    /// Where its block begins, bytes from the beginning of the file.
    pub(super) offset: u64,
    /// Time and number of the snapshot, and its end on the timeline.
    pub(super) key: (u64, u64),
    pub(super) at_ns: u64,
    /// The timeline before it.
    pub(super) before: MonotonicTimeline,
    /// Its description, by its place in the list of them.
    pub(super) info: usize,
}

/// By what a snapshot is recognised.
pub(super) fn key_of(snapshot: &Snapshot) -> (u64, u64) {
    (snapshot.time_unix_ns, snapshot.sequence)
}

/// The index in the making.
#[derive(Default)]
pub(super) struct Index {
    pub(super) points: Vec<Point>,
    stride: u64,
    frames: u64,
    pub(super) infos: Vec<Arc<Info>>,
    info_bytes: usize,
}

impl Index {
    pub(super) fn add(&mut self, frame: &Frame, offset: u64, before: MonotonicTimeline) {
        self.stride = self.stride.max(FIRST_STRIDE);
        let is_due = self.frames.is_multiple_of(self.stride);
        self.frames += 1;
        if !is_due {
            return;
        }
        // Without its description a place is of no use; an earlier one serves.
        let Some(info) = self.keep(&frame.info) else {
            return;
        };
        if self.points.len() == MOST_POINTS {
            let mut is_odd = true;
            self.points.retain(|_| {
                is_odd = !is_odd;
                !is_odd
            });
            self.stride *= 2;
        }
        self.points.push(Point {
            offset,
            key: key_of(&frame.snapshot),
            at_ns: frame.at_ns,
            before,
            info,
        });
    }

    /// The place of a description among those that are kept; `None` if there is no more room.
    fn keep(&mut self, info: &Arc<Info>) -> Option<usize> {
        if let Some(at) = self.infos.iter().rposition(|kept| Arc::ptr_eq(kept, info)) {
            return Some(at);
        }
        let bytes = codec::encode(&**info).ok()?.len();
        if self.info_bytes + bytes > MOST_INFO_BYTES {
            return None;
        }
        self.info_bytes += bytes;
        self.infos.push(info.clone());
        Some(self.infos.len() - 1)
    }
}
