//! Times what is done with each sampled stack (it is classified, and counted for the
//! flame graph) on recorded ones, and the reading of a symbol
//! list as long as a kernel's. Needs no root.
//!
//! Prints one line per figure: name, median, and the bounds of the middle half.
//! With `--times N` it classifies all stacks N times and prints nothing, for
//! tools that count instructions.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use anyhow::Context;
use metrics_common::random::SplitMix64;
use netto_analysis::classify::Classifier;
use netto_cost::analysis::samples::{Sample, Samples};

/// As `examples/record_stacks.rs` writes them: a title, symbols, an empty line, stacks.
const RECORDED: [&str; 4] = [
    include_str!("../tests/data/tcp6-gro.stacks"),
    include_str!("../tests/data/udp4-bridged.stacks"),
    include_str!("../tests/data/udp4-local.stacks"),
    include_str!("../tests/data/udp4-routed-nat.stacks"),
];
/// A kernel with its modules has about as many symbols; recordings name only what they met.
const OTHER_SYMBOLS: u64 = 200_000;
/// Where those may be without touching the recorded ones.
const OTHER_START: u64 = 0xffff_ffff_c000_0000;
const PASSES: usize = 300;
const READINGS: usize = 9;

/// What was recorded at once, with a classifier that knows the kernel of that moment.
struct Recording {
    classifier: Classifier,
    samples: Samples,
    stacks: Vec<(u8, Vec<u64>)>,
}

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let times = words
        .iter()
        .position(|word| word == "--times")
        .and_then(|at| words.get(at + 1)?.parse::<u32>().ok());
    let mut recordings = RECORDED
        .iter()
        .map(|text| recording(text))
        .collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(times) = times {
        for _ in 0..times {
            black_box(classify(&mut recordings));
        }
        return Ok(());
    }

    let stacks: usize = recordings.iter().map(|r| r.stacks.len()).sum();
    let frames: usize = recordings
        .iter()
        .flat_map(|r| &r.stacks)
        .map(|(_, frames)| frames.len())
        .sum();
    let mut passes_us = Vec::new();
    for _ in 0..PASSES {
        let begun = Instant::now();
        black_box(classify(&mut recordings));
        passes_us.push(begun.elapsed().as_secs_f64() * 1e6 / stacks as f64);
    }
    let symbols = long_list(RECORDED[0])?;
    let mut readings_ms = Vec::new();
    for _ in 0..READINGS {
        let begun = Instant::now();
        black_box(Classifier::new(symbols.as_bytes())?);
        readings_ms.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    show("classify_us", passes_us);
    show("symbols_ms", readings_ms);
    show("frames", vec![frames as f64 / stacks as f64]);
    show("stacks", vec![stacks as f64]);
    Ok(())
}

/// Classifies and counts all stacks, as an interval's; how many there were.
fn classify(recordings: &mut [Recording]) -> u64 {
    let mut taken = 0;
    for recording in recordings {
        let Recording {
            classifier,
            samples,
            stacks,
        } = recording;
        samples.begin();
        for (kind, frames) in stacks {
            samples.add(
                classifier,
                Sample {
                    cpu: 0,
                    kind: *kind,
                    is_idle_task: false,
                    frames,
                },
            );
        }
        taken += samples.of_cpu(0).taken();
    }
    taken
}

fn show(name: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let at = |quarter: usize| values[(values.len() - 1) * quarter / 4];
    println!("{name} {} {} {}", at(2), at(1), at(3));
}

/// Symbols and stacks of a recording.
fn parts(text: &str) -> anyhow::Result<(&str, &str)> {
    let (head, stacks) = text.split_once("\n\n").context("no stacks")?;
    let (_, symbols) = head.split_once('\n').context("no symbols")?;
    Ok((symbols, stacks))
}

/// Every stack as often as it was seen, mixed up as they would come.
fn recording(text: &str) -> anyhow::Result<Recording> {
    let (symbols, lines) = parts(text)?;
    let mut stacks = Vec::new();
    for line in lines.lines() {
        let mut words = line.split_whitespace();
        let count: u32 = words.next().context("no count")?.parse()?;
        let kind: u8 = words.next().context("no kind")?.parse()?;
        let frames = words
            .map(|word| u64::from_str_radix(word, 16))
            .collect::<Result<Vec<_>, _>>()?;
        stacks.extend((0..count).map(|_| (kind, frames.clone())));
    }
    let mut random = SplitMix64(1);
    for last in (1..stacks.len()).rev() {
        stacks.swap(last, random.below(last as u64 + 1) as usize);
    }
    Ok(Recording {
        classifier: Classifier::new(symbols.as_bytes())?,
        samples: Samples::new(1, 0),
        stacks,
    })
}

/// The recorded symbols among as many others as a kernel has.
fn long_list(text: &str) -> anyhow::Result<String> {
    let (symbols, _) = parts(text)?;
    let mut list = format!("{symbols}\n");
    for index in 0..OTHER_SYMBOLS {
        writeln!(
            list,
            "{:x} t some_other_function_{index}",
            OTHER_START + index * 0x100
        )?;
    }
    Ok(list)
}
