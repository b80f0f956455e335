//! How much one quantity grows with another, from a few noisy observations beside a first guess. Pure.
//!
//! **Bayesian regression** through the origin with one coefficient (A. Gelman and others, Bayesian Data Analysis,
//! third edition, 14.8): before any observation the slope is normal about the guess; each observation `y` at `x` has
//! a normal error of one variance. That variance is the mean square of observations at `x` = 0, where nothing but
//! the error is seen. As these are not many, the interval is that of Student's t with their number.

use std::collections::VecDeque;

use crate::quantile::{NORMAL, student};

/// With fewer observations at 0 the error is not known.
const FEWEST_ZEROS: usize = 8;
/// Least variance of an error: a quantity that never varies is known exactly.
const LEAST_VARIANCE: f64 = 1e-18;
/// Observations of each kind that are kept: a load changes slowly, too.
const MOST: usize = 500;

/// A slope that is being learned.
#[derive(Debug, Clone)]
pub struct Slope {
    guess: f64,
    guess_error: f64,
    /// Observations as `x` and `y`, the latest last.
    observed: VecDeque<(f64, f64)>,
    /// `y` where `x` is 0.
    zeros: VecDeque<f64>,
}

/// What a slope is by now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Its expected value.
    pub value: f64,
    /// With 95 % it differs from that by no more than this.
    pub half_width: f64,
}

impl Slope {
    /// A slope that is about `guess`, with this standard error.
    pub fn new(guess: f64, guess_error: f64) -> Slope {
        Slope {
            guess,
            guess_error,
            observed: VecDeque::new(),
            zeros: VecDeque::new(),
        }
    }

    /// Learns `y` at `x`.
    pub fn observe(&mut self, x: f64, y: f64) {
        push(&mut self.observed, (x, y));
    }

    /// Learns `y` where `x` is 0.
    pub fn observe_zero(&mut self, y: f64) {
        push(&mut self.zeros, y);
    }

    /// Whether the error of an observation is known.
    pub fn knows_error(&self) -> bool {
        self.zeros.len() >= FEWEST_ZEROS
    }

    /// Number of observations, without those at 0.
    pub fn observations(&self) -> usize {
        self.observed.len()
    }

    /// The estimate from the guess and all observations.
    pub fn estimate(&self) -> Estimate {
        let squares = self.zeros.iter().map(|y| y * y).sum::<f64>();
        let count = self.zeros.len() as f64;
        let variance = (squares / count).max(LEAST_VARIANCE);
        let guessed = 1.0 / (self.guess_error * self.guess_error);
        if !self.knows_error() {
            return Estimate {
                value: self.guess,
                half_width: NORMAL * self.guess_error,
            };
        }
        let sum = |of: fn(&(f64, f64)) -> f64| self.observed.iter().map(of).sum::<f64>() / variance;
        let precision = guessed + sum(|(x, _)| x * x);
        Estimate {
            value: (guessed * self.guess + sum(|(x, y)| x * y)) / precision,
            half_width: student(NORMAL, count) / precision.sqrt(),
        }
    }
}

fn push<T>(values: &mut VecDeque<T>, value: T) {
    if values.len() == MOST {
        values.pop_front();
    }
    values.push_back(value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    /// A normal error: the sum of twelve even ones (central limit).
    fn error(random: &mut SplitMix64) -> f64 {
        (0..12).map(|_| random.ratio()).sum::<f64>() - 6.0
    }

    fn learned(random: &mut SplitMix64, truth: f64, zeros: usize, observations: usize) -> Slope {
        let mut slope = Slope::new(1.0, 1.0);
        (0..zeros).for_each(|_| slope.observe_zero(0.1 * error(random)));
        for _ in 0..observations {
            let x = 0.02 + 0.04 * random.ratio();
            slope.observe(x, truth * x + 0.1 * error(random));
        }
        slope
    }

    #[test]
    fn the_interval_holds_the_slope_in_95_of_100_cases_from_the_first_observation_on() {
        let mut random = SplitMix64(3);
        for observations in [0, 1, 5, 30, 300] {
            for zeros in [8, 40] {
                let runs = 2_000;
                let held = (0..runs).filter(|_| {
                    // The guess is as far off as it claims to be.
                    let truth = 1.0 + error(&mut random);
                    let slope = learned(&mut random, truth, zeros, observations).estimate();
                    (slope.value - truth).abs() <= slope.half_width
                });
                let percent = 100 * held.count() / runs;
                let what = format!("{observations} observations, {zeros} zeros: {percent} %");
                assert!((93..=98).contains(&percent), "{what}");
            }
        }
    }

    #[test]
    fn the_interval_holds_any_slope_within_two_errors_of_the_guess() {
        let mut random = SplitMix64(5);
        for truth in [0.0, 0.5, 2.0] {
            for observations in [10, 100] {
                let runs = 1_000;
                let held = (0..runs).filter(|_| {
                    let slope = learned(&mut random, truth, 20, observations).estimate();
                    (slope.value - truth).abs() <= slope.half_width
                });
                let percent = 100 * held.count() / runs;
                assert!(percent >= 94, "{truth}, {observations}: {percent} %");
            }
        }
    }

    #[test]
    fn until_the_error_is_known_the_guess_stands() {
        let mut random = SplitMix64(1);
        let slope = learned(&mut random, 0.0, FEWEST_ZEROS - 1, 50);
        assert_eq!(
            slope.estimate(),
            Estimate {
                value: 1.0,
                half_width: NORMAL
            }
        );
    }

    #[test]
    fn many_observations_outweigh_the_guess() {
        let mut random = SplitMix64(9);
        let slope = learned(&mut random, 3.0, 100, 500).estimate();
        assert!((slope.value - 3.0).abs() < 0.5, "{slope:?}");
        assert!(slope.half_width < 0.35, "{slope:?}");
    }
}
