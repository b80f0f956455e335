//! The time of softirqs of which some were timed, in windows, and all were counted by the kernel:
//! their mean length times their number (a ratio estimate; W. G. Cochran, 1977, chapter 6). Pure.
//!
//! The softirqs of one window are alike, so a window, however many it has, counts as one observation.
//! More softirqs a second are mostly shorter ones, so windows of intervals with as many count most.

use std::collections::VecDeque;

use crate::bias::Correction;
use crate::figure::Figure;
use crate::quantile::NORMAL;

/// Windows that are remembered, and the weight of each relative to the next: the mean follows the
/// load within some windows.
const REMEMBERED: usize = 16;
const FADING: f64 = 0.7;
/// The assumed standard deviation of windows' means, as a ratio, and how many windows it counts as.
const ASSUMED: f64 = 0.3;
const ASSUMED_WINDOWS: f64 = 2.0;
/// By which ratio numbers of softirqs in an interval differ, as a natural logarithm, where windows count
/// half; and the assumed standard deviation of the exponent by which the length follows the number.
const ALIKE: f64 = 0.2;
const EXPONENT: f64 = 0.5;
/// The assumed standard deviation between CPUs of the factor of samples, as a ratio: idle CPUs are
/// sampled less than others on some kernels.
const OF_CPUS: f64 = 0.15;

/// The mean length of softirqs of one CPU.
#[derive(Debug, Clone, Default)]
pub struct MeanLength {
    windows: VecDeque<Window>,
    /// Intervals since the last one of these.
    intervals: u32,
}

/// The softirqs of a window.
#[derive(Debug, Clone, Copy)]
struct Window {
    ns: f64,
    number: f64,
    /// Softirqs of its interval, for each nanosecond.
    rate: f64,
    /// Intervals since the window before it.
    intervals: f64,
}

/// Softirqs of an interval.
#[derive(Debug, Clone, Copy)]
pub struct Softirqs {
    /// Length of the interval, nanoseconds.
    pub interval_ns: u64,
    /// All, as the kernel has counted them.
    pub all: u64,
    /// Those that were timed.
    pub timed: u64,
    /// The length of these, nanoseconds.
    pub timed_ns: u64,
}

/// A time that is not measured itself.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    /// Nanoseconds, as a part of the sum of many intervals: those that rest on the same windows are wrong
    /// in the same direction. Its shared error is that of the factor of samples, on all CPUs.
    pub figure: Figure,
    /// The variance of this interval alone.
    pub variance: f64,
    /// The standard deviation of an error that all intervals of this CPU share, and no other CPU.
    pub of_cpu: f64,
}

impl MeanLength {
    /// Ends an interval; returns the time of its softirqs that were not timed, `None` before any
    /// was.
    pub fn end_interval(&mut self, softirqs: Softirqs) -> Option<Estimate> {
        let rate = softirqs.all as f64 / softirqs.interval_ns.max(1) as f64;
        self.intervals += 1;
        if softirqs.timed > 0 {
            if self.windows.len() == REMEMBERED {
                self.windows.pop_front();
            }
            self.windows.push_back(Window {
                ns: softirqs.timed_ns as f64,
                number: softirqs.timed as f64,
                rate,
                intervals: f64::from(std::mem::take(&mut self.intervals)),
            });
        }
        self.of(softirqs.all.saturating_sub(softirqs.timed), rate)
    }

    /// The time of this many softirqs of an interval in which they came at this rate.
    fn of(&self, number: u64, rate: f64) -> Option<Estimate> {
        let count = self.windows.len() as f64;
        let sum = |of: &dyn Fn(&Window) -> f64| self.windows.iter().map(of).sum::<f64>();
        let (mut ns, mut all, mut squares, mut apart) = (0.0, 0.0, 0.0, 0.0);
        let mut faded = 1.0;
        for window in self.windows.iter().rev() {
            let differs = (window.rate / rate).ln().abs().min(f64::MAX.ln()).powi(2);
            let weight = faded / (1.0 + differs / ALIKE.powi(2));
            ns += weight * window.ns;
            all += weight * window.number;
            squares += (weight * window.number).powi(2);
            apart += weight * window.number * differs;
            faded *= FADING;
        }
        if all <= 0.0 {
            return None;
        }
        let length_ns = ns / all;
        let whole_ns = (length_ns * sum(&|window| window.number) / count).max(1.0);
        let square_error =
            |window: &Window| ((window.ns - length_ns * window.number) / whole_ns).powi(2);
        let between = (ASSUMED_WINDOWS * ASSUMED.powi(2) + sum(&square_error))
            / (ASSUMED_WINDOWS + (count - 1.0).max(0.0));
        let rate_variance = EXPONENT.powi(2) * apart / all;
        let value = length_ns * number as f64;
        let intervals = sum(&|window| window.intervals) / count;
        let square = value * value;
        Some(Estimate {
            figure: Figure {
                value,
                variance: square * (between + rate_variance) * intervals,
                ..Figure::default()
            },
            variance: square * (between * squares / (all * all) + rate_variance),
            of_cpu: 0.0,
        })
    }
}

