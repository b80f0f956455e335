//! The ratio of sampled to timed softirq time, learnt while both are known, to correct samples
//! while there are no probes. Pure.
//!
//! A softirq's first and last instructions look like those of the interrupted code; a sampling
//! interrupt is delayed while interrupts are off; and a sampling clock in step with the kernel's
//! tick hits the work that the tick starts. The size of these errors depends on the kernel, the
//! machine, and what else it does at the time: the ratio that was learnt in one moment is not that
//! of another. How far moments differ is therefore estimated beside the mean (R. DerSimonian and
//! N. Laird, 1986), and is part of the stated error, because the next moment may be any of them.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::quantile::{NORMAL, student};

/// The factor applied to time that was found by samples alone: samples miss a part of it, which was
/// measured while it was timed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Correction {
    /// Time by the clock, relative to sampled time.
    pub ratio: f64,
    /// Its relative error (95 %).
    pub error_ratio: f64,
}

/// Softirq samples that must have been due, and taken, until the ratio is known.
const ENOUGH_DUE: f64 = 100.0;
const ENOUGH: f64 = 16.0;
/// Length of a moment: what was learnt within it counts as one observation, however long softirqs
/// were timed.
const MOMENT_NS: u64 = 30_000_000_000;
/// Moments that are remembered, so that the ratio follows the load.
const REMEMBERED: usize = 40;
/// The assumed standard deviation between moments, as a ratio: beside two perf samplers the
/// ratio was 1.10, a minute later without them 0.95. It counts as much as so many moments.
const ASSUMED: f64 = 0.08;
const ASSUMED_MOMENTS: f64 = 8.0;
/// Plausible ratios on any kernel: of timed to sampled time, and of two clocks.
const OF_TIME: RangeInclusive<f64> = 0.8..=1.6;
const OF_CLOCKS: RangeInclusive<f64> = 0.01..=100.0;
/// See the head of this file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bias {
    moments: VecDeque<Moment>,
    is_of_clocks: bool,
}

/// What was learnt in a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Moment {
    begun_ns: u64,
    timed_ns: f64,
    sampled_ns: f64,
    /// Samples that the timed softirqs should have had.
    due: f64,
    samples: f64,
}

impl Bias {
    /// The ratio of one clock's samples, which are many, to those of another: in the place of time that is known,
    /// the time for which the first stand.
    pub fn of_ratio() -> Bias {
        Bias {
            is_of_clocks: true,
            ..Bias::default()
        }
    }

    /// Begins an interval; what is added next belongs to it.
    pub fn begin_interval(&mut self, now_ns: u64) {
        match self.moments.back_mut() {
            Some(unused) if unused.timed_ns == 0.0 && unused.samples == 0.0 => {
                unused.begun_ns = now_ns
            }
            Some(newest) if now_ns.saturating_sub(newest.begun_ns) < MOMENT_NS => {}
            _ => {
                if self.moments.is_empty() {
                    self.moments.reserve_exact(REMEMBERED + 1);
                }
                self.moments.push_back(Moment {
                    begun_ns: now_ns,
                    ..Moment::default()
                });
                if self.moments.len() > REMEMBERED {
                    self.moments.pop_front();
                }
            }
        }
    }

    /// Adds an interval of one CPU: the time of a softirq by the clock, and the samples in that
    /// time whose stacks alone show it, each of which stands for a period, nanoseconds.
    pub fn add(&mut self, timed_ns: f64, samples: f64, period_ns: f64) {
        if let Some(moment) = self.moments.back_mut() {
            moment.timed_ns += timed_ns;
            moment.sampled_ns += samples * period_ns;
            moment.due += timed_ns / period_ns.max(1.0);
            moment.samples += samples;
        }
    }

    /// How many samples were due in all moments, and how many were taken.
    pub fn observations(&self) -> (f64, f64) {
        let sum = |of: fn(&Moment) -> f64| self.moments.iter().map(of).sum();
        (sum(|moment| moment.due), sum(|moment| moment.samples))
    }

