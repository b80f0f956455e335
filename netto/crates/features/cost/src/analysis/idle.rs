//! Detects CPUs that are not sampled while idle, from expected and actual counts.
//!
//! A softirq that wakes a CPU runs on top of its idle task. In some virtual machines, the sampling
//! clock takes no samples there on some CPUs: softirqs are then seen only where they interrupt a
//! task, and the user should be warned.
//!
//! Every kernel stops a CPU's clock after a number of samples (`perf_event_max_sample_rate` / HZ)
//! until its next tick, and an idle CPU has few ticks, which limits the expected samples of an
//! interval.

use std::collections::BTreeMap;

/// Expected samples from which a CPU is judged.
const ENOUGH: u64 = 1000;
/// At least one in this many must have been taken.
const LEAST: u64 = 10;

/// Counts of each CPU since the start.
#[derive(Debug)]
pub struct IdleSampling {
    most_between_ticks: u64,
    cpus: BTreeMap<u32, IdleSamples>,
}

#[derive(Debug, Default)]
struct IdleSamples {
    expected: u64,
    taken: u64,
}

impl IdleSampling {
    /// For a kernel that takes at most this many samples between two ticks of a CPU.
    pub fn new(most_between_ticks: u64) -> Self {
        IdleSampling {
            most_between_ticks,
            cpus: BTreeMap::new(),
        }
    }

    /// Adds an interval: the CPU's idle time, the sampling period, and the samples of the idle CPU
    /// since the start.
    pub fn add_interval(&mut self, cpu: u32, idle_ns: u64, sample_period_ns: u64, taken: u64) {
        let seen = self.cpus.entry(cpu).or_default();
        seen.expected += (idle_ns / sample_period_ns.max(1)).min(self.most_between_ticks);
        seen.taken = taken;
    }

    /// A warning for the user, if needed.
    pub fn note(&self) -> Option<String> {
        let blind: Vec<String> = self
            .cpus
            .iter()
            .filter(|(_, seen)| seen.expected >= ENOUGH && seen.taken * LEAST < seen.expected)
            .map(|(cpu, _)| cpu.to_string())
            .collect();
        (!blind.is_empty()).then(|| {
            format!(
                "The kernel takes no samples while these CPUs are idle: {}. Sampling does not see \
                 the work of a softirq that wakes one of them.",
                blind.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_cpu_that_is_sampled_while_idle_is_not_worth_a_word() {
        let mut idle = IdleSampling::new(u64::MAX);
        for interval in 1..=100 {
            // In a guest on a busy host, half of the samples may be missing.
            idle.add_interval(0, 500 * MS, MS, 250 * interval);
        }
        assert_eq!(idle.note(), None);
    }

    #[test]
    fn a_cpu_that_is_never_sampled_while_idle_is_named_after_a_second_of_idleness() {
        let mut idle = IdleSampling::new(u64::MAX);
        idle.add_interval(0, 500 * MS, MS, 500);
        idle.add_interval(1, 500 * MS, MS, 0);
        assert_eq!(idle.note(), None, "too early to tell");
        idle.add_interval(0, 500 * MS, MS, 1000);
        idle.add_interval(1, 500 * MS, MS, 3);
        assert!(idle.note().unwrap().contains("idle: 1."));
    }

    #[test]
    fn a_busy_cpu_is_not_judged_and_one_that_is_seen_later_is_acquitted() {
        let mut idle = IdleSampling::new(u64::MAX);
        for _ in 0..1000 {
            idle.add_interval(7, 0, MS, 0);
        }
        assert_eq!(idle.note(), None);
        idle.add_interval(7, 2000 * MS, MS, 0);
        assert!(idle.note().is_some());
        idle.add_interval(7, 500 * MS, MS, 400);
        assert_eq!(idle.note(), None);
    }

    #[test]
    fn a_clock_that_stops_until_the_next_tick_is_not_taken_for_none() {
        let mut idle = IdleSampling::new(400);
        for interval in 1..=100 {
            // 10 kHz, and one tick in the interval.
            idle.add_interval(0, 500 * MS, MS / 10, 400 * interval);
            idle.add_interval(1, 500 * MS, MS / 10, 0);
        }
        assert!(idle.note().unwrap().contains("idle: 1."));
    }
}
