//! Parts of a timed whole by two clocks: few samples by one that meets all alike, many by one in step, and where
//! that does not come (a part of the time), the few alone.

use netto_estimate::Figure;
use netto_estimate::design_effect::Mass;
use netto_estimate::shares::{Design, HostPool, Pool, Whole};
use netto_estimate::two_clocks::{Clock, Clocks, Ratios, Work};

use crate::before;
use crate::host::{INTERVAL_MS, NS_PER_MS};
use crate::random::Random;
use crate::trial::{Run, Trial};

/// A host of two CPUs with the same load.
pub struct Scene {
    pub name: &'static str,
    /// Samples a second of each clock.
    pub hz: [f64; 2],
    /// Part of a CPU's time that the whole takes, and of that where the clock in step does not come.
    pub busy: f64,
    pub alone: f64,
    pub shares: &'static [f64],
    /// How often the clock in step meets the whole, relative to the other.
    pub hits: f64,
    /// How far ratios of parts lie from that (a standard deviation), and those of moments from these.
    pub spread: [f64; 2],
    /// Intervals from which a run learns.
    pub warm: usize,
}

const CPUS: usize = 2;
/// Half a minute of intervals has the same ratios.
const MOMENT: usize = 60;

const SHARES: &[f64] = &[0.45, 0.25, 0.15, 0.1, 0.05];

pub fn scenes() -> Vec<Scene> {
    let scene = |name, hz, alone, spread, warm| Scene {
        name,
        hz,
        busy: 0.5,
        alone,
        shares: SHARES,
        hits: 1.0,
        spread,
        warm,
    };
    let often = [20.0, 250.0];
    vec![
        scene("just begun", often, 0.0, [0.1, 0.0], 2),
        scene("two minutes old", often, 0.0, [0.15, 0.05], 240),
        scene("few of both", [8.0, 60.0], 0.0, [0.12, 0.05], 240),
        scene("half of it on idle CPUs", often, 0.5, [0.15, 0.05], 240),
        Scene {
            hits: 0.2,
            ..scene("a load in step", often, 0.0, [0.3, 0.05], 120)
        },
        // A reader beside compilers: little of a CPU, at the rates of the defaults.
        Scene {
            hits: 0.65,
            busy: 0.05,
            ..scene("a task that competes", [8.0, 150.0], 0.0, [0.1, 0.05], 150)
        },
    ]
}

/// What the planner gives at the defaults where perf's interrupt is dear: some 150 stacks a second and CPU by the tick,
/// and few by perf's clock, for an event that takes this part of the host's CPU time. Parts of the RX softirq are met by
/// the tick 0.86 to 1.18 times as often as the whole, beside compilers.
pub fn default_rates(perf_hz: f64, busy: f64, warm: usize) -> Scene {
    Scene {
        name: "default rates",
        hz: [perf_hz, 150.0],
        busy,
        alone: 0.0,
        shares: SHARES,
        hits: 1.0,
        spread: [0.1, 0.05],
        warm,
    }
}

/// Of each part that has a tenth of the event or more: its share, how often the interval has the truth, and its mean
/// half-width, each as a ratio.
pub fn points(scene: &Scene, intervals: usize, runs: usize) -> Vec<[f64; 3]> {
    let trials = parts(scene, intervals, runs);
    let parts = trials.iter().zip(scene.shares);
    let large = parts.filter(|(_, share)| **share >= 0.1);
    let figures = large.map(|(trial, &share)| {
        let half_width = |run: &Run| {
            let (low, high) = run.bounds.unwrap();
            (high - low) / 2.0 * share / run.truth
        };
        let sum: f64 = trial.runs.iter().map(half_width).sum();
        let covered = trial.coverage(|run| run.bounds).covered;
        [share, covered, sum / trial.runs.len() as f64]
    });
    figures.collect()
}

fn ns(ms: f64) -> u64 {
    (ms * NS_PER_MS) as u64
}

/// Over so many intervals, each part, and the whole, if no clock times it.
pub fn parts(scene: &Scene, intervals: usize, runs: usize) -> Vec<Trial> {
    let trial = |part: usize| {
        let scene = format!("{}, part {part}, {intervals} intervals", scene.name);
        let mut trial = Trial::new("part by two clocks", scene);
        // The error of ratios is stated for any moment, and before they are known for all that were seen.
        trial.allowance = Some(2.2);
        trial
    };
    let mut trials: Vec<Trial> = (0..scene.shares.len()).map(trial).collect();
    let name = format!("{}, {intervals} intervals", scene.name);
    let mut sampled = Trial::new("component by two clocks", name);
    // That of a whole allows for a task that competes for its CPU, which most scenes have not.
    sampled.allowance = Some(4.0);
    trials.push(sampled);
    for seed in 0..runs {
        let found = run(scene, intervals, &mut Random::new(seed as u64));
        for (trial, run) in trials.iter_mut().zip(found) {
            trial.runs.push(run);
        }
    }
    trials
}

