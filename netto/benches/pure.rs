//! Times the steps of user space that are worth a figure, on recorded stacks and made-up hosts.
//! Needs no root: `cargo bench -p netto`, or one by its name, `cargo bench -p netto metrics`.

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that cannot go on has nothing to say"
)]

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use divan::Bencher;
use metrics_common::codec::{self, ServerMessage};
use netto::features::{self, FEATURES};
use netto_analysis::classify::Classifier;
use netto_cost::analysis::samples::{Sample, Samples};
use netto_demo::{Demo, Settings};
use netto_estimate::two_clocks::Clocks;
use netto_judges::advice::Adviser;
use netto_judges::anomalies::Detector;
use netto_log::read::Files;
use netto_log::read::SeriesItem;
use netto_log_format::{LogBuilder, Rounding};
use netto_metrics::prometheus::{Exported, Form, PrometheusLogger};
use netto_offline::summary::Summarizer;
use netto_pipeline::metrics_collector::{Deliver, Published};
use netto_pipeline::supervisor::Supervisor;
use netto_pipeline::trace_analyzer::SnapshotSource;
use netto_questions::times::Span;

/// As `examples/record_stacks.rs` writes them: a title, symbols, an empty line, stacks.
const RECORDED: &str = include_str!("../tests/data/tcp6-gro.stacks");
/// A kernel with its modules has about as many symbols; recordings name only what they met.
const OTHER_SYMBOLS: u64 = 200_000;
/// Where those may be without touching the recorded ones.
const OTHER_START: u64 = 0xffff_ffff_c000_0000;
const INTERVAL: Duration = Duration::from_millis(500);
const INTERVALS_OF_AN_HOUR: u64 = 7_200;
/// Twelve blocks of five seconds, and one more.
const INTERVALS_UNTIL_KNOWN: u32 = 130;
/// Different intervals of a log; after them they repeat.
const DIFFERENT: usize = 60;

fn main() {
    divan::main();
}

/// Symbols and stacks of the recording.
fn recorded() -> (&'static str, &'static str) {
    let (head, stacks) = RECORDED.split_once("\n\n").unwrap();
    (head.split_once('\n').unwrap().1, stacks)
}

/// One stack after the other, from return addresses to a component, and counted.
#[divan::bench]
fn classify(bencher: Bencher<'_, '_>) {
    let (symbols, lines) = recorded();
    let mut classifier = Classifier::new(symbols.as_bytes()).unwrap();
    let mut samples = Samples::new(1, 0);
    let stacks: Vec<(u8, Vec<u64>)> = lines
        .lines()
        .map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let kind = words.next().unwrap().parse().unwrap();
            let frames = words.map(|word| u64::from_str_radix(word, 16).unwrap());
            (kind, frames.collect())
        })
        .collect();
    let clocks = Clocks {
        free_ns: 1e6,
        stepped_ns: None,
    };
    samples.begin(0, 500_000_000, [clocks].into_iter());
    let mut each = stacks.iter().cycle();
    bencher.bench_local(|| {
        let (kind, frames) = each.next().unwrap();
        let sample = Sample {
            cpu: 0,
            process: 1,
            kind: *kind,
            is_idle_task: false,
            is_by_tick: false,
            frames,
        };
        samples.add(&mut classifier, sample);
    });
}

/// The kernel's symbols, without the kernel's own work of writing them.
#[divan::bench(sample_count = 10)]
fn symbols(bencher: Bencher<'_, '_>) {
    let mut list = format!("{}\n", recorded().0);
    for index in 0..OTHER_SYMBOLS {
        let at = OTHER_START + index * 0x100;
        writeln!(list, "{at:x} t some_other_function_{index}").unwrap();
    }
    bencher.bench(|| Classifier::new(list.as_bytes()).unwrap());
}

fn made_up(cpus: u32) -> Demo {
    netto_demo::demo(Settings {
        cpus,
        seed: 1,
        period: INTERVAL,
        frequency_hz: 1_000,
        features: FEATURES,
        without: &["owners", "latency"],
    })
}

