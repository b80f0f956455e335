//! What the beginning of a load loses: streams of bulk TCP after some seconds of quiet, in turn beside a netto that has
//! just started, so that all its probes are attached, and beside nothing.
//!
//! Between two CPUs such a stream has a second state, with a third to two thirds of its usual rate, in which it may
//! stay to its end: how often is told apart from what is lost.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use netto_estimate::proportion::difference;

use super::felt::{Ends, places};
use super::sweep::mean;
use super::{Options, SETTLE, end, figure};
use crate::child::Owned;
use crate::cpus;
use crate::lab::Network;

/// Length of a stream.
const STREAM: Duration = Duration::from_secs(3);
/// Before a stream beside nothing.
const QUIET: Duration = Duration::from_secs(3);
/// A stream with less of the usual rate than this is in its second state.
const SECOND_STATE: f64 = 0.7;

/// A part of the figures' names, where the ends are, and options of netto.
const LINES: &[(&str, Ends, &[&str])] = &[
    ("two_netto", Ends::TwoCpus, &[]),
    ("two_latency", Ends::TwoCpus, &["--latency"]),
    ("one_netto", Ends::OneCpu, &[]),
];

/// A stream that has ended.
#[derive(Clone, Copy)]
struct Ended {
    gbit_per_second: f64,
    /// Interrupts that CPUs sent each other, a second.
    interrupts_hz: f64,
}

/// As many streams of each kind as there are pairs, and one more beside nothing.
pub fn measure(options: &Options) -> Result<()> {
    let network = Network::direct()?;
    for (name, ends, words) in LINES {
        if !options.lines.is_empty() && !options.lines.iter().any(|line| line == name) {
            continue;
        }
        let (mut beside, mut alone) = (Vec::new(), vec![stream(&network, *ends)?]);
        while beside.len() < options.rounds {
            let daemon = options.start(None, words)?;
            std::thread::sleep(options.warm_up);
            beside.push(stream(&network, *ends)?);
            end(daemon)?;
            std::thread::sleep(QUIET);
            alone.push(stream(&network, *ends)?);
        }
        tell(name, *ends, &beside, &alone);
    }
    Ok(())
}

fn stream(network: &Network, ends: Ends) -> Result<Ended> {
    let to = network.right_v4.to_string();
    let (client_cpu, server_cpu) = places(ends)?;
    let mut server = network.right.command("iperf3");
    let mut server = Owned::start(server.args(["-s", "-1", "-B", &to]))?;
    std::thread::sleep(SETTLE);
    let mut client = network.left.command("iperf3");
    let ends_at = format!("{client_cpu},{server_cpu}");
    let seconds = STREAM.as_secs().to_string();
    client.args(["-c", &to, "-t", &seconds, "-A", &ends_at, "-J"]);
    let (interrupts, begun) = (cpus::interrupts_of_cpus()?, Instant::now());
    let output = client.output().context("cannot start iperf3")?;
    let passed = begun.elapsed().as_secs_f64();
    let interrupts = cpus::interrupts_of_cpus()? - interrupts;
    let told = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "iperf3 failed: {told}");
    server.wait()?;
    let told: serde_json::Value = serde_json::from_str(&told)?;
    let received = &told["end"]["sum_received"]["bits_per_second"];
    let bits = received.as_f64().context("iperf3 tells no rate")?;
    Ok(Ended {
        gbit_per_second: bits / 1e9,
        interrupts_hz: interrupts as f64 / passed,
    })
}

/// What streams beside netto lose against those before and after them, and how often each kind was in its second
/// state.
fn tell(name: &str, ends: Ends, beside: &[Ended], alone: &[Ended]) {
    let (mut lost, mut interrupts) = (Vec::new(), Vec::new());
    for (with, without) in beside.iter().zip(alone.windows(2)) {
        let ratio = |of: fn(&Ended) -> f64| {
            let around: Vec<_> = without.iter().map(of).collect();
            of(with) / mean(&around)
        };
        lost.push(100.0 * (1.0 - ratio(|ended| ended.gbit_per_second)));
        interrupts.push(ratio(|ended| ended.interrupts_hz));
    }
    let name = |figure: &str| format!("starts_{name}_{figure}");
    figure(&name("percent"), &lost);
    let rates = |streams: &[Ended]| -> Vec<f64> {
        let rates = streams.iter().map(|ended| ended.gbit_per_second);
        rates.collect()
    };
    let (with, without) = (rates(beside), rates(alone));
    figure(&name("gbit"), &with);
    figure(&name("gbit_alone"), &without);
    if ends == Ends::OneCpu {
        return;
    }
    figure(&name("interrupts"), &interrupts);
    let usual = median(&without);
    let slow = |rates: &[f64]| {
        let slow = rates.iter().filter(|&&rate| rate < SECOND_STATE * usual);
        slow.count() as f64 / rates.len().max(1) as f64
    };
    let often = [slow(&with), slow(&without)];
    figure(&name("second_percent"), &[100.0 * often[0]]);
    figure(&name("second_alone_percent"), &[100.0 * often[1]]);
    let counts = [with.len(), without.len()];
    let (low, high) = difference(often, counts.map(|count| count as f64));
    figure(&name("second_more_percent_low"), &[100.0 * low]);
    figure(&name("second_more_percent_high"), &[100.0 * high]);
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}
