//! The common interface of an interval and a digest of many intervals for a summary, so that both
//! give the same figures. Pure.

use metrics_common::Snapshot;
use netto_log_format::{Digest, Extremes};

/// An interval, or several consecutive ones with the same CPUs, sections and rows.
pub trait Stretch {
    /// The sum of all intervals.
    fn sum(&self) -> &Snapshot;

    /// Values that are not in the sum.
    fn extremes(&self) -> Extremes;

    /// Number of intervals.
    fn intervals(&self) -> usize;

    /// End of one interval, nanoseconds since the Unix epoch.
    fn end_unix_ns(&self, interval: usize) -> u64;

    /// Length of one interval, nanoseconds.
    fn length_ns(&self, interval: usize) -> u64;

    /// CPU time of a component over all CPUs in one interval, nanoseconds; `None` if it is not
    /// measured.
    fn total_ns(&self, interval: usize, component: usize) -> Option<u64>;

    /// Total time of all CPUs in one interval, nanoseconds.
    fn capacity_ns(&self, interval: usize) -> u64 {
        self.length_ns(interval)
            .saturating_mul(self.sum().cpus.len() as u64)
    }
}

impl Stretch for Snapshot {
    fn sum(&self) -> &Snapshot {
        self
    }

    fn extremes(&self) -> Extremes {
        Extremes::of(self)
    }

    fn intervals(&self) -> usize {
        1
    }

    fn end_unix_ns(&self, _: usize) -> u64 {
        self.time_unix_ns
    }

    fn length_ns(&self, _: usize) -> u64 {
        self.interval_ns
    }

    fn total_ns(&self, _: usize, component: usize) -> Option<u64> {
        Snapshot::total_ns(self, component)
    }
}

impl Stretch for Digest {
    fn sum(&self) -> &Snapshot {
        &self.sum
    }

    fn extremes(&self) -> Extremes {
        self.extremes
    }

    fn intervals(&self) -> usize {
        self.course.times_unix_ns.len()
    }

    fn end_unix_ns(&self, interval: usize) -> u64 {
        self.course.times_unix_ns[interval]
    }

    fn length_ns(&self, interval: usize) -> u64 {
        self.course.intervals_ns[interval]
    }

    fn total_ns(&self, interval: usize, component: usize) -> Option<u64> {
        let row = self.course.totals_ns.get(component)?.as_ref()?;
        row.get(interval).copied()
    }
}
