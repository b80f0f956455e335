//! Bulk TCP with something beside it and without: one stream that never ends, its two ends on one
//! CPU, in the order A B B A. The median of the pairs' differences has an
//! interval; only that says whether there is a difference at all.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::lab::{Lab, Owned};
use super::load;
use super::present::Variant;
use super::table::{Interval, Row, Table};

/// How long bytes are counted, each time.
const COUNTED: Duration = Duration::from_millis(1500);
/// Between what is attached or taken away and the counting.
const SETTLE: Duration = Duration::from_millis(300);
/// What may be lost at the defaults.
const AIM: &str = "≤ 1.5 %";

/// What is measured, and how.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// The daemon.
    pub netto: &'a Path,
    /// The root tests, an agent of which opens perf's clock.
    pub tests: &'a Path,
    /// More options for the daemon.
    pub netto_args: &'a str,
    /// Pairs for each comparison.
    pub pairs: usize,
    /// How long the daemon gets used to the stream.
    pub warm_up: Duration,
}

/// Measures; what the document says of before is kept.
pub fn measure(lab: &Lab, options: &Options<'_>, document: &str) -> Result<Vec<Table>> {
    let words = |more: &str| -> Vec<String> {
        let all = [more, options.netto_args].join(" ");
        all.split_whitespace().map(str::to_owned).collect()
    };
    let (default, sampling) = (words(""), words("--method sampling"));
    let beside = [
        ("nothing against nothing", Variant::Nothing, ""),
        (
            "netto at the defaults",
            Variant::NettoWith(1_000, &default),
            AIM,
        ),
        (
            "netto `--method sampling`",
            Variant::NettoWith(1_000, &sampling),
            "",
        ),
        ("netto at 10 kHz", Variant::NettoWith(10_000, &default), ""),
        (
            "perf's clock at 1 kHz with no program at all",
            Variant::Clock(options.tests, 1_000),
            "",
        ),
        (
            "perf's clock at 250 Hz with no program at all",
            Variant::Clock(options.tests, 250),
            "",
        ),
    ];
    let stream = load::bulk(lab)?;
    let mut gbps = Vec::new();
    let mut rows = Vec::new();
    for (what, variant, aim) in beside {
        eprintln!("xtask: bulk TCP, {what}, {} pairs", options.pairs);
        let mut lost = Vec::new();
        while lost.len() < options.pairs {
            let before = count(&stream)?;
            let present = variant.begin(options.netto, Path::new(""))?;
            let warm_up = match variant {
                Variant::NettoWith(..) => options.warm_up,
                _ => SETTLE,
            };
            std::thread::sleep(warm_up);
            let with = [count(&stream)?, count(&stream)?];
            present.end();
            std::thread::sleep(SETTLE);
            let after = count(&stream)?;
            for (with, without) in with.iter().zip([before, after]) {
                lost.push(100.0 * (1.0 - with / without));
                gbps.push(without);
            }
        }
        let row = Row::of_pairs(&format!("lost, {what}"), Interval::of(&lost), "%");
        eprintln!("xtask: {}: {}", row.what, row.now);
        rows.push(row.aim(aim));
    }
    let without = Interval::of(&gbps);
    rows.insert(
        0,
        Row::of_pairs("throughput with nothing beside", without, "Gbit/s"),
    );
    Ok(vec![Table::new(
        "Bulk TCP, one stream, both ends pinned",
        rows,
        document,
    )])
}

/// Gbit/s that the receiver's device sees.
fn count(stream: &[Owned; 2]) -> Result<f64> {
    let (before, begun) = (received_bytes(stream)?, Instant::now());
    std::thread::sleep(COUNTED);
    let bytes = received_bytes(stream)? - before;
    Ok(bytes as f64 * 8.0 / 1e9 / begun.elapsed().as_secs_f64())
}

/// By the kernel's account of the namespace that the receiver is in.
fn received_bytes([server, _]: &[Owned; 2]) -> Result<u64> {
    let path = format!("/proc/{}/net/dev", server.0.id());
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    text.lines()
        .find_map(|line| line.trim_start().strip_prefix("lan:"))
        .and_then(|counts| counts.split_whitespace().next()?.parse().ok())
        .with_context(|| format!("{path} does not tell what `lan` received"))
}
