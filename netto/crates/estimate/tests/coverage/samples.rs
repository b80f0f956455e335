//! Figures that rest on samples: parts of a whole that a clock times, and work that samples alone show.

use netto_estimate::Figure;
use netto_estimate::design_effect::Mass;
use netto_estimate::quantile::NORMAL;
use netto_estimate::shares::{Design, HostPool, Pool, Whole};

use crate::before;
use crate::host::{Host, INTERVAL_MS, NS_PER_MS, Stratum, WARM};
use crate::random::Random;
use crate::trial::{Run, Trial};

/// The sums of a span, milliseconds.
#[derive(Clone, Default)]
struct Sums {
    parts: Vec<Figure>,
    truth: Vec<f64>,
    /// True squares of weights, of which the expected number of observations follows.
    squares: Vec<f64>,
    /// Samples by part, and of all.
    counts: Vec<f64>,
    whole: Figure,
    samples: f64,
}

/// The division of a host's time by samples.
struct Division {
    host_pool: HostPool,
    pools: Vec<Pool>,
    design: Design,
    now_ns: u64,
}

impl Division {
    fn new(host: &Host) -> Division {
        Division {
            host_pool: HostPool::default(),
            pools: vec![Pool::default(); host.cpus.len()],
            design: Design::default(),
            now_ns: 0,
        }
    }

    fn add(&mut self, strata: &[Stratum], sums: &mut Sums) {
        let parts = strata[0].truth_ms.len();
        self.now_ns += (INTERVAL_MS * NS_PER_MS) as u64;
        self.host_pool.age((INTERVAL_MS * NS_PER_MS) as u64);
        self.design.clear();
        for list in [&mut sums.truth, &mut sums.squares, &mut sums.counts] {
            list.resize(parts, 0.0);
        }
        sums.parts.resize(parts, Figure::default());
        let samples = |stratum: &Stratum| -> Vec<(usize, Mass)> {
            let samples = (0..parts).map(|part| (part, Mass::of(stratum.count(part))));
            samples.filter(|(_, mass)| mass.sum() > 0.0).collect()
        };
        for stratum in strata {
            for (part, mass) in samples(stratum) {
                self.host_pool.add(part, mass);
            }
        }
        let mut value = vec![0.0; parts];
        for stratum in strata {
            let whole = Whole {
                time_ns: (stratum.time_ms * NS_PER_MS) as u64,
                period_ns: (stratum.period_ms * NS_PER_MS) as u64,
                samples: &samples(stratum),
                rest: parts - 1,
                now_ns: self.now_ns,
            };
            let pool = &mut self.pools[stratum.cpu];
            pool.divide(whole, &self.host_pool, &mut self.design, |part, ns| {
                value[part] += ns as f64 / NS_PER_MS;
            });
            for (part, truth) in stratum.truth_ms.iter().enumerate() {
                sums.truth[part] += truth;
                sums.squares[part] += truth * stratum.period_ms;
                sums.counts[part] += f64::from(stratum.count(part));
            }
            sums.samples += f64::from(stratum.samples());
        }
        let of_whole = |stratum: &Stratum| stratum.time_ms;
        let whole = strata.iter().map(of_whole).sum();
        sums.whole += Figure::weighted(whole, self.design.whole_weight_ns() / NS_PER_MS);
        for (part, value) in value.into_iter().enumerate() {
            let weight = self.design.weight_ns(part) / NS_PER_MS;
            sums.parts[part] += Figure::weighted(value, weight);
        }
    }
}

/// Parts of a timed whole, over so many intervals; the sum of two; and a program, which may be a part of
/// any number of wholes.
pub fn parts(host: &Host, intervals: usize, runs: usize) -> Vec<Trial> {
    let trial = |kind, part: &str| {
        let mut trial = Trial::new(
            kind,
            format!("{}, {part}, {intervals} intervals", host.name),
        );
        // Where a CPU has few samples, an interval is divided by those of earlier ones, too, which its own
        // interval takes for its own.
        trial.allowance = (intervals == 1 && host.fewest_samples() < 8.0).then_some(3.0);
        trial
    };
    let trials = (0..host.parts()).map(|part| trial("part", &format!("part {part}")));
    let mut trials: Vec<Trial> = trials.collect();
    let mut sums_of_parts = trial("sum of parts", "parts 0 and 1");
    let mut programs = trial("program", "program 1");
    for seed in 0..runs {
        let mut random = Random::new(seed as u64);
        let mut division = Division::new(host);
        let mut sums = Sums::default();
        for number in 0..WARM + intervals {
            if number == WARM {
                sums = Sums::default();
            }
            division.add(&host.interval(number, &mut random), &mut sums);
        }
        let run = |parts: &[usize]| -> (Figure, Run) {
            let figure: Figure = parts.iter().map(|part| sums.parts[*part]).sum();
            let sum = |list: &[f64]| -> f64 { parts.iter().map(|part| list[*part]).sum() };
            let (truth, squares) = (sum(&sums.truth), sum(&sums.squares));
            let run = Run {
                value: figure.value,
                truth,
                bounds: Some(figure.part_of(&sums.whole)),
                before: Some(before::part(figure.value, sums.whole.value, sums.samples)),
                expected: truth * truth / squares,
            };
            (figure, run)
        };
        for (part, trial) in trials.iter_mut().enumerate() {
            trial.runs.push(run(&[part]).1);
        }
        sums_of_parts.runs.push(run(&[0, 1]).1);
        let (figure, of_program) = run(&[1]);
        let share = figure.value / sums.whole.value;
        let part = Figure {
            variance: figure.variance * (1.0 - share),
            ..figure
        };
        programs.runs.push(Run {
            bounds: Some(part.interval(sums.whole.weight().unwrap_or(0.0))),
            before: before::program(figure.value, sums.counts[1]),
            ..of_program
        });
    }
    trials.extend([sums_of_parts, programs]);
    trials
}

