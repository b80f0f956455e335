//! The histogram of a latency: base 2, four equal steps to each power, from 64 ns to 2^34 ns.
//!
//! Bucket 0 holds everything below 64 ns. No bucket is wider than a quarter of its lower bound,
//! so its middle is within an eighth of every value in it. Negative values and values of 2^34 ns
//! (17 s) or more are clock anomalies: they are in no bucket, and callers count them separately.

use serde::{Serialize, Serializer};

/// Steps of each power of two.
pub const SUB_BUCKETS: usize = 4;
/// The power of two at which bucket 1 begins.
pub const FIRST_POWER: u32 = 6;
/// The power of two of the limit.
const END_POWER: u32 = 34;
/// Latencies of this length or longer are in no bucket, nanoseconds.
pub const LIMIT_NS: u64 = 1 << END_POWER;
/// Buckets in all.
pub const BUCKETS: usize = 1 + SUB_BUCKETS * (END_POWER - FIRST_POWER) as usize;
/// The percentiles that netto shows, as a share of 1 and by name.
pub const PERCENTILES: [(f64, &str); 4] =
    [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")];

/// Bits of a step within its power.
const SUB_BITS: u32 = SUB_BUCKETS.trailing_zeros();

/// The bucket of a latency; `None` beyond the limit.
pub fn bucket_of(ns: u64) -> Option<usize> {
    if ns >= LIMIT_NS {
        return None;
    }
    let Some(power) = ns.checked_ilog2().filter(|&power| power >= FIRST_POWER) else {
        return Some(0);
    };
    let step = (ns >> (power - SUB_BITS)) as usize % SUB_BUCKETS;
    Some(1 + (power - FIRST_POWER) as usize * SUB_BUCKETS + step)
}

/// The range of a bucket: from `lower_ns` to below `upper_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bounds {
    /// The least latency in it, nanoseconds.
    pub lower_ns: u64,
    /// The lower bound of the next bucket, nanoseconds.
    pub upper_ns: u64,
}

impl Bounds {
    /// The middle, which represents all latencies in the bucket, nanoseconds.
    pub fn middle_ns(&self) -> u64 {
        self.lower_ns.midpoint(self.upper_ns)
    }
}

/// The bounds of a bucket; of the last one if the number is too large.
pub fn bounds(bucket: usize) -> Bounds {
    let lower_ns = |bucket: usize| match bucket.min(BUCKETS).checked_sub(1) {
        None => 0,
        Some(steps) => {
            let power = FIRST_POWER + (steps / SUB_BUCKETS) as u32;
            ((SUB_BUCKETS + steps % SUB_BUCKETS) as u64) << (power - SUB_BITS)
        }
    };
    let bucket = bucket.min(BUCKETS - 1);
    Bounds {
        lower_ns: lower_ns(bucket),
        upper_ns: lower_ns(bucket + 1),
    }
}

/// A percentile, as exact as its bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Percentile {
    /// The middle of its bucket, nanoseconds.
    pub ns: u64,
    /// It is not less than this, nanoseconds.
    pub lower_ns: u64,
    /// It is less than this, nanoseconds.
    pub upper_ns: u64,
}

/// Latencies counted by bucket, and their sum. Merging loses nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(with = "HistogramView")
)]
pub struct Histogram {
    /// By bucket; always [`BUCKETS`] of them.
    counts: Vec<u64>,
    /// All latencies in it together, nanoseconds.
    pub sum_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            counts: vec![0; BUCKETS],
            sum_ns: 0,
        }
    }
}

impl Histogram {
    /// From counts by bucket; missing ones are 0, surplus ones are ignored.
    pub fn of(counts: &[u64], sum_ns: u64) -> Self {
        let mut histogram = Histogram {
            sum_ns,
            ..Histogram::default()
        };
        histogram
            .counts
            .iter_mut()
            .zip(counts)
            .for_each(|(bucket, count)| *bucket = *count);
        histogram
    }

    /// Counts a latency; returns `false`, without a change, beyond the limit.
    pub fn record(&mut self, ns: u64) -> bool {
        let bucket = bucket_of(ns);
        if let Some(bucket) = bucket {
            self.add(bucket, 1);
            self.sum_ns = self.sum_ns.saturating_add(ns);
        }
        bucket.is_some()
    }

    /// Adds to a bucket, without changing the sum.
    pub fn add(&mut self, bucket: usize, count: u64) {
        if let Some(sum) = self.counts.get_mut(bucket) {
            *sum = sum.saturating_add(count);
        }
    }