impl Estimate {
    /// Combines it with the time that samples show, of which one stands for `worth_ns` on average, by the
    /// inverse of their variances. That of samples is of their expected number: by their own
    /// number, those that are too few would count most.
    #[must_use]
    pub fn with_samples(
        self,
        by_samples_ns: f64,
        worth_ns: f64,
        factor: Option<Correction>,
    ) -> Estimate {
        let Some(factor) = factor.filter(|_| self.variance > 0.0) else {
            return self;
        };
        let ns = self.figure.value;
        let of_factor = ns * factor.error_ratio / NORMAL;
        let of_cpu = ns * OF_CPUS;
        let of_count = ns * worth_ns;
        let by_samples = of_count + of_factor.powi(2) + of_cpu.powi(2);
        let own_weight = by_samples / (by_samples + self.variance);
        let other = 1.0 - own_weight;
        let of_both = |own_value: f64, by_samples: f64| {
            own_weight.powi(2) * own_value + other.powi(2) * by_samples
        };
        let sampled_ns = other * by_samples_ns;
        Estimate {
            figure: Figure {
                value: own_weight * ns + sampled_ns,
                variance: of_both(self.figure.variance, of_count),
                // One factor, whatever the interval.
                shared: sampled_ns * factor.error_ratio / NORMAL,
                ..Figure::default()
            },
            variance: of_both(self.variance, by_samples),
            of_cpu: sampled_ns * OF_CPUS,
        }
    }
}

/// Sums the times of an interval over CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OfCpus {
    figure: Figure,
    squares: f64,
}

impl OfCpus {
    /// Adds a CPU.
    pub fn add(&mut self, estimate: Estimate) {
        self.figure += estimate.figure;
        self.squares += estimate.of_cpu * estimate.of_cpu;
    }

