//! Owners: who caused time, who paid for it, and for whom.

use netto_estimate::Figure;
use netto_estimate::crossed::{Crossed, Of, Worth};
use netto_estimate::design_effect::{Clusters, Mass, Weights};

use crate::before;
use crate::host::{Host, INTERVAL_MS, WARM, WEIGHTS_MS};
use crate::random::Random;
use crate::trial::{Run, Trial};

/// Half-life of past samples, milliseconds.
const PAST_MS: f64 = 5e3;
/// By part of the host: who caused it, and who paid.
const PAIRS: [(u32, u32); 5] = [(1, 1), (2, 1), (1, 2), (3, 1), (2, 2)];

const FIGURES: [(Of<u32>, &str); 6] = [
    (Of::Cause(1), "owner as cause"),
    (Of::Cause(3), "owner as cause, rare"),
    (Of::Payer(2), "owner as payer"),
    (Of::Pair(2, 1), "pair"),
    (Of::OthersPaid(2), "made others pay"),
    (Of::ForOthers(2), "paid for others"),
];

fn is_part(figure: Of<u32>, (cause, payer): (u32, u32)) -> bool {
    match figure {
        Of::Cause(owner) => cause == owner,
        Of::OthersPaid(owner) => cause == owner && payer != owner,
        Of::Payer(owner) => payer == owner,
        Of::ForOthers(owner) => payer == owner && cause != owner,
        Of::Pair(owner, other) => (cause, payer) == (owner, other),
    }
}

/// What is known of a CPU.
#[derive(Clone, Default)]
struct Cpu {
    past: [f64; 5],
    causes: Weights,
    payers: Weights,
}

/// Figures of owners over so many intervals.
pub fn owners(host: &Host, intervals: usize, runs: usize) -> Vec<Trial> {
    let scene = format!(
        "{}, bursts of {}, {intervals} intervals",
        host.name, host.burst
    );
    let mut trials = FIGURES.map(|(_, kind)| Trial::new(kind, scene.clone()));
    for seed in 0..runs {
        let mut random = Random::new(seed as u64);
        let mut cpus = vec![Cpu::default(); host.cpus.len()];
        let (mut causes, mut payers) = (Clusters::default(), Clusters::default());
        let mut figures = [Figure::default(); FIGURES.len()];
        let mut truth = [0.0; FIGURES.len()];
        let mut squares = [0.0; FIGURES.len()];
        let (mut whole, mut of_before) = (Figure::default(), 0.0);
        // As it was: samples weigh alike, and time by number.
        let (mut all_ms, mut samples) = (0.0, Mass::default());
        let (mut causes_before, mut payers_before) = (Clusters::default(), Clusters::default());
        for number in 0..WARM + intervals {
            if number == WARM {
                figures = [Figure::default(); FIGURES.len()];
                (truth, squares) = ([0.0; FIGURES.len()], [0.0; FIGURES.len()]);
                (whole, of_before) = (Figure::default(), 0.0);
            }
            let fade = |half_life: f64| 0.5_f64.powf(INTERVAL_MS / half_life);
            for side in [
                &mut causes,
                &mut payers,
                &mut causes_before,
                &mut payers_before,
            ] {
                side.end();
            }
            samples.fade(fade(WEIGHTS_MS));
            all_ms *= fade(WEIGHTS_MS);
            let strata = host.interval(number, &mut random);
            let mut of_host = [0.0; 5];
            let mut past_of_host = [0.0; 5];
            for stratum in &strata {
                let cpu = &mut cpus[stratum.cpu];
                all_ms += stratum.time_ms;
                for part in 0..5 {
                    for _ in 0..stratum.count(part) {
                        cpu.causes.add(1.0);
                        cpu.payers.add(1.0);
                        causes.add(stratum.cpu, PAIRS[part].0, stratum.period_ms);
                        payers.add(stratum.cpu, PAIRS[part].1, stratum.period_ms);
                        samples.add(1.0);
                        causes_before.add(0, PAIRS[part].0, 1.0);
                        payers_before.add(0, PAIRS[part].1, 1.0);
                    }
                    of_host[part] += cpu.past[part] + f64::from(stratum.count(part));
                    past_of_host[part] += cpu.past[part];
                }
            }
            for stratum in &strata {
                let cpu = &mut cpus[stratum.cpu];
                cpu.causes
                    .end(stratum.time_ms, fade(WEIGHTS_MS), causes.effect());
                cpu.payers
                    .end(stratum.time_ms, fade(WEIGHTS_MS), payers.effect());
            }
            let host_past: f64 = past_of_host.iter().sum::<f64>().max(1e-9);
            let mut crossed = Crossed::default();
            let mut value = [0.0; FIGURES.len()];
            let mut interval_ms = 0.0;
            for stratum in &strata {
                let cpu = &mut cpus[stratum.cpu];
                let worth = |weights: &Weights| weights.time() / weights.number().max(0.5);
                let now: [f64; 5] = std::array::from_fn(|part| f64::from(stratum.count(part)));
                let known = if stratum.samples() > 0 { now } else { cpu.past };
                let all: f64 = known.iter().sum();
                let known = if all > 0.0 { known } else { of_host };
                let all: f64 = known.iter().sum::<f64>().max(1e-9);
                let smooth = |part: usize| {
                    (
                        PAIRS[part],
                        cpu.past[part] + 4.0 * past_of_host[part] / host_past,
                    )
                };
                let weights: Vec<_> = (0..5).map(smooth).collect();
                let worth = Worth {
                    cause: worth(&cpu.causes),
                    payer: worth(&cpu.payers),
                    time: 0.0,
                };
                crossed.add(stratum.time_ms, worth, &weights, |_| true);
                for (at, (figure, _)) in FIGURES.iter().enumerate() {
                    for part in (0..5).filter(|part| is_part(*figure, PAIRS[*part])) {
                        value[at] += stratum.time_ms * known[part] / all;
                        truth[at] += stratum.truth_ms[part];
                        squares[at] += stratum.truth_ms[part] * stratum.period_ms * host.burst;
                    }
                }
                interval_ms += stratum.time_ms;
                for (past, now) in cpu.past.iter_mut().zip(now) {
                    *past = (*past + now) * fade(PAST_MS);
                }
            }
            whole += Figure::weighted(interval_ms, crossed.whole_weight());
            let effect = causes_before.effect().max(payers_before.effect());
            of_before += interval_ms * all_ms / samples.number().max(0.5) * effect;
            for (at, (figure, _)) in FIGURES.iter().enumerate() {
                figures[at] += Figure::weighted(value[at], crossed.weight(*figure));
            }
        }
        for (at, trial) in trials.iter_mut().enumerate() {
            let value = figures[at].value;
            let independent = whole.value * whole.value / of_before;
            trial.runs.push(Run {
                value,
                truth: truth[at],
                bounds: Some(figures[at].part_of(&whole)),
                before: Some(before::part(value, whole.value, independent)),
                expected: truth[at] * truth[at] / squares[at],
            });
        }
    }
    trials.to_vec()
}
