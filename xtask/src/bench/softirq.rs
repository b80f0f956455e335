//! What the probes cost those who send and receive: with netto and without, in
//! turns, and by the kernel's own statistics of BPF programs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::daemon::Daemon;
use super::figures::{Figure, Section, Spread};
use super::lab::Lab;
use super::load::{self, Load};
use super::programs::{self, Attached, Program};

/// How long small packets are sent in one run.
const PACKETS_MILLISECONDS: u64 = 700;
const TCP_SECONDS: u32 = 2;

const FAST_HZ: u64 = 10_000;
/// Frequencies of stack sampling; none is no netto at all. At 1 Hz only the probes are felt.
const VARIANTS: [Option<u64>; 4] = [None, Some(1), Some(1_000), Some(FAST_HZ)];

/// What one variant showed, run by run.
#[derive(Default)]
struct Runs {
    packet_ns: Vec<f64>,
    tcp_gbps: Vec<f64>,
}

/// The least that a pair of probes can cost, compiled.
pub fn compile_floor(root: &Path) -> Result<PathBuf> {
    programs::compile(root, "floor.bpf.c", None)
}

/// Measures; `floor` is what [`compile_floor`] gave, `attach` attaches it.
pub fn measure(
    lab: &Lab,
    netto: &Path,
    attach: &Path,
    floor: &Path,
    rounds: usize,
) -> Result<Vec<Section>> {
    let packets = Load::sends(PACKETS_MILLISECONDS)?;
    // Neighbours are found and caches warm before anything counts.
    packets.run(lab)?;
    let mut runs: [Runs; VARIANTS.len()] = Default::default();
    let mut pairs_per_packet = Vec::new();
    for round in 0..rounds {
        eprintln!(
            "xtask: packets and bulk TCP, round {} of {rounds}",
            round + 1
        );
        for step in 0..VARIANTS.len() {
            // To and fro, so that a machine that slows down slows all variants alike.
            let variant = match round % 2 {
                0 => step,
                _ => VARIANTS.len() - 1 - step,
            };
            let daemon = match VARIANTS[variant] {
                Some(frequency_hz) => Some(Daemon::start(netto, frequency_hz)?),
                None => None,
            };
            let before = load::softirqs()?;
            let pace = packets.run(lab)?;
            runs[variant].packet_ns.push(pace.call_ns);
            if VARIANTS[variant].is_none() {
                pairs_per_packet.push((load::softirqs()? - before) as f64 / pace.calls);
            }
            // Bulk TCP does not tell one probe from none.
            if VARIANTS[variant] != Some(1) {
                runs[variant]
                    .tcp_gbps
                    .push(load::tcp_gbps(lab, TCP_SECONDS)?);
            }
            if let Some(daemon) = daemon {
                daemon.end();
            }
        }
    }
    let mut programs = count(lab, netto)?;
    programs.extend(count_floor(lab, attach, floor)?);
    Ok(vec![
        throughput(&runs, &pairs_per_packet),
        statistics(&programs),
    ])
}

