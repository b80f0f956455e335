//! The owners of a program: each CPU's time in it is divided by its samples there, of the interval or of late,
//! and published with all CPUs'.

use metrics_common::sections::{Causes, Program};
use metrics_common::{Owner, OwnerKind};
use netto_estimate::Figure;
use netto_estimate::design_effect::Weights;

use crate::host::{Host, INTERVAL_MS, NS_PER_MS, WARM, WEIGHTS_MS};
use crate::random::Random;
use crate::trial::{Run, Trial};

/// Time in which a past sample's weight falls to a third, milliseconds.
const MEMORY_MS: f64 = 30e3;

fn owner(part: usize) -> Owner {
    Owner {
        id: part as u64 + 1,
        ..Owner::single(OwnerKind::Cgroup)
    }
}

/// Divides a time in proportion to these samples.
fn divide(time_ns: f64, samples: &[f64], mut add: impl FnMut(usize, f64)) {
    let all: f64 = samples.iter().sum();
    for (part, samples) in samples
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0.0)
    {
        add(part, time_ns * samples / all);
    }
}

/// The parts of the host are owners of a program.
pub fn owners(host: &Host, intervals: usize, runs: usize) -> Vec<Trial> {
    let name = |part| format!("{}, owner {part}, {intervals} intervals", host.name);
    let trials = (0..host.parts()).map(|part| Trial::new("owner of a program", name(part)));
    let mut trials: Vec<Trial> = trials.collect();
    for seed in 0..runs {
        let mut random = Random::new(seed as u64);
        let mut weights = vec![Weights::default(); host.cpus.len()];
        let mut past = vec![vec![0.0; host.parts()]; host.cpus.len()];
        let mut causes = Causes::default();
        let (mut time_ns, mut ns_ms) = (0.0, 0.0);
        let mut truths = vec![[0.0; 2]; host.parts()];
        // As it was: by the samples of all CPUs, of equal weight.
        let mut pooled = vec![0.0; host.parts()];
        for number in 0..WARM + intervals {
            if number == WARM {
                (causes, time_ns, ns_ms) = (Causes::default(), 0.0, 0.0);
                truths.fill([0.0; 2]);
                pooled.fill(0.0);
            }
            let strata = host.interval(number, &mut random);
            let mut of_all = vec![0.0; host.parts()];
            let mut of_interval_ns = 0.0;
            for stratum in &strata {
                let known = &mut weights[stratum.cpu];
                (0..stratum.samples()).for_each(|_| known.add(1.0));
                known.end(stratum.time_ms, 0.5_f64.powf(INTERVAL_MS / WEIGHTS_MS), 1.0);
                let sample_ms = known.time() / known.number().max(0.5);
                let own_ns = stratum.time_ms * NS_PER_MS;
                time_ns += own_ns;
                of_interval_ns += own_ns;
                ns_ms += own_ns * sample_ms;
                let counts: Vec<f64> = (0..host.parts())
                    .map(|part| f64::from(stratum.count(part)))
                    .collect();
                let past = &mut past[stratum.cpu];
                let samples = if stratum.samples() > 0 {
                    &counts
                } else {
                    &*past
                };
                divide(own_ns, samples, |part, ns| {
                    causes.add(&owner(part), ns as u64, Some((ns * sample_ms) as u64));
                });
                for (part, [truth, squares]) in truths.iter_mut().enumerate() {
                    let truth_ns = stratum.truth_ms[part] * NS_PER_MS;
                    *truth += truth_ns;
                    *squares += truth_ns * stratum.period_ms * NS_PER_MS;
                }
                for (part, count) in counts.iter().enumerate() {
                    of_all[part] += count;
                    past[part] = (past[part] + count) * (-INTERVAL_MS / MEMORY_MS).exp();
                }
            }
            divide(of_interval_ns, &of_all, |part, ns| pooled[part] += ns);
        }
        let program = Program {
            cpu_ns: vec![time_ns as u64],
            causes: Some(causes),
            ..Program::default()
        };
        let published = program.causes();
        let mean_weight_ns = ns_ms / time_ns * NS_PER_MS;
        let whole = Figure::weighted(time_ns, mean_weight_ns);
        for (part, trial) in trials.iter_mut().enumerate() {
            let found = published.iter().find(|cause| cause.owner.is(&owner(part)));
            let [truth, squares] = truths[part];
            let before = Figure::weighted(pooled[part], mean_weight_ns).part_of(&whole);
            trial.runs.push(Run {
                value: found.map_or(0.0, |cause| cause.ns as f64),
                truth,
                bounds: found.and_then(|cause| {
                    let (low, high) = cause.interval_ns?;
                    Some((low as f64, high as f64))
                }),
                before: Some(before),
                expected: truth * truth / squares,
            });
        }
    }
    // An owner without a sample is not listed: nothing is stated of it.
    trials.retain(|trial| trial.runs.iter().all(|run| run.bounds.is_some()));
    trials
}
