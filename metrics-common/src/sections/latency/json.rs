//! A point in JSON: only non-empty buckets, with their bounds.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::PointLatency;
use crate::latency::{Bounds, bounds};

#[derive(Serialize)]
struct Bucket<'a> {
    #[serde(flatten)]
    bounds: Bounds,
    /// By CPU.
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
        let mut fields = serializer.serialize_struct("PointLatency", 7)?;
        fields.serialize_field("point", &self.point)?;
        fields.serialize_field("method", &self.method)?;
        fields.serialize_field("buckets", &filled.collect::<Vec<_>>())?;
        fields.serialize_field("sum_ns", &self.sum_ns)?;
        fields.serialize_field("negative", &self.negative)?;
        fields.serialize_field("too_long", &self.too_long)?;
        fields.serialize_field("lost", &self.lost)?;
        fields.end()
    }
}
