//! Times the classification of recorded stacks, and the reading of a symbol
//! list as long as a kernel's. Needs no kernel and no root.
//!
//! Prints one line per figure: name, median, and the bounds of the middle half.
//! With `--times N` it classifies all stacks N times and prints nothing, for
//! tools that count instructions.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use anyhow::Context;
use metrics_common::Source;
use netto::analysis::classify::Classifier;

const RECORDED: &str = include_str!("stacks.txt");
/// A kernel with its modules has about as many symbols.
const SYMBOLS: u64 = 200_000;
/// Distance between functions, bytes: the mean of a real kernel's.
const FUNCTION_BYTES: u64 = 0x140;
const TEXT_START: u64 = 0xffff_ffff_8100_0000;
const PASSES: usize = 300;
const READINGS: usize = 9;

/// One stack as the sampler would hand it over.
struct Stack {
    kind: u8,
    frames: Vec<u64>,
}

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let times = words
        .iter()
        .position(|word| word == "--times")
        .and_then(|at| words.get(at + 1)?.parse::<u32>().ok());
    let kernel = Kernel::new();
    let stacks = kernel.stacks()?;
    let text = kernel.kallsyms();
    let mut classifier = Classifier::new(text.as_bytes())?;
    if let Some(times) = times {
        for _ in 0..times {
            black_box(classify(&mut classifier, &stacks));
        }
        return Ok(());
    }

    let mut readings_ms = Vec::new();
    for _ in 0..READINGS {
        let begun = Instant::now();
        black_box(Classifier::new(text.as_bytes())?);
        readings_ms.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    let mut passes_us = Vec::new();
    for _ in 0..PASSES {
        let begun = Instant::now();
        black_box(classify(&mut classifier, &stacks));
        passes_us.push(begun.elapsed().as_secs_f64() * 1e6 / stacks.len() as f64);
    }
    let frames: usize = stacks.iter().map(|stack| stack.frames.len()).sum();
    show("classify_us", passes_us);
    show("symbols_ms", readings_ms);
    show("frames", vec![frames as f64 / stacks.len() as f64]);
    show("stacks", vec![stacks.len() as f64]);
    show(
        "found_ratio",
        vec![classify(&mut classifier, &stacks) as f64 / stacks.len() as f64],
    );
    Ok(())
}

/// Classifies all stacks; how many belong to a component.
fn classify(classifier: &mut Classifier, stacks: &[Stack]) -> usize {
    stacks
        .iter()
        .filter(|stack| classifier.classify(stack.kind, &stack.frames).is_some())
        .count()
}

fn show(name: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let at = |quarter: usize| values[(values.len() - 1) * quarter / 4];
    println!("{name} {} {} {}", at(2), at(1), at(3));
}

/// A kernel that has the recorded functions among many others.
struct Kernel {
    /// Address of each recorded function.
    addresses: BTreeMap<&'static str, u64>,
}

impl Kernel {
    fn new() -> Kernel {
        let mut addresses = BTreeMap::new();
        for (_, _, names) in recorded() {
            for name in names {
                addresses.insert(name, 0);
            }
        }
        // Spread over the whole text, as they are in a real one.
        let step = SYMBOLS / addresses.len().max(1) as u64;
        for (index, address) in addresses.values_mut().enumerate() {
            *address = TEXT_START + index as u64 * step * FUNCTION_BYTES;
        }
        Kernel { addresses }
    }

    fn kallsyms(&self) -> String {
        let names: BTreeMap<u64, &str> = self.addresses.iter().map(|(n, a)| (*a, *n)).collect();
        let mut text = String::new();
        for index in 0..SYMBOLS {
            let address = TEXT_START + index * FUNCTION_BYTES;
            // Writing to a String cannot fail.
            let _ = match names.get(&address) {
                Some(name) => writeln!(text, "{address:x} t {name}"),
                None => writeln!(text, "{address:x} t some_function_number_{index}"),
            };
        }
        text
    }

    /// Every stack as often as it was seen, mixed up. Where a function was
    /// executing differs each time; where it calls another does not.
    fn stacks(&self) -> anyhow::Result<Vec<Stack>> {
        let mut dice = Dice(0x2545_f491_4f6c_dd1d);
        let mut stacks = Vec::new();
        for (count, kind, names) in recorded() {
            let mut starts = Vec::new();
            for name in names {
                starts.push(*self.addresses.get(name).context("an unknown function")?);
            }
            for _ in 0..count {
                let mut frames: Vec<u64> = starts
                    .iter()
                    .zip(starts.iter().skip(1).chain([&0]))
                    .map(|(start, caller)| {
                        start + 1 + (start ^ (caller >> 3)) % (FUNCTION_BYTES - 1)
                    })
                    .collect();
                if let (Some(leaf), Some(start)) = (frames.first_mut(), starts.first()) {
                    *leaf = start + dice.below(FUNCTION_BYTES);
                }
                stacks.push(Stack { kind, frames });
            }
        }
        for last in (1..stacks.len()).rev() {
            stacks.swap(last, dice.below(last as u64 + 1) as usize);
        }
        Ok(stacks)
    }
}

/// Count, clock kind and functions of each recorded stack.
fn recorded() -> impl Iterator<Item = (u32, u8, impl Iterator<Item = &'static str>)> {
    RECORDED.lines().filter_map(|line| {
        let mut words = line.splitn(3, ' ');
        let count = words.next()?.parse().ok()?;
        let kind = match words.next()? {
            "softirq" => Source::Softirq(3).clock_kind(),
            _ => 0,
        };
        Some((count, kind, words.next()?.split(" < ")))
    })
}

/// Numbers that look random and are the same each time (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