    /// Adds another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// Multiplies each count, and the sum.
    pub fn stretch(&mut self, factor: f64) {
        for count in self.counts.iter_mut().chain([&mut self.sum_ns]) {
            *count = (*count as f64 * factor).round() as u64;
        }
    }

    /// The count of each bucket; [`BUCKETS`] numbers.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The number of latencies.
    pub fn count(&self) -> u64 {
        self.counts
            .iter()
            .fold(0, |all, count| all.saturating_add(*count))
    }

    /// The mean, nanoseconds; `None` if there are none.
    pub fn mean_ns(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum_ns as f64 / count as f64)
    }

    /// The smallest latency that is not exceeded by this share (0 to 1) of all; `None` if there
    /// are none.
    pub fn percentile(&self, share: f64) -> Option<Percentile> {
        let rank = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut below = 0_u64;
        let bucket = self.counts.iter().position(|count| {
            below = below.saturating_add(*count);
            below >= rank
        });
        // Rounding may yield a rank beyond the last latency.
        let last = || self.counts.iter().rposition(|&count| count > 0);
        let bounds = bounds(bucket.or_else(last)?);
        Some(Percentile {
            ns: bounds.middle_ns(),
            lower_ns: bounds.lower_ns,
            upper_ns: bounds.upper_ns,
        })
    }
}

/// As JSON has it.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct HistogramView {
    /// How many packets there are in it.
    count: u64,
    /// All their latencies together, nanoseconds.
    sum_ns: u64,
    /// Buckets that hold something, ascending.
    buckets: Vec<Bucket>,
}

/// A bucket.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Bucket {
    #[serde(flatten)]
    bounds: Bounds,
    /// How many packets are in it.
    count: u64,
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let filled = self.counts.iter().enumerate();
        let filled = filled.filter(|(_, count)| **count > 0);
        let bucket = |(bucket, &count)| Bucket {
            bounds: bounds(bucket),
            count,
        };
        let view = HistogramView {
            count: self.count(),
            sum_ns: self.sum_ns,
            buckets: filled.map(bucket).collect(),
        };
        view.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_join_without_a_gap_from_nothing_to_the_limit() {
        assert_eq!(BUCKETS, 113);
        let mut end = 0;
        for bucket in 0..BUCKETS {
            let bounds = bounds(bucket);
            assert_eq!(bounds.lower_ns, end, "{bucket}");
            end = bounds.upper_ns;
            if bucket > 0 {
                assert!((end - bounds.lower_ns) * 4 <= bounds.lower_ns, "{bounds:?}");
            }
        }
        assert_eq!(end, LIMIT_NS);
        assert_eq!(
            (bucket_of(63), bucket_of(64), bucket_of(80)),
            (Some(0), Some(1), Some(2))
        );
        assert_eq!(bucket_of(LIMIT_NS - 1), Some(BUCKETS - 1));
        assert_eq!(bucket_of(LIMIT_NS), None);
    }

    proptest! {
        #[test]
        fn every_latency_is_between_the_bounds_of_its_bucket(ns in 0..LIMIT_NS, shift in 0_u32..34) {
            let ns = ns >> shift;
            let bounds = bounds(bucket_of(ns).unwrap());
            prop_assert!(bounds.lower_ns <= ns && ns < bounds.upper_ns, "{ns} in {bounds:?}");
        }

        #[test]
        fn percentiles_are_those_of_the_sorted_list_within_their_bounds(
            list in prop::collection::vec((0..LIMIT_NS, 0_u32..34), 1..300),
        ) {
            let mut list: Vec<u64> = list.into_iter().map(|(ns, shift)| ns >> shift).collect();
            let mut halves = [Histogram::default(), Histogram::default()];
            for (index, ns) in list.iter().enumerate() {
                prop_assert!(halves[index % 2].record(*ns));
            }
            let [mut all, other] = halves;
            all.merge(&other);
            list.sort_unstable();
            prop_assert_eq!((all.count(), all.sum_ns), (list.len() as u64, list.iter().sum()));
            for (share, name) in PERCENTILES {
                let rank = (list.len() as f64 * share).ceil().max(1.0) as usize;
                let (truth, found) = (list[rank - 1], all.percentile(share).unwrap());
                prop_assert!(found.lower_ns <= truth && truth < found.upper_ns, "{name}: {truth} in {found:?}");
            }
        }
    }

    #[test]
    fn nothing_has_no_percentile() {
        let nothing = Histogram::default();
        assert_eq!((nothing.percentile(0.5), nothing.mean_ns()), (None, None));
    }
}