fn throughput(runs: &[Runs; VARIANTS.len()], pairs_per_packet: &[f64]) -> Section {
    let [without, probes, default, fast] = runs;
    let pairs = Spread::of(pairs_per_packet.iter().copied());
    let added = |runs: &Runs| Spread::of_differences(&runs.packet_ns, &without.packet_ns);
    let per_pair = added(probes)
        .zip(pairs)
        .map(|(added, pairs)| added.scaled(1.0 / pairs.median));
    let slower = |runs: &Runs| {
        Spread::of_changes(&runs.packet_ns, &without.packet_ns).map(|s| s.scaled(100.0))
    };
    // The part of a second that its samples take, by how much longer a packet takes.
    let per_sample_us = Spread::of(
        fast.packet_ns
            .iter()
            .zip(&probes.packet_ns)
            .map(|(with, without)| (1.0 - without / with) * 1e6 / FAST_HZ as f64),
    );
    let lost = |runs: &Runs| {
        Spread::of_changes(&runs.tcp_gbps, &without.tcp_gbps).map(|s| s.scaled(-100.0))
    };
    Section {
        title: "With netto against without, in turns".to_owned(),
        figures: vec![
            Figure::new(
                "a small UDP packet without netto, sent, carried over veth and dropped",
                Spread::of(without.packet_ns.iter().copied()),
                "ns",
            ),
            Figure::new("softirqs per such packet", pairs, ""),
            Figure::new("softirq entry + exit, dispatch included", per_pair, "ns").at_most(100.0),
            Figure::new(
                "added per packet by the probes alone (1 Hz)",
                added(probes),
                "ns",
            ),
            Figure::new("added per packet at 1 kHz", added(default), "ns"),
            Figure::new("added per packet at 10 kHz", added(fast), "ns"),
            Figure::new(
                "the same at 1 kHz, of a packet's cost",
                slower(default),
                "%",
            ),
            Figure::new("the same at 10 kHz, of a packet's cost", slower(fast), "%"),
            Figure::new(
                "one stack sample at 10 kHz, its interrupt included",
                per_sample_us,
                "µs",
            ),
            Figure::new(
                "bulk TCP without netto",
                Spread::of(without.tcp_gbps.iter().copied()),
                "Gbit/s",
            ),
            Figure::new("bulk TCP, throughput lost at 1 kHz", lost(default), "%"),
            Figure::new("bulk TCP, throughput lost at 10 kHz", lost(fast), "%"),
        ],
    }
}

/// Runs of the probes under both loads while the kernel takes their time.
fn count(lab: &Lab, netto: &Path) -> Result<Vec<Program>> {
    eprintln!("xtask: statistics of BPF programs");
    lab.keep_bpf_statistics(true)?;
    let daemon = Daemon::start(netto, 1_000)?;
    Load::sends(2 * PACKETS_MILLISECONDS)?.run(lab)?;
    load::tcp_gbps(lab, TCP_SECONDS)?;
    std::thread::sleep(Duration::from_millis(100));
    let programs = programs::of_process(daemon.pid()).context("cannot read BPF statistics")?;
    daemon.end();
    lab.keep_bpf_statistics(false)?;
    Ok(programs)
}

/// The same, of programs that do nothing or only read the clock.
fn count_floor(lab: &Lab, attach: &Path, floor: &Path) -> Result<Vec<Program>> {
    lab.keep_bpf_statistics(true)?;
    let attached = Attached::start(attach, floor)?;
    Load::sends(2 * PACKETS_MILLISECONDS)?.run(lab)?;
    let programs = programs::of_process(attached.pid()).context("cannot read BPF statistics")?;
    drop(attached);
    lab.keep_bpf_statistics(false)?;
    Ok(programs)
}

fn statistics(programs: &[Program]) -> Section {
    let mean = |name: &str| {
        let program = programs.iter().find(|program| program.name == name)?;
        (program.runs > 0.0).then(|| program.run_time_ns / program.runs)
    };
    let figure = |what, name| Figure::new(what, mean(name).and_then(|ns| Spread::of([ns])), "ns");
    let pair = mean("netto_sirq_in")
        .zip(mean("netto_sirq_out"))
        .and_then(|(entry, exit)| Spread::of([entry + exit]));
    Section {
        title: "By the kernel's BPF statistics, per run (dispatch excluded, timing included)"
            .to_owned(),
        figures: vec![
            figure("`netto_sirq_in`", "netto_sirq_in"),
            figure("`netto_sirq_out`", "netto_sirq_out"),
            Figure::new("softirq entry + exit", pair, "ns").at_most(100.0),
            figure(
                "an empty program, for comparison: the timing itself",
                "bench_empty",
            ),
            figure("one that reads the clock and no more", "bench_clock"),
            figure("`netto_switch`", "netto_switch"),
            figure(
                "`netto_sample`: one tick of the sampler, its stack kept or not",
                "netto_sample",
            ),
            figure("`netto_sk_sent` (where fentry is refused)", "netto_sk_sent"),
            figure("`netto_sk_recv` (where fentry is refused)", "netto_sk_recv"),
        ],
    }
}
