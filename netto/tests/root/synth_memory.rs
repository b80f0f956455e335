//! `netto synth` reads records as a stream: what it needs follows the flows that are under way.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::child::{self, Owned};
use crate::daemon;
use crate::trial::tests;

tests! {
    synth_memory::half_a_million_flows_at_once_and_records_without_end;
}

const UNDER_WAY: u64 = 500_000;
/// Records that come and go meanwhile, and after how many of them memory is looked at.
const MORE: u64 = 6_000_000;
const STEP: u64 = 1_000_000;

/// A record of one packet or more, so many microseconds after the begin.
fn record(
    to: &mut impl Write,
    number: u64,
    at_us: (u64, u64),
    packets: u64,
) -> std::io::Result<()> {
    let [(from, from_us), (until, until_us)] =
        [at_us.0, at_us.1].map(|us| (1_500_000_000 + us / 1_000_000, us % 1_000_000));
    let (high, low) = (number / 250 % 250, number % 250);
    writeln!(
        to,
        "{from}.{from_us:06},{until}.{until_us:06},10.1.{high}.{low},192.0.2.1,{},4000,17,0,0,{packets},{}",
        1024 + number % 60_000,
        packets * 60
    )
}

/// Memory of a process that is resident, MiB.
fn resident_mib(process: &Owned) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let words = line.context("the process has no memory")?;
    let kib: u64 = words.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024)
}

fn half_a_million_flows_at_once_and_records_without_end() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let pipe = folder.path().join("records").to_string_lossy().into_owned();
    child::run(Command::new("mkfifo").arg(&pipe))?;
    let words = ["synth", &pipe, "--json", "--pcap", "/dev/null"];
    let mut synth = Owned::start(&mut daemon::command(&words))?;
    // Waits for the reader.
    let input = File::options().write(true).open(&pipe)?;
    let mut input = BufWriter::with_capacity(1 << 20, input);
    let end_us = UNDER_WAY + MORE;
    for flow in 0..UNDER_WAY {
        record(&mut input, flow, (flow, end_us), 2)?;
    }
    let mut resident = Vec::new();
    for number in 0..MORE {
        let at_us = UNDER_WAY + number;
        record(&mut input, number, (at_us, at_us), 1)?;
        if (number + 1).is_multiple_of(STEP) {
            resident.push(resident_mib(&synth)?);
        }
    }
    drop(input.into_inner()?);
    let status = synth.wait()?;
    ensure!(status.success(), "{status}: {}", synth.stderr());
    let report: Value = serde_json::from_str(&synth.stdout())?;
    println!("\n{UNDER_WAY} flows under way: {resident:?} MiB after each {STEP} records more");
    let at_once = report["most_flows_at_once"].as_u64();
    ensure!(at_once >= Some(UNDER_WAY), "{report}");
    ensure!(report["records"] == UNDER_WAY + MORE, "{report}");
    let (first, last) = (resident[0], resident[resident.len() - 1]);
    ensure!(
        last <= first + first / 20,
        "memory grows with the records: {resident:?} MiB"
    );
    Ok(())
}
