//! The CPU time of conversations that samples show: each CPU's time is divided by its samples of the interval,
//! and published with the event's.

use std::net::IpAddr;

use metrics_common::Flows;
use metrics_common::sections::{
    Amount, Conversation, Evidence, FlowEnd, SampledTime, SampledTimes,
};
use netto_estimate::Figure;
use netto_estimate::design_effect::Weights;

use crate::host::{Host, INTERVAL_MS, NS_PER_MS, WARM, WEIGHTS_MS};
use crate::random::Random;
use crate::trial::{Run, Trial};

/// What an interval adds.
#[derive(Clone, Copy, Default)]
struct Sums {
    ns: f64,
    ns_ms: f64,
    truth: f64,
    squares: f64,
}

/// A conversation with this CPU time.
fn conversation(received_ns: f64, ns_ms: f64) -> Conversation {
    let end = FlowEnd {
        address: IpAddr::from([0; 4]),
        port: None,
    };
    Conversation {
        interface: String::new(),
        vlans: Vec::new(),
        protocol: 17,
        ends: [end; 2],
        sent: Amount::default(),
        received: Amount::default(),
        sampled_packets: 0,
        packets_variance: None,
        cpu_ns: None,
        sampled: SampledTime {
            received_ns: Some(received_ns as u64),
            ns_ms: [Some(ns_ms as u64), None],
            ..SampledTime::default()
        },
    }
}

/// The parts of the host are flows, but for the last, whose samples show none.
pub fn flows(host: &Host, intervals: usize, runs: usize) -> Vec<Trial> {
    let flows = host.parts() - 1;
    let name = |flow| format!("{}, flow {flow}, {intervals} intervals", host.name);
    let trials = (0..flows).map(|flow| Trial::new("conversation's CPU time", name(flow)));
    let mut trials: Vec<Trial> = trials.collect();
    for seed in 0..runs {
        let mut random = Random::new(seed as u64);
        let mut weights = vec![Weights::default(); host.cpus.len()];
        let (mut sums, mut whole) = (vec![Sums::default(); flows], Sums::default());
        let mut shown = 0.0;
        for number in 0..WARM + intervals {
            if number == WARM {
                (sums, whole, shown) = (vec![Sums::default(); flows], Sums::default(), 0.0);
            }
            for stratum in host.interval(number, &mut random) {
                let cpu_weights = &mut weights[stratum.cpu];
                let samples = f64::from(stratum.samples());
                (0..stratum.samples()).for_each(|_| cpu_weights.add(1.0));
                cpu_weights.end(stratum.time_ms, 0.5_f64.powf(INTERVAL_MS / WEIGHTS_MS), 1.0);
                let sample_ms = cpu_weights.time() / cpu_weights.number().max(0.5);
                let time_ns = stratum.time_ms * NS_PER_MS;
                whole.ns += time_ns;
                whole.ns_ms += time_ns * sample_ms;
                for (flow, sum) in sums.iter_mut().enumerate().filter(|_| samples > 0.0) {
                    let ns = time_ns * f64::from(stratum.count(flow)) / samples;
                    sum.ns += ns;
                    sum.ns_ms += ns * sample_ms;
                    // Where no sample shows any, time is divided otherwise.
                    sum.truth += stratum.truth_ms[flow] * NS_PER_MS;
                    sum.squares += stratum.truth_ms[flow] * stratum.period_ms * NS_PER_MS.powi(2);
                    shown += ns;
                }
            }
        }
        let evidence = Evidence {
            ns: whole.ns as u64,
            sample_ns_ms: Some(whole.ns_ms as u64),
        };
        let published = Flows {
            sampled: SampledTimes {
                received: Some(evidence),
                ..SampledTimes::default()
            },
            ..Flows::default()
        };
        // As it was: a part of what samples show of all flows, with the mean weight of all CPUs.
        let mean_weight_ns = whole.ns_ms / whole.ns * NS_PER_MS;
        for (trial, sum) in trials.iter_mut().zip(&sums) {
            let conversation = conversation(sum.ns, sum.ns_ms);
            let half = published.cpu_margin_ns(&conversation).unwrap() as f64;
            let [part, all] = [sum.ns, shown].map(|ns| Figure::weighted(ns, mean_weight_ns));
            let (low, high) = part.part_of(&all);
            let half_before = (high - low) / 2.0;
            trial.runs.push(Run {
                value: sum.ns,
                truth: sum.truth,
                bounds: Some((sum.ns - half, sum.ns + half)),
                before: Some((sum.ns - half_before, sum.ns + half_before)),
                expected: sum.truth * sum.truth / sum.squares,
            });
        }
    }
    for trial in &mut trials {
        // What is published is the further bound alone, above and below: of n observations, it is 1 + z / 2 √n
        // times as far as the bounds are on average.
        trial.allowance = (trial.expected() < 100.0).then_some(1.5);
    }
    trials
}
