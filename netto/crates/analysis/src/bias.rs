//! The ratio of sampled to timed softirq time, learnt while both are known, to correct samples
//! while there are no probes. Pure.
//!
//! A softirq's first and last instructions look like those of the interrupted code; a sampling
//! interrupt is delayed while interrupts are off; and a sampling clock in step with the kernel's
//! tick hits the work that the tick starts. The size of these errors depends on the kernel and the
//! machine.

use metrics_common::Correction;

/// Softirq samples from which the ratio is known to about a tenth.
const ENOUGH: f64 = 400.0;
/// Samples beyond which no more are needed.
const PLENTY: f64 = 4_000.0;
/// Samples at which old ones are halved.
const REMEMBERED: f64 = 20_000.0;
/// Plausible ratios on any kernel.
const POSSIBLE: std::ops::RangeInclusive<f64> = 0.8..=1.6;
/// The two-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.96;

/// See the head of this file.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bias {
    timed_ns: f64,
    sampled_ns: f64,
    samples: f64,
}

impl Bias {
    /// Adds an interval of one CPU: the time of a softirq by the clock, and the samples in that
    /// time whose stacks alone show it, each of which stands for a period.
    pub fn add(&mut self, timed_ns: u64, samples: u32, period_ns: u64) {
        self.timed_ns += timed_ns as f64;
        self.sampled_ns += f64::from(samples) * period_ns as f64;
        self.samples += f64::from(samples);
        if self.samples > REMEMBERED {
            self.timed_ns /= 2.0;
            self.sampled_ns /= 2.0;
            self.samples /= 2.0;
        }
    }

    /// Whether more should be learnt when there is an opportunity.
    pub fn wants_more(&self) -> bool {
        self.samples < PLENTY
    }

    /// The factor for time found by samples; `None` before it is known.
    pub fn correction(&self) -> Option<Correction> {
        (self.samples >= ENOUGH).then(|| Correction {
            ratio: (self.timed_ns / self.sampled_ns.max(1.0))
                .clamp(*POSSIBLE.start(), *POSSIBLE.end()),
            error_ratio: Z / self.samples.sqrt(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_samples_miss_is_known_after_some_hundred_of_them() {
        let mut bias = Bias::default();
        for _ in 0..100 {
            bias.add(1_150_000, 1, 1_000_000);
        }
        assert_eq!(bias.correction(), None);
        for _ in 0..10_000 {
            bias.add(1_150_000, 1, 1_000_000);
        }
        let correction = bias.correction().unwrap();
        assert!((correction.ratio - 1.15).abs() < 1e-9, "{correction:?}");
        assert!(correction.error_ratio < 0.03, "{correction:?}");
        assert!(!bias.wants_more());
    }

    #[test]
    fn time_without_samples_counts_as_much_as_time_with_many() {
        let mut bias = Bias::default();
        for _ in 0..1000 {
            bias.add(100_000, 0, 1_000_000);
            bias.add(2_000_000, 2, 1_000_000);
        }
        assert!((bias.correction().unwrap().ratio - 1.05).abs() < 1e-9);
    }

    #[test]
    fn another_kernel_behaviour_is_learnt_anew() {
        let mut bias = Bias::default();
        for _ in 0..100_000 {
            bias.add(1_300_000, 1, 1_000_000);
        }
        for _ in 0..100_000 {
            bias.add(1_000_000, 1, 1_000_000);
        }
        assert!((bias.correction().unwrap().ratio - 1.0).abs() < 0.02);
    }
}
