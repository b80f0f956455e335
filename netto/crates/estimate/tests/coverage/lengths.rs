//! The time of softirqs that were counted, by the length of those in windows and by samples with a factor
//! that is wrong; and the factor itself.

use netto_estimate::bias::Bias;
use netto_estimate::mean_length::{MeanLength, OfCpus, Softirqs};
use netto_estimate::{Correction, Figure};

use crate::before;
use crate::random::Random;
use crate::trial::{Run, Trial};

const MS: f64 = 1e6;
/// Moments of an interval of half a second, of which one is a window in every second interval.
const MOMENTS: usize = 20;

struct Scene {
    name: &'static str,
    cpus: usize,
    /// Softirqs of a moment, and how much moments differ, as a ratio.
    number: u64,
    between: f64,
    /// The time that a sample stands for.
    worth_ns: f64,
    /// The error of the factor (95 %), as a ratio.
    error: f64,
}

const SCENES: [Scene; 4] = [
    Scene {
        name: "2 CPUs, factor ± 10 %",
        cpus: 2,
        number: 50,
        between: 0.3,
        worth_ns: MS,
        error: 0.1,
    },
    Scene {
        name: "8 CPUs, factor ± 10 %",
        cpus: 8,
        number: 50,
        between: 0.5,
        worth_ns: MS,
        error: 0.1,
    },
    Scene {
        name: "8 CPUs, factor ± 40 %",
        cpus: 8,
        number: 20,
        between: 0.8,
        worth_ns: 0.1 * MS,
        error: 0.4,
    },
    Scene {
        name: "64 CPUs, factor ± 20 %",
        cpus: 64,
        number: 50,
        between: 0.5,
        worth_ns: MS,
        error: 0.2,
    },
];

/// The time of softirqs over so many intervals.
pub fn lengths(kind: &'static str, intervals: usize, runs: usize) -> Vec<Trial> {
    let trial = |scene: &Scene| {
        let mut trial = Trial::new(kind, format!("{}, {intervals} intervals", scene.name));
        // The differences of windows, and of CPUs, are assumed beside what is found.
        trial.allowance = Some(1.3);
        for seed in 0..runs {
            let mut random = Random::new(seed as u64);
            let of_factor = 1.0 + scene.error / 1.96 * random.normal();
            let of_cpus: Vec<f64> = (0..scene.cpus)
                .map(|_| (of_factor * (1.0 + 0.15 * random.normal())).max(0.1))
                .collect();
            let mut lengths = vec![MeanLength::default(); scene.cpus];
            let (mut sum, mut truth, mut of_before) = (Figure::default(), 0.0, 0.0);
            let warm = 40;
            for interval in 0..warm + intervals {
                if interval == warm {
                    (sum, truth, of_before) = (Figure::default(), 0.0, 0.0);
                }
                let mut all = OfCpus::default();
                for (length, of_cpu) in lengths.iter_mut().zip(&of_cpus) {
                    let mut moment = || {
                        let mean = (1.0 + scene.between * random.normal()).max(0.1);
                        let number = scene.number as f64;
                        1_500.0 * mean * (number + number.sqrt() * random.normal()).max(0.0)
                    };
                    let window = (interval % 2 == 0).then(&mut moment);
                    let others = MOMENTS - usize::from(window.is_some());
                    let rest: f64 = (0..others).map(|_| moment()).sum();
                    let found = length.end_interval(Softirqs {
                        interval_ns: 500_000_000,
                        all: MOMENTS as u64 * scene.number,
                        timed: window.map_or(0, |_| scene.number),
                        timed_ns: window.unwrap_or(0.0) as u64,
                    });
                    let taken = random.poisson(rest / of_cpu / scene.worth_ns);
                    let factor = Correction {
                        ratio: 1.0,
                        error_ratio: scene.error,
                    };
                    let found = found.unwrap().with_samples(
                        f64::from(taken) * scene.worth_ns,
                        scene.worth_ns,
                        Some(factor),
                    );
                    all.add(found);
                    // As it was: all errors of an interval are independent of the next.
                    of_before +=
                        found.figure.variance + found.figure.shared.powi(2) + found.of_cpu.powi(2);
                    truth += rest;
                }
                sum += all.figure();
            }
            let half = before::Z * of_before.sqrt();
            trial.runs.push(Run {
                value: sum.value,
                truth,
                bounds: Some(sum.of_clusters(0.0)),
                before: Some((sum.value - half, sum.value + half)),
                // Windows.
                expected: (intervals / 2 * scene.cpus) as f64,
            });
        }
        trial
    };
    SCENES.iter().map(trial).collect()
}

/// The factor of the next moment; factors may be such that none is taken for possible.
pub fn corrections(runs: usize) -> Vec<Trial> {
    let scenes = [
        ("as expected", 1.0, 0.08),
        ("moments agree", 1.1, 0.0),
        ("samples find twice as much", 0.5, 0.08),
        ("samples find half", 2.0, 0.08),
        ("at the lowest that is possible", 0.8, 0.08),
    ];
    let trial = |(name, mean, spread): (&str, f64, f64)| {
        let mut trial = Trial::new("correction", name.to_owned());
        // How much moments differ is assumed beside what is found.
        trial.allowance = Some(5.5);
        for seed in 0..runs {
            let mut random = Random::new(seed as u64);
            let mut bias = Bias::default();
            let mut factor = || mean * (1.0 + spread * random.normal()).max(0.1);
            let factors: Vec<f64> = (0..=10).map(|_| factor()).collect();
            let (mut sampled, mut timed) = (0.0, 0.0);
            for (number, factor) in factors[1..].iter().enumerate() {
                bias.begin_interval(number as u64 * 30_000_000_000);
                let samples = random.poisson(200.0 / factor);
                bias.add(2e8, f64::from(samples), 1e6);
                (sampled, timed) = (sampled + f64::from(samples), timed + 200.0);
            }
            let Correction { ratio, error_ratio } = bias.correction().unwrap();
            // The formula of before differs only where the factor is clamped.
            let found: f64 = timed / sampled;
            let error = if (0.8..=1.6).contains(&found) {
                error_ratio
            } else {
                0.17
            };
            trial.runs.push(Run {
                value: ratio,
                truth: factors[0],
                bounds: Some((ratio * (1.0 - error_ratio), ratio * (1.0 + error_ratio))),
                before: Some(before::correction(found, error, (0.8, 1.6))),
                // Moments.
                expected: 10.0,
            });
        }
        trial
    };
    scenes.into_iter().map(trial).collect()
}
