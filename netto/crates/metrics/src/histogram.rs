//! A latency's histogram in Prometheus' two forms: classic, with a bucket for each power of two,
//! and native, with four for each power. Pure.
//!
//! netto's buckets end at powers of two of nanoseconds, those of native histograms at powers of the
//! fourth root of two of seconds, so their ends never agree. The count of a netto bucket is
//! therefore divided among the overlapping native ones as if it were evenly distributed: no latency
//! moves by more than its bucket's width. Each part grows or stays when the bucket grows, so no
//! series in Prometheus decreases.

use metrics_common::histogram::{BUCKETS, Histogram, SUB_BUCKETS, bounds};

/// Resolution of the native histogram: 2^2 buckets to each power of two.
pub const SCHEMA: i32 = 2;
/// Upper end of the native histogram's zero bucket, seconds: the highest end of a native bucket
/// below netto's lowest bound.
pub const ZERO_THRESHOLD: f64 = 1.0 / (1 << 24) as f64;

/// Ends of the classic buckets, seconds, each with the number of latencies up to it.
pub fn classic(histogram: &Histogram) -> Vec<(f64, u64)> {
    let mut below = 0_u64;
    let mut found = Vec::with_capacity(1 + BUCKETS / SUB_BUCKETS);
    for (bucket, count) in histogram.counts().iter().enumerate() {
        below = below.saturating_add(*count);
        let end_ns = bounds(bucket).upper_ns;
        if end_ns.is_power_of_two() {
            found.push((end_ns as f64 / 1e9, below));
        }
    }
    found
}

/// The native histogram.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Native {
    /// The count of the zero bucket.
    pub zero: u64,
    /// Number and count of each non-empty bucket, ascending. The bucket with number `n` ends at
    /// 2^(n/4) seconds.
    pub buckets: Vec<(i32, u64)>,
}

/// The end of a native bucket, nanoseconds.
fn end_ns(index: i32) -> f64 {
    (f64::from(index) / f64::from(1 << SCHEMA)).exp2() * 1e9
}

/// The native bucket that contains a latency.
fn index_of(ns: f64) -> i32 {
    ((ns / 1e9).log2() * f64::from(1 << SCHEMA)).ceil() as i32
}

/// The same latencies in native buckets.
pub fn native(histogram: &Histogram) -> Native {
    let mut counts = histogram.counts().iter().enumerate();
    let zero = counts.next().map_or(0, |(_, count)| *count);
    let mut buckets: Vec<(i32, u64)> = Vec::new();
    let mut add = |index: i32, count: u64| match buckets.last_mut() {
        Some((last, sum)) if *last == index => *sum = sum.saturating_add(count),
        _ if count > 0 => buckets.push((index, count)),
        _ => {}
    };
    for (bucket, &count) in counts.filter(|(_, count)| **count > 0) {
        let bounds = bounds(bucket);
        let (mut lower, upper) = (bounds.lower_ns as f64, bounds.upper_ns as f64);
        let (first, last) = (index_of(lower), index_of(upper));
        let mut left = count;
        for index in first..last {
            let end = end_ns(index);
            let part = (left as f64 * (end - lower) / (upper - lower)) as u64;
            add(index, part.min(left));
            left -= part.min(left);
            lower = end;
        }
        add(last, left);
    }
    Native { zero, buckets }
}

/// Spans of neighbouring buckets (the number of buckets skipped before each, and its length), and
/// the difference of each bucket's count from the previous one's.
pub fn spans(native: &Native) -> (Vec<(i32, u32)>, Vec<i64>) {
    let (mut spans, mut deltas): (Vec<(i32, u32)>, Vec<i64>) = (Vec::new(), Vec::new());
    let (mut next, mut before) = (0, 0_i64);
    for (index, count) in &native.buckets {
        match spans.last_mut().filter(|_| *index == next) {
            Some((_, length)) => *length += 1,
            None => spans.push((index - next, 1)),
        }
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        deltas.push(count - before);
        (next, before) = (index + 1, count);
    }
    (spans, deltas)
}

#[cfg(test)]
mod tests {
    use metrics_common::histogram::bucket_of;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_classic_bucket_ends_at_each_power_of_two_and_holds_all_below() {
        let mut histogram = Histogram::default();
        for ns in [10, 63, 64, 100, 127, 128, 1_000_000] {
            histogram.record(ns);
        }
        let found = classic(&histogram);
        assert_eq!(found.len(), 29);
        assert_eq!(found[..3], [(6.4e-8, 2), (1.28e-7, 5), (2.56e-7, 6)]);
        assert_eq!(found[28], ((1_u64 << 34) as f64 / 1e9, 7));
    }

    proptest! {
        #[test]
        fn no_latency_is_lost_or_moved_by_more_than_its_bucket_and_nothing_goes_back(
            latencies in prop::collection::vec((0_u64..1 << 34, 0_u32..30), 1..200),
        ) {
            let mut histogram = Histogram::default();
            let mut before = Native::default();
            for (ns, shift) in latencies {
                let ns = ns >> shift;
                histogram.record(ns);
                let now = native(&histogram);
                let count_at = |native: &Native, index| native.buckets.iter().find(|bucket| bucket.0 == index).map_or(0, |bucket| bucket.1);
                prop_assert!(before.zero <= now.zero);
                for (index, count) in &before.buckets {
                    prop_assert!(count_at(&now, *index) >= *count, "bucket {index} goes back");
                }
                let all: u64 = now.buckets.iter().map(|bucket| bucket.1).sum();
                prop_assert_eq!(now.zero + all, histogram.count());
                // The added one is in a native bucket that overlaps its own.
                let bounds = bounds(bucket_of(ns).unwrap());
                let grown = now.buckets.iter().find(|(index, count)| count_at(&before, *index) < *count);
                if let Some((index, _)) = grown {
                    prop_assert!(end_ns(*index) > bounds.lower_ns as f64);
                    prop_assert!(end_ns(index - 1) < bounds.upper_ns as f64);
                }
                let (spans, deltas) = spans(&now);
                prop_assert_eq!(spans.iter().map(|(_, length)| *length as usize).sum::<usize>(), deltas.len());
                before = now;
            }
        }
    }
}
