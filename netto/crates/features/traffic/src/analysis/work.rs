//! The probes' counts of an interval, of all CPUs together. Pure.

use metrics_common::WorkCount;

/// Number of counts.
const COUNTS: usize = WorkCount::ALL.len();

/// A CPU's counts since the probes were loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// By [`WorkCount::ALL`].
    pub values: [u64; COUNTS],
    /// Calls that were checked and not counted.
    pub others: u64,
}

impl Counts {
    fn of(&self, count: WorkCount) -> u64 {
        self.values[count as usize]
    }

    /// Number of probe runs: each adds to one of these.
    fn runs(&self) -> u64 {
        self.of(WorkCount::MessagesSent)
            + self.of(WorkCount::MessagesReceived)
            + self.of(WorkCount::NapiPolls)
            + self.others
    }
}

/// Follows the counts of each CPU from one interval to the next.
#[derive(Debug, Default)]
pub struct Growth(Vec<Counts>);

impl Growth {
    /// Adds a CPU's counts since its last reading; returns the probes' runs.
    pub fn add(&mut self, sums: &mut [u64; COUNTS], cpu: usize, now: Counts) -> u64 {
        if self.0.len() <= cpu {
            self.0.resize(cpu + 1, Counts::default());
        }
        let last = std::mem::replace(&mut self.0[cpu], now);
        for ((sum, now), last) in sums.iter_mut().zip(now.values).zip(last.values) {
            *sum += now.saturating_sub(last);
        }
        now.runs().saturating_sub(last.runs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_on_each_cpu_is_summed_and_every_run_is_charged_to_its_own() {
        let mut growth = Growth::default();
        let counts = |values, others| Counts { values, others };
        let mut sums = [0; COUNTS];
        let first = counts([1, 100, 2, 200, 3, 300], 4);
        assert_eq!(growth.add(&mut sums, 2, first), 10);
        assert_eq!(growth.add(&mut sums, 0, first), 10);
        assert_eq!(sums, [2, 200, 4, 400, 6, 600]);
        let mut sums = [0; COUNTS];
        let second = counts([2, 150, 2, 200, 3, 300], 9);
        assert_eq!(growth.add(&mut sums, 2, second), 6);
        assert_eq!(growth.add(&mut sums, 0, first), 0);
        assert_eq!(sums, [1, 50, 0, 0, 0, 0]);
    }
}
