//! Records stacks of this host for `tests/accuracy/recordings.rs`.
//!
//! Usage, as root, while the load of interest runs:
//! `cargo run --example record_stacks -- SECONDS "description" > netto/tests/data/NAME.stacks`
//!
//! A recording holds the symbols that its stacks touch, in the format of
//! `/proc/kallsyms`, and then one line per distinct stack: how often it was
//! seen, the kind of the per-CPU clock, and the return addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Write};
use std::time::Duration;

use anyhow::Context;
use netto_analysis::plan::{Plan, RequestedMethod};
use netto_analysis::tagged::Tags;
use netto_sys::preflight;
use netto_sys::session::{Session, quieten_libbpf};
use netto_sys::system::{Roots, kernel_release};

const FREQUENCY_HZ: u64 = 1000;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let seconds: u64 = arguments
        .next()
        .context("usage: record_stacks SECONDS DESCRIPTION")?
        .parse()?;
    let description = arguments.next().unwrap_or_default();
    quieten_libbpf();
    let roots = Roots {
        proc_root: "/proc".into(),
        sys_root: "/sys".into(),
    };
    let (facts, _) = preflight::gather(&roots, FREQUENCY_HZ)?;
    let (_session, mut readers) = Session::start(
        &Plan::new(&facts, RequestedMethod::Auto)?,
        &roots,
        FREQUENCY_HZ,
        seconds * 1000,
        Tags::None,
    )?;
    let samplers = readers
        .samplers
        .as_mut()
        .context("this host does not sample stacks")?;
    let refused = samplers.follow(&roots.online_cpus()?);
    anyhow::ensure!(refused.is_empty(), "not sampled: {refused:?}");
    std::thread::sleep(Duration::from_secs(seconds));

    let mut symbols = BTreeMap::new();
    for line in roots.kallsyms()?.lines() {
        let line = line?;
        let address = line
            .split_whitespace()
            .next()
            .and_then(|word| u64::from_str_radix(word, 16).ok());
        if let Some(address) = address.filter(|_| !line.contains(" __pfx_")) {
            symbols.entry(address).or_insert(line);
        }
    }
    let mut stacks: BTreeMap<(u8, Vec<u64>), u64> = BTreeMap::new();
    readers.stacks.drain(
        |trace| {
            *stacks
                .entry((trace.kind, trace.frames.to_vec()))
                .or_default() += 1
        },
        |_, _| {},
    );

    let mut touched = BTreeSet::new();
    for address in stacks.keys().flat_map(|(_, frames)| frames) {
        touched.extend(
            symbols
                .range(..=address)
                .next_back()
                .map(|(start, _)| *start),
        );
        touched.extend(symbols.range(address + 1..).next().map(|(start, _)| *start));
    }
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "# Linux {}: {description}; {seconds} s at {FREQUENCY_HZ} Hz",
        kernel_release()
    )?;
    for start in touched {
        writeln!(out, "{}", symbols[&start])?;
    }
    writeln!(out)?;
    for ((kind, frames), count) in stacks {
        let frames: Vec<String> = frames
            .iter()
            .map(|address| format!("{address:x}"))
            .collect();
        writeln!(out, "{count} {kind} {}", frames.join(" "))?;
    }
    Ok(())
}
