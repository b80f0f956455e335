//! Adds consecutive snapshots of one step while their tables are still numbers in a row: for
//! components alone, which is most of what an export reads.

use super::walk;
use metrics_common::codec::ServerMessage;
use metrics_common::sections::{Cost, Sections};
use metrics_common::snapshot::Snapshot;

/// The tables of networking's cost that are added.
pub(super) const TABLES: [&[u8]; 3] = [b"components", b"samples", b"entries"];

/// Longest interval that is added, nanoseconds.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// The number of the step in which an interval ends. Steps begin at multiples of their length since
/// the Unix epoch.
pub fn step_number(step_ns: u64, end_unix_ns: u64) -> u64 {
    end_unix_ns.saturating_sub(1) / step_ns.max(1)
}

/// Which consecutive snapshots of a block are read as one. Their sum has nothing but the CPU times,
/// samples and entries of components.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sums {
    /// Those that end within a step of this length, nanoseconds,
    pub step_ns: u64,
    /// after this time, nanoseconds since the Unix epoch,
    pub after_unix_ns: u64,
    /// and up to this one.
    pub until_unix_ns: u64,
    /// Which rows are read, with their parts; `None` stands for all. Others may be 0.
    pub rows: Option<Vec<bool>>,
}

/// The head of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) sequence: u64,
    pub(super) time_unix_ns: u64,
    pub(super) interval_ns: u64,
    /// Its CPUs, as they were encoded.
    pub(super) cpus: Vec<u8>,
}

impl Sums {
    /// Whether two consecutive snapshots are parts of one sum.
    pub(super) fn has_both(&self, one: &Interval, next: &Interval) -> bool {
        let step = |interval: &Interval| step_number(self.step_ns, interval.time_unix_ns);
        let is_wanted = |interval: &Interval| {
            (1..=LONGEST_NS).contains(&interval.interval_ns)
                && interval.time_unix_ns > self.after_unix_ns
                && interval.time_unix_ns <= self.until_unix_ns
        };
        one.cpus == next.cpus && step(one) == step(next) && is_wanted(one) && is_wanted(next)
    }
}

/// Whether each begins after the one before, so that none is there twice.
pub(super) fn is_in_order<'a>(intervals: impl Iterator<Item = &'a Interval>) -> bool {
    intervals.is_sorted_by(|one, next| {
        one.sequence < next.sequence && one.time_unix_ns < next.time_unix_ns
    })
}

/// The head of a sum.
pub(super) fn joined<'a>(intervals: impl Iterator<Item = &'a Interval>) -> Option<Interval> {
    intervals.cloned().reduce(|sum, next| Interval {
        interval_ns: sum.interval_ns.saturating_add(next.interval_ns),
        ..next
    })
}

/// A decoded message whose tables are those of several, with the head of their sum.
pub(super) fn finished(message: ServerMessage, sum: &Interval) -> ServerMessage {
    let ServerMessage::Snapshot(first) = message else {
        return message;
    };
    let Snapshot { cpus, sections, .. } = *first;
    let cost = sections.cost.map(|cost| Cost {
        components: cost.components,
        samples: cost.samples,
        entries: cost.entries,
        ..Cost::NOTHING
    });
    ServerMessage::Snapshot(Box::new(Snapshot {
        sequence: sum.sequence,
        time_unix_ns: sum.time_unix_ns,
        interval_ns: sum.interval_ns,
        cpus,
        sections: Sections {
            cost,
            ..Sections::default()
        },
    }))
}

impl Interval {
    /// The head of a snapshot's message whose tables stand apart.
    pub(super) fn of(found: &walk::Sections<'_>) -> Option<Interval> {
        let [sequence, time_unix_ns, interval_ns] = found.numbers;
        Some(Interval {
            sequence: sequence?,
            time_unix_ns: time_unix_ns?,
            interval_ns: interval_ns?,
            cpus: found.cpus?.to_vec(),
        })
    }
}
