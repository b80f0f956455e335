//! Computes the counts of an interval from each CPU's totals.

use metrics_common::latency::{BUCKETS, Histogram};
use metrics_common::sections::PointLatency;

use super::plan::Price;

/// Counts at one point since the start, on one CPU, of all packets or of one group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// By bucket.
    pub buckets: Vec<u64>,
    /// Sum of the latencies, nanoseconds.
    pub sum_ns: u64,
    /// Outside of buckets.
    pub negative: u64,
    /// Outside of buckets.
    pub too_long: u64,
    /// Without a known time.
    pub lost: u64,
}

impl Counts {
    /// The increase since an earlier reading.
    pub fn since(&self, before: &Counts) -> Counts {
        let earlier = before.buckets.iter().copied().chain(std::iter::repeat(0));
        Counts {
            buckets: self
                .buckets
                .iter()
                .zip(earlier)
                .map(|(now, before)| now.saturating_sub(before))
                .collect(),
            sum_ns: self.sum_ns.saturating_sub(before.sum_ns),
            negative: self.negative.saturating_sub(before.negative),
            too_long: self.too_long.saturating_sub(before.too_long),
            lost: self.lost.saturating_sub(before.lost),
        }
    }

    /// As a histogram, without latencies outside of buckets.
    pub fn histogram(&self) -> Histogram {
        Histogram::of(&self.buckets, self.sum_ns)
    }
}

/// Adds the counts of one CPU to its column of the point.
pub fn put(point: &mut PointLatency, column: usize, grown: &Counts) {
    let cpus = point.sum_ns.len();
    for (bucket, &count) in grown.buckets.iter().enumerate().take(BUCKETS) {
        if count > 0 {
            let row = point.buckets[bucket].get_or_insert_with(|| vec![0; cpus]);
            row[column] = count;
        }
    }
    point.sum_ns[column] = grown.sum_ns;
    point.negative[column] = grown.negative;
    point.too_long[column] = grown.too_long;
    point.lost[column] = grown.lost;
}

/// Mean cost of a packet, nanoseconds, if one in this many is measured. Packets that are passed
/// over are cheap, but numerous.
pub fn event_ns(one_in: u64, price: Price) -> f64 {
    price.run_ns as f64 + one_in.saturating_sub(1) as f64 * price.pass_ns as f64
}

#[cfg(test)]
mod tests {
    use metrics_common::latency::Point;

    use super::*;

    #[test]
    fn an_interval_has_what_came_since_the_one_before() {
        let now = Counts {
            buckets: vec![3, 0, 7],
            sum_ns: 900,
            negative: 2,
            too_long: 1,
            lost: 4,
        };
        let before = Counts {
            buckets: vec![1],
            sum_ns: 100,
            lost: 1,
            ..Counts::default()
        };
        let grown = now.since(&before);
        assert_eq!(
            (grown.buckets.as_slice(), grown.sum_ns),
            ([2, 0, 7].as_slice(), 800)
        );
        let mut point = PointLatency::new(Point::IpStart, "fentry", 2);
        put(&mut point, 1, &grown);
        assert_eq!(point.buckets[2], Some(vec![0, 7]));
        assert_eq!(point.buckets[1], None);
        assert_eq!((point.negative, point.too_long), (vec![0, 2], vec![0, 1]));
        assert_eq!(point.lost, [0, 3]);
        assert_eq!(grown.histogram().count(), 9);
    }

    #[test]
    fn packets_that_are_passed_over_cost_too() {
        let price = Price {
            run_ns: 100,
            pass_ns: 15,
        };
        assert_eq!(event_ns(1, price), 100.0);
        assert_eq!(event_ns(64, price), 100.0 + 63.0 * 15.0);
    }
}
