//! Shares over time, in a bounded number of steps for any length. Pure.
//!
//! Time is divided into steps of one second; when more than [`MOST_STEPS`] are not empty, their
//! length is doubled and pairs are merged. Time without measurements takes no step.

use std::collections::BTreeMap;

/// Number of steps at which pairs are merged.
pub const MOST_STEPS: usize = 2_048;
/// Initial length of a step, nanoseconds.
const FIRST_STEP_NS: u64 = 1_000_000_000;

/// The sums of one step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// Total time of all CPUs, nanoseconds.
    pub capacity_ns: u64,
    /// CPU time of the report's subject, nanoseconds.
    pub subject_ns: u64,
    /// CPU time of each of its parts, nanoseconds.
    pub parts_ns: Vec<u64>,
    /// The interval with the largest share: that share, 0 to 1, and the interval's end.
    pub peak: Option<(f64, u64)>,
}

impl Step {
    fn add(&mut self, more: &Step) {
        self.capacity_ns = self.capacity_ns.saturating_add(more.capacity_ns);
        self.subject_ns = self.subject_ns.saturating_add(more.subject_ns);
        if self.parts_ns.len() < more.parts_ns.len() {
            self.parts_ns.resize(more.parts_ns.len(), 0);
        }
        for (sum, ns) in self.parts_ns.iter_mut().zip(&more.parts_ns) {
            *sum = sum.saturating_add(*ns);
        }
        self.peak = match (self.peak, more.peak) {
            (Some(peak), Some(other)) if other.0 > peak.0 => Some(other),
            (peak, other) => peak.or(other),
        };
    }

    /// Share of the host, 0 to 1.
    pub fn share_ratio(&self, ns: u64) -> f64 {
        match self.capacity_ns {
            0 => 0.0,
            capacity_ns => ns as f64 / capacity_ns as f64,
        }
    }
}

/// Steps in the order of time.
#[derive(Debug, Clone)]
pub struct Timeline {
    step_ns: u64,
    /// By their beginning, in steps since the Unix epoch.
    steps: BTreeMap<u64, Step>,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline {
            step_ns: FIRST_STEP_NS,
            steps: BTreeMap::new(),
        }
    }
}

impl Timeline {
    /// Adds an interval that ends at this time, to the step of its middle.
    pub fn add(&mut self, end_unix_ns: u64, interval_ns: u64, interval: &Step) {
        // Steps shorter than intervals would leave gaps.
        while self.step_ns < interval_ns {
            self.double();
        }
        let middle = end_unix_ns.saturating_sub(interval_ns / 2);
        let step = self.steps.entry(middle / self.step_ns).or_default();
        step.add(interval);
        while self.steps.len() > MOST_STEPS {
            self.double();
        }
    }

    fn double(&mut self) {
        self.step_ns = self.step_ns.saturating_mul(2);
        for (at, step) in std::mem::take(&mut self.steps) {
            self.steps.entry(at / 2).or_default().add(&step);
        }
    }

    /// The same with at most this many steps.
    pub fn at_most(mut self, steps: usize) -> Timeline {
        while self.steps.len() > steps.max(1) {
            self.double();
        }
        self
    }

    /// Length of a step, nanoseconds.
    pub fn step_ns(&self) -> u64 {
        self.step_ns
    }

    /// All non-empty steps with their beginning, nanoseconds since the Unix epoch.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = (u64, &Step)> {
        self.steps
            .iter()
            .map(|(at, step)| (at.saturating_mul(self.step_ns), step))
    }

    /// The intervals with the largest shares, in descending order, each with its share and end. Of
    /// intervals closer together than `apart_ns`, only the largest.
    pub fn peaks(&self, count: usize, apart_ns: u64) -> Vec<(f64, u64)> {
        let mut all: Vec<(f64, u64)> = self.steps.values().filter_map(|step| step.peak).collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut peaks: Vec<(f64, u64)> = Vec::new();
        for peak in all {
            if peaks.len() == count || peak.0 <= 0.0 {
                break;
            }
            if peaks
                .iter()
                .all(|other| other.1.abs_diff(peak.1) >= apart_ns)
            {
                peaks.push(peak);
            }
        }
        peaks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn interval(ns: u64, end: u64) -> Step {
        Step {
            capacity_ns: 100,
            subject_ns: ns,
            parts_ns: vec![ns],
            peak: Some((ns as f64 / 100.0, end)),
        }
    }

    #[test]
    fn however_long_it_was_nothing_is_lost_and_steps_are_few() {
        let mut timeline = Timeline::default();
        for number in 0..10_000_u64 {
            let end = number * SECOND / 2;
            timeline.add(end, SECOND / 2, &interval(number % 7, end));
        }
        assert!((MOST_STEPS / 2..=MOST_STEPS).contains(&timeline.steps().count()));
        let sum: u64 = timeline.steps().map(|(_, step)| step.subject_ns).sum();
        assert_eq!(sum, (0..10_000).map(|number| number % 7).sum::<u64>());
        assert!(timeline.at_most(100).steps().count() <= 100);
    }

    #[test]
    fn peaks_lie_apart() {
        let mut timeline = Timeline::default();
        for (at, ns) in [(10, 50), (11, 60), (12, 40), (500, 30), (900, 0)] {
            timeline.add(at * SECOND, SECOND, &interval(ns, at * SECOND));
        }
        let peaks = timeline.peaks(3, 60 * SECOND);
        assert_eq!(peaks, [(0.6, 11 * SECOND), (0.3, 500 * SECOND)]);
    }

    #[test]
    fn hostile_times_cost_neither_memory_nor_time() {
        let mut timeline = Timeline::default();
        for number in 0..5_000_u64 {
            let end = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            timeline.add(end, u64::MAX, &interval(u64::MAX, u64::MAX));
        }
        timeline.add(0, 1, &Step::default());
        assert!(timeline.steps().count() <= MOST_STEPS);
    }
}
