//! How long intervals must be for what netto's process does at the end of each to stay in its part of the
//! budget. Pure.
//!
//! Only the analyzer's thread is measured; windows, log and collector take about twice as much again for each
//! interval. Requests of clients run on other threads, so that no client makes intervals longer.

use std::time::Duration;

/// The part of the budget that the analyzer's thread may take.
const ANALYZER_PART: f64 = 0.15;
/// The weight of the last interval in the mean.
const WEIGHT: f64 = 0.25;
/// Time after the start that is left out, nanoseconds: the analyzer takes over new symbols in it, once.
const START_NS: u64 = 3_000_000_000;

/// What the analyzer's thread takes in an interval, in the mean of the last ones.
#[derive(Debug, Clone, Copy)]
pub struct AnalyzerCost {
    period_ns: f64,
    most_periods: u32,
    passed_ns: u64,
    mean_ns: f64,
}

impl AnalyzerCost {
    /// With periods of this length, and at most this many of them in an interval.
    pub fn new(period: Duration, most_periods: u32) -> Self {
        AnalyzerCost {
            period_ns: period.as_nanos() as f64,
            most_periods,
            passed_ns: 0,
            mean_ns: 0.0,
        }
    }

    /// Learns the thread's CPU time in an interval of this length, nanoseconds.
    pub fn learn(&mut self, interval_ns: u64, spent_ns: u64) {
        self.passed_ns = self.passed_ns.saturating_add(interval_ns);
        if self.passed_ns > START_NS {
            self.mean_ns += WEIGHT * (spent_ns as f64 - self.mean_ns);
        }
    }

    /// The fewest periods of an interval in which the thread keeps to its part, up to the most that an
    /// interval may have.
    pub fn fewest_periods(&self, max_overhead_ratio: f64) -> u32 {
        let may_ns = ANALYZER_PART * max_overhead_ratio * self.period_ns;
        let periods = (self.mean_ns / may_ns.max(1.0)).ceil() as u32;
        periods.clamp(1, self.most_periods.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_millis(500);
    const PERIOD_NS: u64 = 500_000_000;

    fn fewest(spent_us: u64, max_overhead_ratio: f64) -> u32 {
        let mut analyzer = AnalyzerCost::new(PERIOD, 8);
        for _ in 0..60 {
            analyzer.learn(PERIOD_NS, spent_us * 1_000);
        }
        analyzer.fewest_periods(max_overhead_ratio)
    }

    #[test]
    fn an_interval_has_as_many_periods_as_the_analyzer_needs_to_keep_to_its_part_of_the_budget() {
        assert_eq!(fewest(700, 0.01), 1);
        assert_eq!(fewest(800, 0.01), 2);
        assert_eq!(fewest(3_700, 0.01), 5);
        assert_eq!(fewest(3_700, 0.05), 1);
        assert_eq!(fewest(100_000, 1.0), 2);
        assert_eq!(fewest(0, 0.01), 1);
        assert_eq!(fewest(100_000, 0.01), 8, "an interval has no more");
        assert_eq!(fewest(1, 0.0), 8);
    }

    #[test]
    fn the_start_tells_nothing_and_one_dear_interval_is_paid_back_by_the_next_ones() {
        let mut analyzer = AnalyzerCost::new(PERIOD, 8);
        let mut learn = |spent_ns: u64| {
            analyzer.learn(PERIOD_NS, spent_ns);
            analyzer.fewest_periods(0.01)
        };
        assert!((0..6).all(|_| learn(100_000_000) == 1));
        assert_eq!(learn(0), 1);
        let periods = [15_000_000, 0, 0, 0, 0, 0].map(&mut learn);
        assert_eq!(periods, [5, 4, 3, 3, 2, 2]);
    }
}