/// The figure in another unit.
fn times(figure: Figure, factor: f64) -> Figure {
    Figure {
        value: figure.value * factor,
        variance: figure.variance * factor * factor,
        shared: figure.shared * factor,
        ..figure
    }
}

/// With its shared error as a part of its variance: other hosts do not share it.
fn independent(figure: Figure) -> Figure {
    Figure {
        variance: figure.variance + figure.shared * figure.shared,
        shared: 0.0,
        ..figure
    }
}

/// Work that samples alone show, whose factor is wrong, over so many intervals: a component, its power, and
/// the mean over hosts.
pub fn sampled(host: &Host, intervals: usize, runs: usize) -> Vec<Trial> {
    const HOSTS: usize = 8;
    const ERROR: f64 = 0.1;
    const WATTS: f64 = 37.0;
    let scene = format!("{}, {intervals} intervals", host.name);
    let trial = |kind| Trial::new(kind, scene.clone());
    let mut components = trial("component by samples");
    let mut power = trial("power");
    let mut means = trial("mean over hosts");
    for seed in 0..runs {
        let mut random = Random::new(seed as u64);
        let mut of_hosts = (Figure::default(), 0.0, 0.0, Figure::default());
        for place in 0..HOSTS {
            let factor = 1.0 + ERROR / 1.96 * random.normal();
            // The mean weight of the newest samples, also of CPUs that have shown none in this interval.
            let mut weights = Mass::default();
            let (mut sum, mut truth, mut squares) = (Figure::default(), 0.0, 0.0);
            let (mut samples, mut all_ms, mut capacity_ms) = (0.0, 0.0, 0.0);
            for number in 0..WARM + intervals {
                if number == WARM {
                    (sum, truth, squares) = (Figure::default(), 0.0, 0.0);
                    (samples, all_ms, capacity_ms) = (0.0, 0.0, 0.0);
                }
                weights.fade((-INTERVAL_MS / 30e3).exp());
                let mut value = 0.0;
                for stratum in host.interval(number, &mut random) {
                    // The part 1 is what is looked for.
                    let count = random.poisson(stratum.truth_ms[1] / stratum.period_ms);
                    for _ in 0..count {
                        weights.add(stratum.period_ms);
                    }
                    value += f64::from(count) * stratum.period_ms;
                    truth += stratum.truth_ms[1] * factor;
                    squares += stratum.truth_ms[1] * stratum.period_ms;
                    samples += f64::from(count);
                    all_ms += f64::from(count) * stratum.period_ms;
                    capacity_ms += INTERVAL_MS;
                }
                sum += Figure {
                    shared: value * ERROR / NORMAL,
                    ..Figure::weighted(value, weights.mean())
                };
            }
            if place == 0 {
                // As it was: relative to the room for samples of their mean weight, and the factor's error
                // added to that.
                let room = capacity_ms / (all_ms / samples);
                let (low, high) = before::part(sum.value, capacity_ms, room);
                let bounds = sum.interval(weights.mean());
                let run = Run {
                    value: sum.value,
                    truth,
                    bounds: Some(bounds),
                    before: Some((low * (1.0 - ERROR), high * (1.0 + ERROR))),
                    expected: truth * truth / squares,
                };
                components.runs.push(run);
                let watts = WATTS / capacity_ms;
                let figure = times(sum, watts);
                power.runs.push(Run {
                    value: figure.value,
                    truth: truth * watts,
                    bounds: Some(figure.interval(weights.mean() * watts)),
                    before: None,
                    ..run
                });
            }
            of_hosts.0 += independent(sum);
            of_hosts.1 += truth;
            of_hosts.2 += squares;
            of_hosts.3 += sum;
        }
        let (sum, truth, squares, _) = of_hosts;
        let mean = times(sum, 1.0 / HOSTS as f64);
        means.runs.push(Run {
            value: mean.value,
            truth: truth / HOSTS as f64,
            bounds: Some(mean.of_clusters(0.0)),
            before: None,
            expected: truth * truth / squares,
        });
    }
    vec![components, power, means]
}
