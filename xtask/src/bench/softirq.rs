//! What the probes cost those who send and receive: with netto and without, in
//! turns, and by the kernel's own statistics of BPF programs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::daemon::Daemon;
use super::figures::{Figure, Section, Spread};
use super::lab::Lab;
use super::load::{self, Load};
use super::present::{self, Variant};
use super::programs::{self, AttachedObject, Program};

/// How long small packets are sent in one run.
const PACKETS_MILLISECONDS: u64 = 400;
/// Runs of them in a round.
const PACKET_RUNS: usize = 3;
const TCP_SECONDS: u32 = 2;

const FAST_HZ: u64 = 10_000;

/// The least that a pair of probes can cost, compiled.
pub struct Floor {
    /// Programs that do nothing.
    empty: PathBuf,
    /// Programs that read the clock.
    clock: PathBuf,
}

impl Floor {
    /// Compiles both.
    pub fn new(root: &Path) -> Result<Floor> {
        let compile = |define| programs::compile(root, "floor.bpf.c", define);
        Ok(Floor {
            empty: compile(None)?,
            clock: compile(Some("READ_CLOCK"))?,
        })
    }
}

/// What one variant showed, run by run.
#[derive(Default)]
struct Runs {
    packet_ns: Vec<f64>,
}

/// Measures; `attach` attaches the floor.
pub fn measure(
    lab: &Lab,
    netto: &Path,
    attach: &Path,
    floor: &Floor,
    rounds: usize,
) -> Result<Vec<Section>> {
    let variants = [
        Variant::Nothing,
        Variant::Programs(&floor.empty),
        Variant::Programs(&floor.clock),
        Variant::Netto(1),
        Variant::Netto(1_000),
        Variant::Netto(FAST_HZ),
    ];
    let packets = Load::sends(PACKETS_MILLISECONDS)?;
    // Neighbours are found and caches warm before anything counts.
    packets.run(lab)?;
    let mut runs = variants.map(|_| Runs::default());
    let mut pairs_per_packet = Vec::new();
    for round in 0..PACKET_RUNS * rounds {
        if round % PACKET_RUNS == 0 {
            let number = round / PACKET_RUNS + 1;
            eprintln!("xtask: packets, round {number} of {rounds}");
        }
        for index in present::order(round, variants.len()) {
            let variant = variants[index];
            let present = variant.begin(netto, attach)?;
            let before = load::softirqs()?;
            let pace = packets.run(lab)?;
            runs[index].packet_ns.push(pace.call_ns);
            if matches!(variant, Variant::Nothing) {
                pairs_per_packet.push((load::softirqs()? - before) as f64 / pace.calls);
            }
            present.end();
        }
    }
    let programs = count(lab, netto)?;
    let empty = count_floor(lab, attach, &floor.empty)?;
    let clock = count_floor(lab, attach, &floor.clock)?;
    Ok(vec![
        throughput(&runs, &pairs_per_packet),
        statistics(&programs, &empty, &clock),
    ])
}

fn throughput(runs: &[Runs; 6], pairs_per_packet: &[f64]) -> Section {
    let [without, empty, clock, probes, default, fast] = runs;
    let pairs = Spread::of(pairs_per_packet.iter().copied());
    let added = |runs: &Runs, to: &Runs| Spread::of_differences(&runs.packet_ns, &to.packet_ns);
    let per_pair = |runs: &Runs, to: &Runs| {
        added(runs, to)
            .zip(pairs)
            .map(|(added, pairs)| added.scaled(1.0 / pairs.median))
    };
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
    Section {
        title: "With netto against without, in turns".to_owned(),
        figures: vec![
            Figure::new(
                "a small UDP packet without netto, sent, carried over veth and dropped",
                Spread::of(without.packet_ns.iter().copied()),
                "ns",
            ),
            Figure::new("softirqs per such packet", pairs, ""),
            Figure::new(
                "softirq entry + exit, dispatch included",
                per_pair(probes, without),
                "ns",
            ),
            Figure::new(
                "two empty programs in the same places: the dispatch itself",
                per_pair(empty, without),
                "ns",
            ),
            Figure::new(
                "softirq entry + exit beyond the dispatch",
                per_pair(probes, empty),
                "ns",
            )
            .at_most(100.0),
            Figure::new(
                "of that, reading the clock twice",
                per_pair(clock, empty),
                "ns",
            ),
            Figure::new("added per packet at 1 kHz", added(default, without), "ns"),
            Figure::new("added per packet at 10 kHz", added(fast, without), "ns"),
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
        ],
    }
}

/// Runs of the probes under both loads while the kernel takes their time.
fn count(lab: &Lab, netto: &Path) -> Result<Vec<Program>> {
    eprintln!("xtask: statistics of BPF programs");
    lab.keep_bpf_statistics(true)?;
    let daemon = Daemon::start(netto, 1_000, &[])?;
    Load::sends(2 * PACKETS_MILLISECONDS)?.run(lab)?;
    load::tcp_gbps(lab, TCP_SECONDS)?;
    std::thread::sleep(Duration::from_millis(100));
    let programs = programs::of_process(daemon.pid()).context("cannot read BPF statistics")?;
    daemon.end();
    lab.keep_bpf_statistics(false)?;
    Ok(programs)
}

/// The same, of a floor's programs.
fn count_floor(lab: &Lab, attach: &Path, floor: &Path) -> Result<Vec<Program>> {
    lab.keep_bpf_statistics(true)?;
    let attached = AttachedObject::start(attach, floor)?;
    Load::sends(2 * PACKETS_MILLISECONDS)?.run(lab)?;
    let programs = programs::of_process(attached.pid()).context("cannot read BPF statistics")?;
    drop(attached);
    lab.keep_bpf_statistics(false)?;
    Ok(programs)
}

fn statistics(programs: &[Program], empty: &[Program], clock: &[Program]) -> Section {
    fn mean(programs: &[Program], name: &str) -> Option<f64> {
        let program = programs.iter().find(|program| program.name == name)?;
        (program.runs > 0.0).then(|| program.run_time_ns / program.runs)
    }
    let pair = |programs: &[Program], entry, exit| {
        let both = mean(programs, entry).zip(mean(programs, exit));
        both.map(|(entry, exit)| entry + exit)
    };
    let figure =
        |what, ns: Option<f64>| Figure::new(what, ns.and_then(|ns| Spread::of([ns])), "ns");
    let of_netto = |what, name| figure(what, mean(programs, name));
    let whole = pair(programs, "netto_sirq_in", "netto_sirq_out");
    let timing = pair(empty, "bench_in", "bench_out");
    let reading = pair(clock, "bench_in", "bench_out");
    let beyond = |more: Option<f64>| more.zip(timing).map(|(more, timing)| more - timing);
    Section {
        title: "By the kernel's BPF statistics, per run (dispatch excluded, timing included)"
            .to_owned(),
        figures: vec![
            of_netto("`netto_sirq_in`", "netto_sirq_in"),
            of_netto("`netto_sirq_out`", "netto_sirq_out"),
            figure("softirq entry + exit", whole).at_most(100.0),
            figure("two empty programs: the timing itself", timing),
            figure("softirq entry + exit without the timing", beyond(whole)),
            figure("of that, reading the clock twice", beyond(reading)),
            of_netto("`netto_switch`", "netto_switch"),
            of_netto(
                "`netto_sample`: one tick of the sampler, its stack kept or not",
                "netto_sample",
            ),
        ],
    }
}
