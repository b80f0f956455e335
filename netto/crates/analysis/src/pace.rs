//! The sampling periods of CPUs, and the time that a sample of an interval stands for.
//!
//! Clocks of the same frequency keep their distance. A sample delays its CPU a little, so with a
//! constant distance the other CPUs would always be sampled at the same moment, for example a
//! receiver always just before it wakes up. The scheduler's tick is such a clock, too, and so is
//! any other sampler on the host. Therefore every CPU has a period of its own, and all periods
//! change at random while netto runs, so that samples hit all moments alike.

/// Periods are 2 to 7 % longer than requested; in ten-thousandths of the requested period.
const SHORTEST: u64 = 10_204;
const SPREAD: u64 = 549;
/// A new period cuts off the current one. After this many periods the loss is small.
const FEWEST_PERIODS: u64 = 20;

/// The period of one CPU for a requested `nominal_hz`, nanoseconds. For each random `turn`, the
/// CPUs are spread evenly over all periods (multiples of the golden ratio), so that no two of them
/// are in step.
pub fn period_ns(cpu: u32, turn: u32, nominal_hz: u64) -> u64 {
    const GOLDEN_RATIO: u32 = 0x9e37_79b9;
    let nominal_ns = u128::from(1_000_000_000 / nominal_hz.max(1));
    let part = u128::from(cpu.wrapping_mul(GOLDEN_RATIO).wrapping_add(turn));
    let scale = u128::from(SHORTEST) * (1 << 32) + u128::from(SPREAD) * part;
    ((nominal_ns * scale / 10_000) >> 32).max(1) as u64
}

/// The time that a taken sample stands for where one is taken each period: that of lost ones, too. Without any,
/// that of one that could have been taken.
pub fn worth_ns(period_ns: u64, taken: u64, lost: u64) -> u64 {
    match taken {
        0 => period_ns,
        taken => (u128::from(period_ns) * u128::from(taken + lost) / u128::from(taken)) as u64,
    }
}

/// The clock of one CPU's sampler since its period was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    period_ns: u64,
    since_ns: u64,
    /// Number of expirations at the end of the last interval.
    fired: u64,
}

/// The state of a clock at the end of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// Time that one sample of the interval stands for, nanoseconds.
    pub sample_period_ns: u64,
    /// Whether a new period is due.
    pub is_due: bool,
}

impl Pace {
    /// A clock started now; it expires first after one period.
    pub fn new(period_ns: u64, now_ns: u64) -> Self {
        Pace {
            period_ns: period_ns.max(1),
            since_ns: now_ns,
            fired: 0,
        }
    }

    /// Time that one sample stands for if nothing is cut off, nanoseconds.
    pub fn period_ns(&self) -> u64 {
        self.period_ns
    }

    /// Ends an interval. A new period is due when this one has run for long enough, or when the
    /// rate changes. The samples of this interval then also stand for the time that is cut off.
    pub fn pass(&mut self, now_ns: u64, other_rate: bool) -> Passed {
        let length_ns = now_ns.saturating_sub(self.since_ns);
        let fired = length_ns / self.period_ns;
        let fired_now = fired - self.fired;
        self.fired = fired;
        let is_due = other_rate || fired >= FEWEST_PERIODS && fired_now > 0;
        let cut_off_ns = if is_due && fired_now > 0 {
            length_ns % self.period_ns
        } else {
            0
        };
        Passed {
            sample_period_ns: self.period_ns + cut_off_ns / fired_now.max(1),
            is_due,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn cpus_are_sampled_nearly_as_asked_and_neighbours_never_in_step() {
        for nominal in [1, 19, 100, 999, 1000, 10_000] {
            for cpu in [0, 1, 2, 1023, u32::MAX] {
                for turn in [0, 1, u32::MAX] {
                    let actual = 1e9 / period_ns(cpu, turn, nominal) as f64;
                    let nominal = nominal as f64;
                    assert!(
                        actual < nominal * 0.981 && actual > nominal * 0.929,
                        "{actual}"
                    );
                }
            }
        }
        for turn in (0..32).map(|bit| 1 << bit) {
            for first in 0..100 {
                let eight: BTreeSet<u64> = (first..first + 8)
                    .map(|cpu| period_ns(cpu, turn, 1000) / 1000)
                    .collect();
                assert_eq!(eight.len(), 8, "from CPU {first}: {eight:?}");
            }
        }
    }

    #[test]
    fn no_period_is_nothing_whatever_is_asked_for() {
        assert!(period_ns(0, 0, u64::MAX) >= 1);
        assert!(period_ns(0, 0, 0) >= 1);
    }

    #[test]
    fn two_samplers_of_one_frequency_have_other_periods_in_nearly_all_turns() {
        // Another turn is a random other period: the share within a thousandth is small.
        let near = (0..1000_u32)
            .map(|step| period_ns(0, step * 4_294_967, 1000))
            .filter(|period| period.abs_diff(period_ns(0, 1 << 31, 1000)) < 1_000)
            .count();
        assert!(near < 50, "{near} of 1000 within 1 µs");
    }

    #[test]
    fn a_new_period_is_not_due_before_the_old_one_was_of_use() {
        let mut slow = Pace::new(1000 * MS, 0);
        for interval in 1..=50 {
            let passed = slow.pass(interval * 500 * MS, false);
            assert_eq!(passed.is_due, interval >= 40 && interval % 2 == 0);
            assert!(passed.is_due || passed.sample_period_ns == 1000 * MS);
        }
        assert!(Pace::new(MS, 0).pass(100 * MS, false).is_due);
    }

    #[test]
    fn what_a_new_period_cuts_off_is_scaled_onto_the_samples_before() {
        // 33 samples, and a millisecond after the last one.
        let passed = Pace::new(3 * MS, 1000 * MS).pass(1100 * MS, false);
        assert_eq!(passed.sample_period_ns, 100 * MS / 33);
    }

    #[test]
    fn another_rate_is_taken_up_at_once_and_nothing_is_lost() {
        let passed = Pace::new(50 * MS, 0).pass(110 * MS, true);
        assert!(passed.is_due);
        assert_eq!(passed.sample_period_ns, 55 * MS);
        assert!(Pace::new(1000 * MS, 0).pass(500 * MS, true).is_due);
    }

    proptest! {
        #[test]
        fn samples_stand_for_all_of_the_time_whatever_the_periods_and_intervals(
            hz in 1_u64..10_000,
            intervals in proptest::collection::vec((1_u64..3_000 * MS, any::<u32>()), 1..50),
        ) {
            let (mut now, mut covered_ns, mut samples) = (0, 0, 0);
            let mut pace = Pace::new(period_ns(0, 7, hz), 0);
            for (length, turn) in intervals {
                now += length;
                let before = pace.fired;
                let passed = pace.pass(now, false);
                covered_ns += passed.sample_period_ns * (pace.fired - before);
                samples += pace.fired - before;
                if passed.is_due {
                    pace = Pace::new(period_ns(0, turn, hz), now);
                }
            }
            // Except for an unfinished period, and a nanosecond for each sample.
            let longest_ns = 1_076_000_000 / hz;
            prop_assert!(covered_ns <= now && covered_ns + longest_ns + samples >= now);
        }
    }
}
