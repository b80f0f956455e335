//! Makes digests of the blocks being written, equal to the sums of their intervals.
//!
//! It decides where a stretch begins and ends. It holds the sum and the course of one stretch, so
//! its memory is bounded by the host's CPUs and the length of a stretch.

use super::{Coverage, Digest, Extremes, IMPLAUSIBLE, IntervalTotals};
use crate::block::{self, BlockHead, Packer, Unpacker};
use metrics_common::codec::{self, ServerMessage};
use metrics_common::snapshot::Snapshot;

/// Intervals after which a stretch ends.
const INTERVALS: usize = 600;
/// With fewer blocks, reading a digest is no faster.
const LEAST_BLOCKS: u64 = 4;

/// See the head of this file.
#[derive(Default)]
pub struct DigestBuilder {
    packer: Packer,
    unpacker: Unpacker,
    /// The current stretch.
    stretch: Option<Stretch>,
    /// Completed stretches whose digests are not written yet.
    ended: Vec<Stretch>,
}

/// An unfinished stretch.
struct Stretch {
    /// Offset of its first block in the file, bytes.
    from: u64,
    blocks: u64,
    shape: Shape,
    digest: Digest,
}

/// The shape shared by all intervals of a stretch: its CPUs, sections and rows.
#[derive(Clone, PartialEq, Eq)]
struct Shape {
    cpus: Vec<u32>,
    sections: Vec<(&'static str, Vec<Vec<bool>>)>,
}

impl Shape {
    fn of(snapshot: &Snapshot) -> Shape {
        Shape {
            cpus: snapshot.cpus.clone(),
            sections: snapshot.sections.layout(),
        }
    }
}

impl DigestBuilder {
    /// Records that these bytes, whole blocks, were written at this offset.
    pub fn wrote(&mut self, offset: u64, bytes: &[u8]) {
        for (at, head) in block::heads(bytes) {
            if head.is_index() || head.is_digest() {
                continue;
            }
            let payload =
                at as usize + block::HEAD_BYTES..at as usize + head.block_bytes() as usize;
            let snapshots = self.snapshots(&head, &bytes[payload]);
            self.add(offset + at, snapshots);
        }
    }

    /// The snapshots of a block; `None` if it holds other messages that a reader of sums needs.
    fn snapshots(&mut self, head: &BlockHead, payload: &[u8]) -> Option<Vec<Snapshot>> {
        if head.has_hello() {
            return None;
        }
        let mut snapshots = Vec::new();
        for message in self.unpacker.messages(head, payload).ok()? {
            match codec::decode(&message.bytes).ok()? {
                ServerMessage::Snapshot(snapshot) => snapshots.push(*snapshot),
                // Readers of these read every block.
                ServerMessage::Stacks(_) | ServerMessage::Bye(_) => {}
                ServerMessage::Hello(_) | ServerMessage::Gap(_) | ServerMessage::History(_) => {
                    return None;
                }
            }
        }
        Some(snapshots)
    }

    /// Adds a block at this offset.
    fn add(&mut self, offset: u64, snapshots: Option<Vec<Snapshot>>) {
        let Some(snapshots) = snapshots else {
            self.end();
            return;
        };
        let shapes: Vec<Shape> = snapshots.iter().map(Shape::of).collect();
        let goes_on = self.stretch.as_ref().is_some_and(|stretch| {
            fit(
                Some((&stretch.digest.sum, &stretch.shape)),
                &snapshots,
                &shapes,
            )
        });
        if !goes_on {
            self.end();
            let (Some(first), Some(shape)) = (snapshots.first(), shapes.first()) else {
                return;
            };
            if !fit(None, &snapshots, &shapes) {
                return;
            }
            self.stretch = Some(Stretch::new(offset, first, shape.clone()));
        }
        if let Some(stretch) = &mut self.stretch {
            stretch.blocks += 1;
            // The first has been added already.
            for snapshot in snapshots.iter().skip(usize::from(!goes_on)) {
                stretch.add(snapshot);
            }
            if stretch.digest.course.times_unix_ns.len() >= INTERVALS {
                self.end();
            }
        }
    }

    /// Ends the stretch, at the end of the log or before an appended one.
    pub fn end(&mut self) {
        let stretch = self.stretch.take();
        self.ended
            .extend(stretch.filter(|stretch| stretch.blocks >= LEAST_BLOCKS));
    }

    /// The digests to write next, at this offset, as blocks.
    pub fn due(&mut self, offset: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for stretch in &self.ended {
            let cover = Coverage {
                bytes: offset + bytes.len() as u64 - stretch.from,
                blocks: stretch.blocks,
            };
            // A digest is optional.
            let digest = stretch.digest.block(cover, &mut self.packer);
            bytes.extend(digest.unwrap_or_default());
        }
        bytes
    }

    /// Marks the due digests as written.
    pub fn written(&mut self) {
        self.ended.clear();
    }
}

/// Whether these intervals can be summed with those before them.
fn fit(before: Option<(&Snapshot, &Shape)>, snapshots: &[Snapshot], shapes: &[Shape]) -> bool {
    let mut last = before;
    snapshots.iter().zip(shapes).all(|(snapshot, shape)| {
        let follows = last.is_none_or(|(last, last_shape)| {
            last.sequence.checked_add(1) == Some(snapshot.sequence)
                && last.time_unix_ns < snapshot.time_unix_ns
                && last_shape == shape
        });
        last = Some((snapshot, shape));
        follows && is_plausible(snapshot)
    })
}

/// Whether readers would count this interval.
fn is_plausible(snapshot: &Snapshot) -> bool {
    let most_ns = snapshot.capacity_ns().saturating_mul(IMPLAUSIBLE);
    let cost = snapshot.cost();
    let mut rows = 0..cost.components.len();
    most_ns > 0
        && most_ns < u64::MAX / 2
        && (1..u64::MAX).contains(&snapshot.sequence)
        && rows.all(|row| cost.total_ns(row).is_none_or(|ns| ns <= most_ns))
}

impl Stretch {
    fn new(from: u64, first: &Snapshot, shape: Shape) -> Stretch {
        let mut course = IntervalTotals::default();
        let rows = first.cost().components.iter();
        course.totals_ns = rows.map(|row| row.as_ref().map(|_| Vec::new())).collect();
        push(&mut course, first);
        Stretch {
            from,
            blocks: 0,
            shape,
            digest: Digest {
                sum: first.clone(),
                course,
                extremes: Extremes::of(first),
            },
        }
    }

    fn add(&mut self, snapshot: &Snapshot) {
        self.digest.sum.add(snapshot);
        push(&mut self.digest.course, snapshot);
        self.digest.extremes.add(&Extremes::of(snapshot));
    }
}

fn push(course: &mut IntervalTotals, snapshot: &Snapshot) {
    course.times_unix_ns.push(snapshot.time_unix_ns);
    course.intervals_ns.push(snapshot.interval_ns);
    let cost = snapshot.cost();
    for (row, totals) in course.totals_ns.iter_mut().enumerate() {
        if let (Some(totals), Some(ns)) = (totals, cost.total_ns(row)) {
            totals.push(ns);
        }
    }
}
