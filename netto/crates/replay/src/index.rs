//! The index of a recording: offsets of the blocks of some of its snapshots, in bounded memory.
//! Pure: offsets are given, nothing is read.

use std::sync::Arc;

use metrics_common::codec;
use metrics_common::{Info, Snapshot};

use super::timeline::{Frame, MonotonicTimeline};

/// Most points of the index.
const MOST_POINTS: usize = 4096;
/// Initial number of snapshots between two points; doubled when there are too many points.
const FIRST_STRIDE: u64 = 16;
/// Most bytes of encoded descriptions in the index.
const MOST_INFO_BYTES: usize = 16 << 20;

/// A point at which reading can start.
#[derive(Debug, Clone)]
pub(super) struct Point {
    /// Offset of its block, bytes from the beginning of the file.
    pub(super) offset: u64,
    /// Time and number of the snapshot, which identify it.
    pub(super) key: (u64, u64),
    pub(super) at_ns: u64,
    /// The timeline before it.
    pub(super) before: MonotonicTimeline,
    /// Index of its description in the list.
    pub(super) info: usize,
}

/// Identifies a snapshot.
pub(super) fn key_of(snapshot: &Snapshot) -> (u64, u64) {
    (snapshot.time_unix_ns, snapshot.sequence)
}

/// An index being built.
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
        // A point is useless without its description; an earlier one is used instead.
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

    /// Index of a description in the list, to which it is added; `None` if there is no more room.
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
