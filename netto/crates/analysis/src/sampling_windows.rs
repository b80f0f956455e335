//! How long probes that cost too much are attached all the same, for a part of the time that stands
//! for the whole. Pure.

/// The part of the budget that a group of probes may use in its windows, as a ratio.
const BUDGET_PART: f64 = 0.2;
/// Least time from the beginning of one window to that of the next: attaching and detaching
/// interrupts every CPU.
const PERIOD_NS: u64 = 1_000_000_000;
/// Shortest window; a shorter one would mostly be attaching.
const SHORTEST_NS: u64 = 5_000_000;
/// Longest window, as a ratio of its interval.
const LONGEST: f64 = 0.5;
/// The part of an interval in which a window begins and ends.
const WITHIN: f64 = 0.9;

/// A window in the next interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SamplingWindow {
    /// From the beginning of the interval to that of the window, nanoseconds.
    pub after_ns: u64,
    /// Its length, nanoseconds.
    pub length_ns: u64,
}

/// Chooses windows.
#[derive(Debug, Clone, Default)]
pub struct SamplingWindows {
    next_ns: u64,
}

impl SamplingWindows {
    /// The window in the interval that begins `now_ns`; `None` if there was one lately.
    ///
    /// `cost_ratio` is the share of a CPU's time that the probes would cost if they were always
    /// attached, `max_overhead_ratio` that of the budget, and `phase`, from 0 to 1, is random: a
    /// load with the windows' period must not always meet them at the same place.
    pub fn next(
        &mut self,
        now_ns: u64,
        interval_ns: u64,
        cost_ratio: f64,
        max_overhead_ratio: f64,
        phase: f64,
    ) -> Option<SamplingWindow> {
        if now_ns < self.next_ns {
            return None;
        }
        // Intervals are not exactly as long as they should be.
        self.next_ns = now_ns + PERIOD_NS - interval_ns.min(PERIOD_NS) / 2;
        let period_ns = PERIOD_NS.max(interval_ns) as f64;
        let allowed_ns = BUDGET_PART * max_overhead_ratio * period_ns / cost_ratio.max(1e-9);
        let longest_ns = (LONGEST * interval_ns as f64) as u64;
        let length_ns = (allowed_ns as u64).max(SHORTEST_NS).min(longest_ns);
        let room_ns = (WITHIN * interval_ns as f64) as u64 - length_ns;
        Some(SamplingWindow {
            after_ns: (phase * room_ns as f64) as u64,
            length_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;

    fn first(cost_ratio: f64) -> SamplingWindow {
        let mut windows = SamplingWindows::default();
        let window = windows.next(0, 500 * MS, cost_ratio, 0.01, 0.5);
        window.unwrap()
    }

    #[test]
    fn a_window_is_as_long_as_its_part_of_the_budget_allows() {
        assert_eq!(first(0.02).length_ns, 100 * MS);
        assert_eq!(first(0.0).length_ns, 250 * MS, "no cost");
        assert_eq!(first(9.0).length_ns, SHORTEST_NS);
    }

    #[test]
    fn there_is_one_in_a_second_however_short_intervals_are() {
        for interval in [100, 500, 1000] {
            let mut windows = SamplingWindows::default();
            let intervals = (0..10_000 / interval).map(|number| number * interval * MS);
            let opened = intervals
                .filter_map(|now| windows.next(now, interval * MS, 0.1, 0.01, 0.0))
                .count();
            assert_eq!(opened, 10, "{interval} ms");
        }
    }

    proptest! {
        #[test]
        fn a_window_ends_within_its_interval(
            interval_ns in 20 * MS..20_000 * MS,
            cost in 0.0_f64..10.0,
            phase in 0.0_f64..1.0,
        ) {
            let window = SamplingWindows::default().next(7, interval_ns, cost, 0.01, phase);
            let window = window.unwrap();
            prop_assert!(window.length_ns > 0);
            prop_assert!(window.after_ns + window.length_ns < interval_ns);
        }
    }
}
