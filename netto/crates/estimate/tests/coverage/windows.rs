//! What is measured in windows only: counts, and the length of softirqs.

use netto_estimate::Figure;
use netto_estimate::windowed_counts::WindowedCounts;

use crate::before;
use crate::random::Random;
use crate::trial::{Run, Trial};

const MS: u64 = 1_000_000;
/// Length of a window, milliseconds; there is one in each second, in the first of two intervals.
const WINDOW: usize = 15;

/// How events come.
#[derive(Clone, Copy, Debug)]
enum Events {
    /// In bursts of 5 to 400 ms, of 0, 40 or 80 a millisecond.
    Bursts,
    /// Independently, so many in a second.
    Poisson(f64),
    /// Evenly, so many in a millisecond.
    Paced(u64),
    /// Independently, ten times as many in turns of 5 to 15 s.
    Alternating,
    /// Seldom: a burst of a hundred in three seconds on average.
    Seldom,
}

const ALL: [(Events, &str); 7] = [
    (Events::Bursts, "bursts of 5 to 400 ms"),
    (Events::Poisson(10_000.0), "10,000/s, independent"),
    (Events::Poisson(300.0), "300/s, independent"),
    (Events::Poisson(5.0), "5/s, independent"),
    (Events::Paced(10), "10,000/s, paced"),
    (
        Events::Alternating,
        "1,000 and 10,000/s, in turns of 5 to 15 s",
    ),
    (Events::Seldom, "100 at once, every 3 s on average"),
];

/// Events in each millisecond.
fn load(events: Events, random: &mut Random, length: usize) -> Vec<u64> {
    let mut load = Vec::with_capacity(length);
    while load.len() < length {
        match events {
            Events::Bursts => {
                let lasts = random.between(5.0, 400.0) as usize;
                let rate = random.between(0.0, 3.0).floor() * 40.0;
                load.extend((0..lasts).map(|_| u64::from(random.poisson(rate))));
            }
            Events::Poisson(rate) => load.push(u64::from(random.poisson(rate / 1e3))),
            Events::Paced(number) => load.push(number),
            Events::Alternating => {
                for rate in [1.0, 10.0] {
                    let lasts = random.between(5_000.0, 15_000.0) as usize;
                    load.extend((0..lasts).map(|_| u64::from(random.poisson(rate))));
                }
            }
            Events::Seldom => load.push(100 * u64::from(random.poisson(1.0 / 3_000.0))),
        }
    }
    load.truncate(length);
    load
}

/// Counts over so many windows.
pub fn counts(windows: usize, runs: usize) -> Vec<Trial> {
    let warm = 30;
    let trials = |(events, scene): (Events, &str)| {
        let mut trial = Trial::new("windowed count", format!("{scene}, {windows} windows"));
        let mut unmet = Trial::new("windowed count", format!("{}, none met", trial.scene));
        unmet.is_limit = true;
        if let Events::Seldom = events {
            trial.kind = "windowed count, upper bound";
        }
        // Events are taken to come at least by chance, and a step of the load as any difference.
        trial.allowance = match events {
            Events::Paced(_) => Some(f64::INFINITY),
            Events::Alternating => Some(2.0),
            _ => None,
        };
        for seed in 0..runs {
            let mut random = Random::new(seed as u64);
            let load = load(events, &mut random, (warm + windows) * 1_000);
            let mut counts = WindowedCounts::default();
            let mut before = before::WindowedCounts::default();
            let mut sum = Figure::default();
            let (mut freedom, mut truth, mut all_met) = (0.0, 0, 0);
            for (number, second) in load.chunks(1_000).enumerate() {
                if number == warm {
                    (sum, freedom, truth, all_met) = (Figure::default(), 0.0, 0, 0);
                    (before.value, before.of_sum) = (0.0, 0.0);
                }
                truth += second.iter().sum::<u64>();
                let from = random.between(0.0, (500 - WINDOW) as f64) as usize;
                let in_window = second[from..from + WINDOW].iter().sum::<u64>();
                all_met += in_window;
                for (in_window, ns) in [(in_window, WINDOW as u64 * MS), (0, 0)] {
                    let found = counts.part(&[in_window], ns, 500 * MS);
                    sum += found.events.unwrap();
                    let of_first = if freedom == 0.0 {
                        found.freedom_before
                    } else {
                        0.0
                    };
                    freedom += of_first + found.freedom;
                    let counted = (ns > 0).then_some((in_window as u32, WINDOW as f64));
                    before.interval(counted, 500.0);
                }
            }
            sum.square_by_freedom = sum.variance * sum.variance / freedom;
            let grain = 1_000.0 / WINDOW as f64;
            let mut bounds = sum.of_clusters(grain);
            // A window that meets a burst stands for bursts in each until the next; where none meets one,
            // nothing tells how large they are, and the rule of three is of single events.
            let is_seldom = matches!(events, Events::Seldom);
            let is_unmet = is_seldom && all_met == 0;
            assert!(!is_unmet || bounds.0 == 0.0 && bounds.1 > 3.0 * grain);
            bounds.0 = if is_seldom { 0.0 } else { bounds.0 };
            let kind = if is_unmet { &mut unmet } else { &mut trial };
            kind.runs.push(Run {
                value: sum.value,
                truth: truth as f64,
                bounds: Some(bounds),
                before: before.bounds(),
                expected: if is_seldom || windows < 8 {
                    0.0
                } else {
                    truth as f64 / grain
                },
            });
        }
        [trial, unmet]
    };
    let trials = ALL.into_iter().flat_map(trials);
    trials.filter(|trial| !trial.runs.is_empty()).collect()
}