/// A snapshot for pages and log.
#[divan::bench(args = [1, 128])]
fn encode(bencher: Bencher<'_, '_>, cpus: u32) {
    let snapshot = made_up(cpus).source.next_snapshot().unwrap();
    bencher.bench(|| codec::encode_snapshot(&snapshot).unwrap());
}

/// The page of metrics, written once for each snapshot.
#[divan::bench(args = [1, 256])]
fn metrics(bencher: Bencher<'_, '_>, cpus: u32) {
    let Demo {
        info, mut source, ..
    } = made_up(cpus);
    let info = Arc::new(info);
    let system = actix::System::new();
    let (supervisor, _failures) = system.block_on(async { Supervisor::new() });
    let (logger, metrics) = system.block_on(async {
        PrometheusLogger::launch(
            info.clone(),
            Default::default(),
            Exported {
                catalogues: features::metrics(FEATURES).into(),
                ..Exported::default()
            },
            &supervisor,
        )
    });
    let mut deliver = || {
        let snapshot = Arc::new(source.next_snapshot().unwrap());
        let published = Arc::new(Published::new(snapshot, info.clone()));
        system.block_on(logger.send(Deliver(published))).unwrap();
    };
    bencher
        .with_inputs(&mut deliver)
        .bench_local_values(|()| system.block_on(metrics.page(Form::Text)).unwrap());
    supervisor.begin_end();
}

/// A snapshot is judged for what is unusual in it, once what is usual is known.
#[divan::bench(args = [1, 128])]
fn anomalies(bencher: Bencher<'_, '_>, cpus: u32) {
    let mut source = made_up(cpus).source;
    let mut detector = Detector::default();
    for _ in 0..INTERVALS_UNTIL_KNOWN {
        detector.push(&source.next_snapshot().unwrap());
    }
    bencher
        .with_inputs(|| source.next_snapshot().unwrap())
        .bench_local_refs(|snapshot| detector.push(snapshot));
}

/// What rules of advice say of a snapshot.
#[divan::bench(args = [1, 128])]
fn advice(bencher: Bencher<'_, '_>, cpus: u32) {
    let snapshot = made_up(cpus).source.next_snapshot().unwrap();
    let mut adviser = Adviser::default();
    bencher.bench_local(|| adviser.judge(&snapshot));
}

/// A log of an hour of 64 CPUs, read by its digests as `netto report` does.
#[divan::bench(sample_count = 10)]
fn report(bencher: Bencher<'_, '_>) {
    let Demo {
        info, mut source, ..
    } = made_up(64);
    let begin_ns = info.started_unix_ns;
    let mut some: Vec<_> = (0..DIFFERENT)
        .map(|_| source.next_snapshot().unwrap())
        .collect();
    let mut rounding = Rounding::default();
    let mut log = LogBuilder::default();
    log.push(&ServerMessage::Hello(Box::new(info))).unwrap();
    for sequence in 1..=INTERVALS_OF_AN_HOUR {
        let snapshot = &mut some[sequence as usize % DIFFERENT];
        snapshot.sequence = sequence;
        snapshot.time_unix_ns = begin_ns + sequence * INTERVAL.as_nanos() as u64;
        let message = codec::encode_snapshot(&rounding.round(snapshot)).unwrap();
        log.push_snapshot(message, snapshot.time_unix_ns).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("netto.log");
    std::fs::write(&path, log.finish()).unwrap();
    bencher.bench(|| {
        let files = Files::look(std::slice::from_ref(&path)).unwrap();
        let mut summarizer = Summarizer::of("network");
        let read = files.series_by_digests(Span::EVER).for_each(|entry| {
            match entry {
                SeriesItem::Described(info) => summarizer.describe(&info),
                SeriesItem::Interval(snapshot) => summarizer.add(&*snapshot),
                SeriesItem::Digest(digest) => summarizer.add(&*digest),
                SeriesItem::Missing(gap) => summarizer.missing(&gap),
                SeriesItem::Stacks(_) => {}
            }
            Ok::<(), anyhow::Error>(())
        });
        read.unwrap();
        summarizer.finish().unwrap()
    });
}