fn run(scene: &Scene, intervals: usize, random: &mut Random) -> Vec<Run> {
    let parts = scene.shares.len();
    let clocks = Clocks {
        free_ns: 1e9 / scene.hz[0],
        stepped_ns: Some(1e9 / scene.hz[1]),
    };
    let mut factors = |spread: f64| -> Vec<f64> {
        let ratios = (0..parts).map(|_| 1.0 + spread * random.normal());
        ratios.map(|ratio| ratio.max(0.1)).collect()
    };
    let lasting = factors(scene.spread[0]);
    let mut moment = factors(scene.spread[1]);
    let mut ratios = Ratios::new(1, parts);
    let mut host = HostPool::default();
    let mut pools = vec![Pool::default(); CPUS];
    let mut design = Design::default();
    let mut sums = vec![Figure::default(); parts];
    let mut sampled = Figure::default();
    let (mut whole, mut truth, mut samples) = (Figure::default(), 0.0, 0.0);
    for number in 0..scene.warm + intervals {
        if number == scene.warm {
            sums.fill(Figure::default());
            (sampled, whole) = (Figure::default(), Figure::default());
            (truth, samples) = (0.0, 0.0);
        }
        if number % MOMENT == 0 && number > 0 {
            let again = (0..parts).map(|_| (1.0 + scene.spread[1] * random.normal()).max(0.1));
            moment = again.collect();
        }
        let now_ns = ns(INTERVAL_MS) * (number as u64 + 1);
        ratios.begin_interval(now_ns, ns(INTERVAL_MS));
        host.age(ns(INTERVAL_MS));
        design.clear();
        let time_ms = INTERVAL_MS * scene.busy;
        let mut by_cpu = Vec::new();
        for _ in 0..CPUS {
            let mut of_cpu = Vec::new();
            for (part, share) in scene.shares.iter().enumerate() {
                let time = share * time_ms / 1e3;
                let hit = scene.hits * lasting[part] * moment[part];
                let both = 1.0 - scene.alone;
                let counts = [
                    (Clock::Free, scene.hz[0] * time * both),
                    (Clock::FreeAlone, scene.hz[0] * time * scene.alone),
                    (Clock::Stepped, scene.hz[1] * time * both * hit),
                ];
                let mut mass = Mass::default();
                for (clock, expected) in counts {
                    let ratio = match clock {
                        Clock::FreeAlone => 0.0,
                        _ => ratios.of(Work { whole: 0, part }),
                    };
                    let weight = clocks.weight(ratio);
                    for _ in 0..random.poisson(expected) {
                        ratios.add(Work { whole: 0, part }, clock, clocks, weight);
                        mass.add(weight);
                        samples += 1.0;
                    }
                }
                if mass.sum() > 0.0 {
                    host.add(part, mass);
                    of_cpu.push((part, mass));
                }
            }
            by_cpu.push(of_cpu);
        }
        let mut value = vec![0.0; parts];
        for (pool, samples) in pools.iter_mut().zip(&by_cpu) {
            let divided = Whole {
                time_ns: ns(time_ms),
                period_ns: clocks.period_ns() as u64,
                samples,
                rest: parts - 1,
                now_ns,
            };
            pool.divide(divided, &host, &mut design, |part, ns| {
                value[part] += ns as f64 / NS_PER_MS;
            });
        }
        let times: Vec<(usize, f64)> = value.iter().copied().enumerate().collect();
        let (shared, _) = ratios.deviations(0, &times, true);
        for (part, sum) in sums.iter_mut().enumerate() {
            let weight = design.weight_ns(part) / NS_PER_MS;
            let figure = Figure::weighted(value[part], weight);
            *sum += figure.with_shared_error(shared[part]);
        }
        let mut all = Mass::default();
        let masses = by_cpu.iter().flatten().map(|(_, mass)| *mass);
        masses.for_each(|mass| all += mass.times(clocks.period_ns() / NS_PER_MS));
        let (_, of_ratios) = ratios.deviations(0, &times, false);
        let time = CPUS as f64 * time_ms;
        let of_all = Figure::weighted(all.sum(), all.mean());
        sampled += of_all.with_shared_error(of_ratios * all.sum() / time);
        let weight = design.whole_weight_ns() / NS_PER_MS;
        whole += Figure::weighted(CPUS as f64 * time_ms, weight);
        truth += CPUS as f64 * time_ms;
    }
    let found = sums.iter().zip(scene.shares).map(|(sum, share)| Run {
        value: sum.value,
        truth: share * truth,
        bounds: Some(sum.part_of(&whole)),
        before: Some(before::part(sum.value, whole.value, samples)),
        expected: share * samples,
    });
    let of_all = Run {
        value: sampled.value,
        truth,
        bounds: Some(sampled.interval(clocks.period_ns() / NS_PER_MS)),
        before: Some(
            Figure {
                shared: 0.0,
                ..sampled
            }
            .interval(0.0),
        ),
        expected: samples,
    };
    found.chain([of_all]).collect()
}
