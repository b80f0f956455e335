//! The difference of two logs: how much two loads of the same mean, or of another, differ.

use netto_estimate::difference::{Cell, Deviations, blocks, likeness, margins};

use crate::random::Random;
use crate::trial::{Run, Trial};

#[derive(Default)]
struct Second {
    ns: u64,
    time: f64,
}

impl Cell for Second {
    fn time(&self, _: usize) -> f64 {
        self.time
    }

    fn add(&mut self, more: &Self) {
        self.ns += more.ns;
        self.time += more.time;
    }
}

/// So many seconds of a load whose neighbours are alike by this much.
fn side(random: &mut Random, seconds: usize, mean: f64, correlation: f64) -> Vec<Second> {
    let mut level = random.normal();
    let second = |_| {
        level = correlation * level + (1.0 - correlation * correlation).sqrt() * random.normal();
        let time = mean * (1.0 + 0.3 * level).max(0.0);
        Second { ns: 1, time }
    };
    (0..seconds).map(second).collect()
}

pub fn differences(seconds: usize, runs: usize) -> Vec<Trial> {
    let trial = |correlation: f64| {
        let scene = format!("{seconds} s each, neighbours alike by {correlation}");
        let mut trial = Trial::new("difference of two logs", scene);
        // It is for many components at once, and stricter than it says.
        trial.allowance = Some(2.0);
        for seed in 0..runs {
            let mut random = Random::new(seed as u64);
            let sides = [10.0, 11.0].map(|mean| side(&mut random, seconds, mean, correlation));
            let weight: fn(&Second) -> u64 = |second| second.ns;
            let deviations = sides.each_ref().map(|cells| {
                let measured = likeness(cells, 0..1, weight);
                let blocks = blocks(cells, measured).unwrap();
                Deviations::of(cells, &blocks, 0, weight, measured)
            });
            let mean = |cells: &[Second]| {
                cells.iter().map(|second| second.time).sum::<f64>() / cells.len() as f64
            };
            let value = mean(&sides[1]) - mean(&sides[0]);
            let [a, b] = deviations;
            let margin = margins(&[(a, b)])[0];
            let half = margin.error * margin.factor;
            trial.runs.push(Run {
                value,
                truth: 1.0,
                bounds: Some((value - half, value + half)),
                before: Some((value - half, value + half)),
                expected: seconds as f64,
            });
        }
        trial
    };
    [0.0, 0.5, 0.9].map(trial).to_vec()
}
