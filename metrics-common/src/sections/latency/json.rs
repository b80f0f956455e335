//! A point in JSON: only non-empty buckets, with their bounds.

use serde::{Serialize, Serializer};

use super::PointLatency;
use crate::latency::{Bounds, Point, bounds};

#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct PointView<'a> {
    /// Which point of a packet's way.
    point: Point,
    /// How it is measured: `fentry`, or which tracepoint stands for it.
    method: &'a str,
    /// Buckets that hold something, ascending.
    buckets: Vec<Bucket<'a>>,
    /// All latencies in the buckets together, nanoseconds. By CPU.
    sum_ns: &'a [u64],
    /// Packets that were there before they had arrived, by their clocks. By CPU.
    negative: &'a [u64],
    /// Packets that took 2^34 ns (17 s) or longer. By CPU.
    too_long: &'a [u64],
    /// Packets with a lost stamp: it is not known when they came, or, for a wait, when they were
    /// enqueued. By CPU.
    lost: &'a [u64],
}

/// A bucket.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Bucket<'a> {
    #[serde(flatten)]
    bounds: Bounds,
    /// How many packets are in it. By CPU.
    counts: &'a [u64],
}

impl Serialize for PointLatency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let filled = self.buckets.iter().enumerate().filter_map(|(bucket, row)| {
            let counts = row.as_deref().filter(|row| row.iter().any(|&n| n > 0))?;
            Some(Bucket {
                bounds: bounds(bucket),
                counts,
            })
        });
        let view = PointView {
            point: self.point,
            method: &self.method,
            buckets: filled.collect(),
            sum_ns: &self.sum_ns,
            negative: &self.negative,
            too_long: &self.too_long,
            lost: &self.lost,
        };
        view.serialize(serializer)
    }
}
