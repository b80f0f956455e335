//! Its metrics: how many softirqs were timed, and the slowest of the last minute by vector.

use std::collections::VecDeque;

use metrics_common::Snapshot;
use metrics_common::sections::SOFTIRQS;
use netto_metrics::State;
use netto_metrics::catalogue::{Catalogue, Value};
use netto_metrics::metrics;

/// What "the last minute" means, nanoseconds.
const MINUTE_NS: u64 = 60_000_000_000;

/// The slow softirqs of the last minute: when each began, its vector and its length.
#[derive(Debug, Clone, Default)]
struct LastMinute {
    softirqs: VecDeque<(u64, usize, u64)>,
}

impl State for LastMinute {
    fn add(&mut self, snapshot: &Snapshot, sum: &mut Snapshot) {
        let slowest = snapshot.sections.slowest.as_ref();
        for slow in slowest.iter().flat_map(|slowest| &slowest.softirqs) {
            if let Some(vector) = SOFTIRQS.iter().position(|name| *name == slow.softirq) {
                let seen = (slow.began_unix_ns, vector, slow.length_ns);
                self.softirqs.push_back(seen);
            }
        }
        let begin_ns = snapshot.time_unix_ns.saturating_sub(MINUTE_NS);
        self.softirqs.retain(|seen| seen.0 >= begin_ns);
        if let Some(slowest) = &mut sum.sections.slowest {
            slowest.softirqs.clear();
        }
    }

    fn copy(&self) -> Box<dyn State> {
        Box::new(self.clone())
    }
}

impl LastMinute {
    /// The length of the slowest by vector; `None` without one.
    fn longest_ns(&self, vector: usize) -> Option<u64> {
        let of_vector = self.softirqs.iter().filter(|seen| seen.1 == vector);
        of_vector.map(|seen| seen.2).max()
    }
}

/// What is exported of it.
pub(crate) const METRICS: Catalogue = Catalogue::of(metrics! {
    Counter "netto_timed_softirqs_total" Count("softirq") [];
        "Softirqs that were timed from their beginning to their end.";
        |inputs, out| {
            let slowest = inputs.sum().sections.slowest.as_ref();
            out.push_known(&[], slowest.map(|slowest| Value::Count(slowest.timed)));
        };
    Gauge "netto_slowest_softirq_seconds" Seconds ["softirq"];
        "Length of the slowest softirq of the last minute, by the kernel's name; absent where \
         none of those that were timed took more than 100 microseconds.";
        |inputs, out| {
            let last = inputs.totals.state::<LastMinute>();
            for (vector, name) in SOFTIRQS.iter().enumerate() {
                let longest_ns = last.and_then(|last| last.longest_ns(vector));
                out.push_known(&[name], longest_ns.map(Value::Nanoseconds));
            }
        };
})
.with_state(|| Box::<LastMinute>::default());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::slowest;

    #[test]
    fn the_slowest_of_a_minute_is_forgotten_after_it_and_the_sum_has_no_list() {
        let mut last = LastMinute::default();
        let mut section = slowest();
        let began_ns = section.softirqs[0].began_unix_ns;
        let mut sum = Snapshot::default();
        for (after_s, length_ns, expected) in [
            (1, 500_000, 500_000),
            (30, 300_000, 500_000),
            (62, 200_000, 300_000),
        ] {
            let time_unix_ns = began_ns + after_s * 1_000_000_000;
            section.softirqs[0].length_ns = length_ns;
            section.softirqs[0].began_unix_ns = time_unix_ns - 1_000_000_000;
            let mut snapshot = Snapshot {
                time_unix_ns,
                ..Snapshot::default()
            };
            snapshot.sections.slowest = Some(section.clone());
            sum.add(&snapshot);
            last.add(&snapshot, &mut sum);
            assert_eq!(last.longest_ns(3), Some(expected), "after {after_s} s");
            assert_eq!(last.longest_ns(1), None);
        }
        let sum = sum.sections.slowest.unwrap();
        assert_eq!((sum.softirqs.len(), sum.timed), (0, 120));
    }
}