    /// The factor for time found by samples; `None` before it is known.
    pub fn correction(&self) -> Option<Correction> {
        let moments = || self.moments.iter().filter(|moment| moment.timed_ns > 0.0);
        let sum = |of: &dyn Fn(&Moment) -> f64| moments().map(of).sum::<f64>();
        let enough_due = if self.is_of_clocks { 0.0 } else { ENOUGH_DUE };
        if sum(&|moment| moment.due) < enough_due || sum(&|moment| moment.samples) < ENOUGH {
            return None;
        }
        // Shares rather than factors: their errors are those of a count, also of none.
        let expected_ratio = sum(&|moment| moment.sampled_ns) / sum(&|moment| moment.timed_ns);
        let expected = |moment: &Moment| moment.due * expected_ratio;
        let relative_error =
            |moment: &Moment| moment.sampled_ns / moment.timed_ns / expected_ratio - 1.0;
        // By how much moments differ beyond the errors of their counts, and how many say so.
        let expected_total = sum(&expected);
        let weights = expected_total - sum(&|moment| expected(moment).powi(2)) / expected_total;
        let excess = sum(&|moment| expected(moment) * relative_error(moment).powi(2))
            - (moments().count() as f64 - 1.0);
        let observed_variance = (excess / weights.max(1.0)).max(0.0);
        let weight = |moment: &Moment, between_variance: f64| {
            1.0 / (between_variance + 1.0 / expected(moment).max(1e-9))
        };
        let prior_weight = |moment: &Moment| weight(moment, ASSUMED.powi(2));
        let independent_moments =
            sum(&prior_weight).powi(2) / sum(&|moment| prior_weight(moment).powi(2)) - 1.0;
        let freedom = ASSUMED_MOMENTS + independent_moments;
        let between_variance =
            (ASSUMED_MOMENTS * ASSUMED.powi(2) + independent_moments * observed_variance) / freedom;
        let total_weight = sum(&|moment| weight(moment, between_variance));
        let mean_error =
            sum(&|moment| weight(moment, between_variance) * relative_error(moment)) / total_weight;
        let error_ratio = student(NORMAL, freedom) * (between_variance + 1.0 / total_weight).sqrt();
        let found = 1.0 / (expected_ratio * (1.0 + mean_error)).max(1e-9);
        let possible = if self.is_of_clocks {
            OF_CLOCKS
        } else {
            OF_TIME
        };
        let ratio = found.clamp(*possible.start(), *possible.end());
        Some(Correction {
            ratio,
            // What was found is in the interval even if it is not taken for possible: too much or too
            // little.
            error_ratio: error_ratio
                .max(found * (1.0 + error_ratio) / ratio - 1.0)
                .max(1.0 - found * (1.0 - error_ratio) / ratio),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::random::SplitMix64;

    use super::*;

    const MS: f64 = 1e6;
    const PERIOD: f64 = 4.0 * MS;

    /// Adds a moment in which of this many due samples so many were had, in intervals.
    fn moment(bias: &mut Bias, number: u64, due: u64, samples: u32) {
        bias.begin_interval(number * MOMENT_NS);
        let (due, samples) = (due as f64, f64::from(samples));
        bias.add(due / 2.0 * PERIOD, samples / 2.0, PERIOD);
        bias.begin_interval(number * MOMENT_NS + MOMENT_NS / 2);
        bias.add(due / 2.0 * PERIOD, samples / 2.0, PERIOD);
    }

    fn normal(random: &mut SplitMix64) -> f64 {
        (0..12).map(|_| random.ratio()).sum::<f64>() - 6.0
    }

    #[test]
    fn what_samples_miss_is_known_after_some_hundred_of_them() {
        let mut bias = Bias::default();
        moment(&mut bias, 0, 90, 78);
        assert_eq!(bias.correction(), None);
        for number in 1..20 {
            moment(&mut bias, number, 1150, 1000);
        }
        let correction = bias.correction().unwrap();
        assert!((correction.ratio - 1.15).abs() < 0.005, "{correction:?}");
        assert!(correction.error_ratio < 0.1, "{correction:?}");
    }

    #[test]
    fn one_long_stretch_says_nothing_of_other_moments() {
        let mut bias = Bias::default();
        moment(&mut bias, 0, 110_000, 100_000);
        let Correction { ratio, error_ratio } = bias.correction().unwrap();
        assert!((ratio - 1.10).abs() < 1e-3);
        assert!(
            ratio * (1.0 - error_ratio) < 0.95,
            "{ratio} ± {error_ratio}"
        );
    }

    #[test]
    fn time_without_samples_counts_as_much_as_time_with_many() {
        let mut bias = Bias::default();
        for number in 0..20 {
            bias.begin_interval(number * MOMENT_NS);
            for _ in 0..100 {
                bias.add(1e5, 0.0, MS);
                bias.add(2e6, 2.0, MS);
            }
        }
        assert!((bias.correction().unwrap().ratio - 1.05).abs() < 1e-9);
    }

    #[test]
    fn one_clock_may_miss_most_of_what_another_meets_and_a_sampler_is_not_believed_to() {
        for (mut bias, ratio) in [(Bias::of_ratio(), 8.0), (Bias::default(), 1.6)] {
            for number in 0..5 {
                moment(&mut bias, number, 400, 50);
            }
            let found = bias.correction().unwrap();
            assert!((found.ratio - ratio).abs() < 0.01, "{found:?}");
            let most = found.ratio * (1.0 + found.error_ratio);
            assert!(most > 8.0, "{found:?}");
        }
    }

    #[test]
    fn another_behaviour_is_learnt_anew_and_no_moment_is_remembered_for_ever() {
        let mut bias = Bias::default();
        for number in 0..100 {
            moment(&mut bias, number, 1300, 1000);
        }
        for number in 100..100 + REMEMBERED as u64 {
            moment(&mut bias, number, 1000, 1000);
        }
        assert!((bias.correction().unwrap().ratio - 1.0).abs() < 0.02);
        assert_eq!(bias.moments.len(), REMEMBERED);
    }

    #[test]
    fn intervals_in_which_nothing_is_timed_begin_no_moment() {
        let mut bias = Bias::default();
        for number in 0..100 {
            bias.begin_interval(number * MOMENT_NS);
            bias.add(0.0, 0.0, PERIOD);
        }
        assert_eq!(bias.moments.len(), 1);
    }

    /// The factor of the next moment is in the interval, however far moments differ up to what
    /// was observed, and however many there were.
    #[test]
    fn the_interval_holds_the_factor_of_the_next_moment() {
        for (spread, moments) in [0.0, 0.04, 0.08]
            .into_iter()
            .flat_map(|spread| [1, 2, 5, 20].map(|moments| (spread, moments)))
        {
            let mut held = 0;
            for seed in 0..400 {
                let mut random = SplitMix64(seed);
                let mut bias = Bias::default();
                let mut share = || 1.0 + spread * normal(&mut random);
                let shares: Vec<f64> = (0..=moments).map(|_| share()).collect();
                for (number, share) in shares[1..].iter().enumerate() {
                    // The first lasts longer, as at the start of a load.
                    let due = if number == 0 { 2_000.0 } else { 60.0 };
                    let mean = due * share;
                    let samples = mean + mean.sqrt() * normal(&mut random);
                    moment(
                        &mut bias,
                        number as u64,
                        due as u64,
                        samples.max(0.0) as u32,
                    );
                }
                let Correction { ratio, error_ratio } = bias.correction().unwrap();
                let truth = 1.0 / shares[0];
                held += usize::from((truth / ratio - 1.0).abs() <= error_ratio);
            }
            assert!(held >= 366, "± {spread}, {moments} moments: {held} of 400");
        }
    }

    #[test]
    fn moments_that_differ_widen_the_interval_and_moments_that_agree_narrow_it() {
        let error = |samples: [u32; 2]| {
            let mut bias = Bias::default();
            for number in 0..20 {
                moment(&mut bias, number, 1000, samples[number as usize % 2]);
            }
            bias.correction().unwrap().error_ratio
        };
        let mut one = Bias::default();
        moment(&mut one, 0, 1000, 1000);
        let first = one.correction().unwrap().error_ratio;
        assert!(error([1000, 1000]) < 0.6 * first);
        assert!(error([1150, 850]) > 2.0 * error([1000, 1000]));
    }
}
