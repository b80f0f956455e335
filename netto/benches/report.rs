//! Times what `netto report` takes for a long log of a made-up host, and its memory. Needs no root.
//!
//! `--cpus N` and `--hours N` choose the log (64 CPUs, 24 hours at two intervals a second). It is
//! made first, from a few minutes that repeat, and read by another process, whose memory is
//! therefore the reader's only; `--read FILE` is that process. `--keep FILE` leaves the log there.
//! It is read by its digests, as `netto report` does, or with `--every-interval` without them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use metrics_common::Snapshot;
use metrics_common::codec::{self, ServerMessage};
use metrics_common::log::{LogBuilder, Rounding};
use netto_demo::{Demo, Settings};
use netto_log::read::{Entry, Files};
use netto_offline::summary::Summarizer;
use netto_pipeline::trace_analyzer::SnapshotSource;
use netto_questions::times::Span;

const EVERY_INTERVAL: &str = "--every-interval";
const INTERVAL_NS: u64 = 500_000_000;
/// Different intervals; after them they repeat.
const DIFFERENT: usize = 600;

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let option = |name: &str| -> Option<&String> {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1)
    };
    let has = |name: &str| words.iter().any(|word| word == name);
    if let Some(path) = option("--read") {
        return read(Path::new(path), has(EVERY_INTERVAL));
    }
    let number = |name: &str, default: u64| -> anyhow::Result<u64> {
        option(name).map_or(Ok(default), |word| Ok(word.parse()?))
    };
    let (cpus, hours) = (number("--cpus", 64)?, number("--hours", 24)?);
    let folder = tempfile::tempdir()?;
    let path = match option("--keep") {
        Some(path) => PathBuf::from(path),
        None => folder.path().join("netto.log"),
    };
    make(&path, u32::try_from(cpus)?, hours * 7_200)?;
    println!(
        "{hours} h at {cpus} CPUs: {} bytes",
        std::fs::metadata(&path)?.len()
    );
    let status = Command::new(std::env::current_exe()?)
        .arg("--read")
        .arg(&path)
        .args(has(EVERY_INTERVAL).then_some(EVERY_INTERVAL))
        .status()?;
    ensure!(status.success(), "the reader failed");
    Ok(())
}

fn make(path: &Path, cpus: u32, count: u64) -> anyhow::Result<()> {
    let Demo {
        info, mut source, ..
    } = netto_demo::demo(Settings {
        cpus,
        seed: 1,
        period: Duration::from_nanos(INTERVAL_NS),
        frequency_hz: 1_000,
        features: netto::features::FEATURES,
        without: &["owners", "latency"],
    });
    let begin = info.started_unix_ns;
    let mut rounding = Rounding::default();
    let mut log = LogBuilder::default();
    log.push(&ServerMessage::Hello(Box::new(info)))?;
    let some: Result<Vec<Snapshot>, _> = (0..DIFFERENT).map(|_| source.next_snapshot()).collect();
    let mut some = some?;
    for sequence in 1..=count {
        let snapshot = &mut some[sequence as usize % DIFFERENT];
        snapshot.sequence = sequence;
        snapshot.time_unix_ns = begin + sequence * INTERVAL_NS;
        let message = codec::encode_snapshot(&rounding.round(snapshot))?;
        log.push_snapshot(message, snapshot.time_unix_ns)?;
    }
    Ok(std::fs::write(path, log.finish())?)
}

fn read(path: &Path, every_interval: bool) -> anyhow::Result<()> {
    let began = Instant::now();
    let files = Files::look(&[path.to_owned()])?;
    let mut summarizer = Summarizer::of("network");
    let series = match every_interval {
        true => files.series(Span::EVER),
        false => files.series_by_digests(Span::EVER),
    };
    series.for_each(|entry| {
        match entry {
            Entry::Described(info) => summarizer.describe(&info),
            Entry::Interval(snapshot) => summarizer.add(&*snapshot),
            Entry::Digest(digest) => summarizer.add(&*digest),
            Entry::Missing(gap) => summarizer.missing(&gap),
            Entry::Stacks(_) => {}
        }
        Ok::<(), anyhow::Error>(())
    })?;
    let (summary, _) = summarizer.finish().context("nothing was read")?;
    let elapsed = began.elapsed();
    let intervals = summary.covered.intervals;
    let each_us = elapsed.as_secs_f64() * 1e6 / intervals.max(1) as f64;
    println!(
        "{intervals} intervals in {:.2} s, {each_us:.1} µs each",
        elapsed.as_secs_f64()
    );
    let status = std::fs::read_to_string("/proc/self/status")?;
    for line in status.lines().filter(|line| line.starts_with("VmHWM")) {
        println!("{line}");
    }
    Ok(())
}