    /// The time of all CPUs; what CPUs do not share with each other, intervals do.
    pub fn figure(self) -> Figure {
        Figure {
            shared: self.figure.shared.hypot(self.squares.sqrt()),
            ..self.figure
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::random::SplitMix64;

    use super::*;

    const MS: f64 = 1e6;

    fn normal(random: &mut SplitMix64) -> f64 {
        (0..12).map(|_| random.ratio()).sum::<f64>() - 6.0
    }

    /// Lengths of softirqs: those of one moment are alike, and each is as scattered as it is long.
    struct Load {
        random: SplitMix64,
        /// Between moments, as a ratio.
        between: f64,
        mean_ns: f64,
    }

    impl Load {
        /// The total length of so many softirqs of a moment.
        fn moment(&mut self, number: u64) -> f64 {
            let moment = (1.0 + self.between * normal(&mut self.random)).max(0.1);
            let sum = number as f64 + (number as f64).sqrt() * normal(&mut self.random);
            self.mean_ns * moment * sum.max(0.0)
        }
    }

    /// A minute of half-second intervals of twenty moments each, of which in each second one is a
    /// window: the estimate of the rest, its stated standard deviation, and the truth.
    fn minute(load: &mut Load, number: u64, samples: Option<f64>) -> [f64; 3] {
        let mut length = MeanLength::default();
        let mut sums = [0.0; 3];
        for interval in 0..120 {
            let window = (interval % 2 == 0).then(|| load.moment(number));
            let others = if window.is_some() { 19 } else { 20 };
            let truth: f64 = (0..others).map(|_| load.moment(number)).sum();
            let timed = window.map_or(0, |_| number);
            let found = length.end_interval(softirqs(20 * number, timed, window.unwrap_or(0.0)));
            let mut found = found.unwrap();
            if let Some(worth_ns) = samples {
                let due = truth / worth_ns;
                let taken = (due + due.sqrt() * normal(&mut load.random)).max(0.0);
                let factor = Correction {
                    ratio: 1.0,
                    error_ratio: 0.05,
                };
                found = found.with_samples(taken.round() * worth_ns, worth_ns, Some(factor));
            }
            sums[0] += found.figure.value;
            sums[1] += found.figure.variance;
            sums[2] += truth;
        }
        [sums[0], sums[1].sqrt(), sums[2]]
    }

    fn softirqs(all: u64, timed: u64, timed_ns: f64) -> Softirqs {
        Softirqs {
            interval_ns: 500_000_000,
            all,
            timed,
            timed_ns: timed_ns as u64,
        }
    }

    /// Of 400 minutes, in how many the 95 % interval has the truth, and the mean error.
    fn covered(between: f64, number: u64, samples: Option<f64>) -> (u32, f64) {
        let (mut held, mut error) = (0, 0.0);
        for seed in 0..400 {
            let mut load = Load {
                random: SplitMix64(seed),
                between,
                mean_ns: 1_500.0,
            };
            let [found, deviation, truth] = minute(&mut load, number, samples);
            held += u32::from((found - truth).abs() <= NORMAL * deviation);
            error += (found / truth - 1.0) / 400.0;
        }
        (held, error)
    }

    #[test]
    fn the_interval_of_a_minute_has_the_truth_however_windows_differ() {
        for (between, number) in [(0.0, 50), (0.2, 50), (0.5, 20), (0.3, 2)] {
            let (held, error) = covered(between, number, None);
            assert!(held >= 368, "± {between}: {held} of 400");
            assert!(error.abs() < 0.01, "± {between}: {error}");
        }
    }

    #[test]
    fn samples_narrow_the_interval_and_it_still_has_the_truth() {
        for worth_ns in [0.02 * MS, 50.0 * MS] {
            let (held, error) = covered(0.2, 50, Some(worth_ns));
            assert!(held >= 368, "{worth_ns} ns: {held} of 400");
            assert!(error.abs() < 0.01, "{worth_ns} ns: {error}");
        }
        let alone = MeanLength::default().end_interval(softirqs(1_100, 100, 150_000.0));
        let alone = alone.unwrap();
        let factor = Correction {
            ratio: 1.0,
            error_ratio: 0.01,
        };
        let both = alone.with_samples(1.5e6, 1_000.0, Some(factor));
        assert!(both.variance < 0.3 * alone.variance);
        assert!(
            (both.figure.value / alone.figure.value - 1.0).abs() < 1e-9,
            "they agree"
        );
        assert_eq!(alone.with_samples(0.0, 1_000.0, None), alone);
    }

    /// As bulk TCP does: few long softirqs, many short ones, in turns of ten seconds, with a window in
    /// every eighth interval.
    #[test]
    fn each_of_two_loads_that_alternate_is_known_by_its_own_windows() {
        let mut held = 0;
        for seed in 0..200 {
            let mut random = SplitMix64(seed);
            let mut length = MeanLength::default();
            let mut sums = [0.0; 3];
            for interval in 0..480 {
                let (number, each_ns) = match interval / 20 % 2 {
                    0 => (5_000, 10_000.0),
                    _ => (30_000, 1_800.0),
                };
                let timed = if interval % 8 == 0 { number / 10 } else { 0 };
                let mut length_ns = || each_ns * (1.0 + 0.1 * normal(&mut random));
                let (timed_ns, others_ns) = (timed as f64 * length_ns(), length_ns());
                let found = length
                    .end_interval(softirqs(number, timed, timed_ns))
                    .unwrap();
                // At first, the other load is unknown.
                if interval >= 120 {
                    sums[0] += found.figure.value;
                    sums[1] += found.figure.variance;
                    sums[2] += others_ns * (number - timed) as f64;
                }
            }
            let [found, variance, truth] = sums;
            assert!((found / truth - 1.0).abs() < 0.15, "{found} of {truth}");
            held += u32::from((found - truth).abs() <= NORMAL * variance.sqrt());
        }
        assert!(held >= 184, "{held} of 200");
    }

    #[test]
    fn another_load_is_followed_within_some_windows_and_its_doubt_is_stated_meanwhile() {
        let mut length = MeanLength::default();
        let mut after = |windows, all, timed_ns| {
            let ended = (0..windows).map(|_| length.end_interval(softirqs(all, 1_000, timed_ns)));
            ended.last().flatten().unwrap()
        };
        let calm = after(30, 2_000, 1e6);
        assert!((calm.figure.value - 1e6).abs() < 1.0);
        let changing = after(3, 2_000, 4e6);
        assert!(
            changing.figure.value > 2.5e6 && changing.figure.value < 4e6,
            "{changing:?}"
        );
        let doubt = |estimate: Estimate| estimate.figure.variance.sqrt() / estimate.figure.value;
        assert!(doubt(changing) > 2.0 * doubt(calm));
        assert!((after(10, 2_000, 4e6).figure.value / 4e6 - 1.0).abs() < 0.03);
        // At once, if there are more of them.
        let more = after(1, 20_000, 1e6);
        assert!((more.figure.value / 19e6 - 1.0).abs() < 0.1, "{more:?}");
    }

    #[test]
    fn before_any_was_timed_nothing_is_known_and_intervals_without_a_window_rest_on_earlier_ones() {
        let mut length = MeanLength::default();
        assert_eq!(length.end_interval(softirqs(5, 0, 0.0)), None);
        let first = length.end_interval(softirqs(15, 10, 20_000.0)).unwrap();
        assert_eq!(first.figure.value, 10_000.0);
        let next = length.end_interval(softirqs(15, 0, 0.0)).unwrap();
        assert_eq!(next.figure.value, 30_000.0);
        let more = length.end_interval(softirqs(60, 0, 0.0)).unwrap();
        assert!(
            more.variance / more.figure.value.powi(2)
                > 2.0 * next.variance / next.figure.value.powi(2)
        );
        let none = length.end_interval(softirqs(0, 0, 0.0)).unwrap();
        assert_eq!(none, Estimate::default());
    }
}
