//! How late packets were: a histogram whose buckets are a thirty-second of their value wide.

/// Buckets between a value and twice the value.
const STEPS: u64 = 32;
const BUCKETS: usize = 64 * STEPS as usize;

/// The lateness of packets, nanoseconds.
pub struct Lateness {
    counts: Box<[u64; BUCKETS]>,
    all: u64,
    late: u64,
    max_ns: u64,
    limit_ns: u64,
}

fn bucket(ns: u64) -> usize {
    if ns < STEPS {
        return ns as usize;
    }
    let shift = ns.ilog2() - STEPS.ilog2();
    ((u64::from(shift) + 1) * STEPS + (ns >> shift) - STEPS) as usize
}

/// The greatest value of a bucket.
fn upper_ns(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let shift = bucket / STEPS - 1;
    let from = u128::from(bucket % STEPS + STEPS) << shift;
    u64::try_from(from + (1 << shift) - 1).unwrap_or(u64::MAX)
}

impl Lateness {
    /// Of no packets; those that are later than the limit are late.
    pub fn new(limit_ns: u64) -> Self {
        Lateness {
            counts: Box::new([0; BUCKETS]),
            all: 0,
            late: 0,
            max_ns: 0,
            limit_ns,
        }
    }

    /// Adds a packet.
    pub fn add(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.all += 1;
        self.late += u64::from(ns > self.limit_ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Packets later than the limit.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The lateness of the latest.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// What so many thousandths of all packets did not exceed, at most a thirty-second too much;
    /// none of no packets.
    pub fn quantile_ns(&self, thousandths: u64) -> Option<u64> {
        let wanted = (u128::from(self.all) * u128::from(thousandths)).div_ceil(1000);
        let mut sum = 0;
        let found = self.counts.iter().position(|count| {
            sum += u128::from(*count);
            *count > 0 && sum >= wanted
        })?;
        Some(upper_ns(found).min(self.max_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_its_values_and_no_others() {
        for ns in (0..5000).chain([1 << 40, (1 << 40) + 12345, u64::MAX]) {
            let upper = upper_ns(bucket(ns));
            assert!(upper >= ns && upper - ns <= ns / 32, "{ns}: {upper}");
            assert_eq!(bucket(upper), bucket(ns));
        }
    }

    #[test]
    fn quantiles_are_values_that_so_many_do_not_exceed() {
        let mut lateness = Lateness::new(900);
        assert_eq!(lateness.quantile_ns(500), None);
        (1..=1000).for_each(|ns| lateness.add(ns));
        let near = |thousandths: u64, ns: u64| {
            let found = lateness
                .quantile_ns(thousandths)
                .expect("there are packets");
            assert!(found >= ns && found <= ns + ns / 32, "{found}");
        };
        near(500, 500);
        near(990, 990);
        near(1000, 1000);
        assert_eq!((lateness.late(), lateness.max_ns()), (100, 1000));
    }
}
