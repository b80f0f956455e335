//! The host's health on the real kernel: requests of a device are counted and timed, the page cache is
//! told from the device, and whoever asks is told the score.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::daemon::Daemon;
use crate::disks::Disk;
use crate::groups::Group;
use crate::health_price::Memory;
use crate::trial::{NotOnThisKernel, tests};
use crate::{child, http, measure};

tests! {
    health::a_host_is_scored_and_load_balancers_are_told;
    health::requests_of_a_device_are_counted_and_timed ["losetup", "mkfs.ext4", "dd"];
    health::file_systems_that_are_read_take_no_place_of_a_device ["losetup", "dd"];
    health::who_does_not_ask_gets_a_reason;
}

const READS: u64 = 1_000;
const WRITES: u64 = 300;
const BLOCK: u64 = 4_096;
/// Reads of a file, a hundred at least for each request: the kernel reads ahead.
const OF_FILE: u64 = 5_000;

fn score(daemon: &Daemon) -> Result<Value> {
    http::get_ok(daemon.at, "/api/v1/score?last=5s")?.json()
}

/// What the daemon answers to a load balancer that sends this.
fn agent_answer(at: SocketAddr, request: &str) -> Result<String> {
    let mut stream = TcpStream::connect(at)?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn a_host_is_scored_and_load_balancers_are_told() -> Result<()> {
    let agent = SocketAddr::from((Ipv4Addr::LOCALHOST, child::free_port()?));
    let told_at = agent.to_string();
    let options = [
        "--health",
        "--score-reference",
        "60000000",
        "--agent-check",
        &told_at,
    ];
    let daemon = Daemon::start(&options)?;
    // A file that something reads; on a kernel that cannot see it, there is a reason.
    let binary = std::env::current_exe()?;
    let answer = child::eventually(|| {
        fs::read(&binary)?;
        let answer = score(&daemon)?;
        let metrics = answer["metrics"].as_array().context("no metrics")?;
        ensure!(!metrics.is_empty(), "{answer}");
        Ok(answer)
    })?;
    let missing = answer["unavailable"].as_array().context("no list")?;
    let lacks = |figure: &str| missing.iter().find(|entry| entry["figure"] == figure);
    ensure!(lacks("service_time").is_none(), "{answer}");
    let lookups = daemon.snapshot()?["health"]["cache_lookups"].is_u64();
    ensure!(lookups == lacks("page_cache").is_none(), "{answer}");
    // Without connections and devices there is no score, and no weight.
    let line = agent_answer(agent, "reads\n")?;
    let is_weight = line.trim_end().strip_suffix('%');
    let weight = is_weight.map(str::parse::<u32>).transpose()?;
    ensure!(
        line == "up\n" || weight.is_some_and(|weight| (1..=100).contains(&weight)),
        "{line:?}"
    );
    let orca = agent_answer(agent, "orca\n")?;
    ensure!(
        orca.starts_with("endpoint-load-metrics: TEXT ") && orca.contains("cpu_utilization="),
        "{orca:?}"
    );
    let report = http::get_ok(daemon.at, "/api/v1/orca?last=5s")?.json()?;
    ensure!(report["mem_utilization"].is_f64(), "{report}");
    let (status, stderr) = daemon.terminate()?;
    ensure!(status.success(), "{status}: {stderr}");
    Ok(())
}

fn who_does_not_ask_gets_a_reason() -> Result<()> {
    let daemon = Daemon::start(&[])?;
    let answer = score(&daemon)?;
    let reason = answer["unavailable"].as_str().context("no reason")?;
    ensure!(reason.contains("--health"), "{reason}");
    ensure!(daemon.snapshot()?.get("health").is_none());
    Ok(())
}

/// A total of this device and direction.
fn total(daemon: &Daemon, name: &str, labels: &[(&str, &str)]) -> Result<f64> {
    let samples = measure::parse(&http::get_ok(daemon.at, "/metrics")?.body)?;
    let found = samples.iter().find(|sample| {
        let has = |(label, value): &(&str, &str)| sample.label(label) == *value;
        sample.name == name && labels.iter().all(has)
    });
    found
        .map(|sample| sample.value)
        .with_context(|| format!("no {name}"))
}

/// Completed requests, those that were timed, and seconds in the device.
fn requests(daemon: &Daemon, disk: &Disk, direction: &str) -> Result<[f64; 3]> {
    daemon.settle()?;
    let names = ["requests", "timed_requests", "service_seconds"];
    let labels = [("device", &*disk.name), ("direction", direction)];
    let mut all = [0.0; 3];
    for (place, name) in all.iter_mut().zip(names) {
        *place = total(daemon, &format!("netto_block_{name}_total"), &labels)?;
    }
    Ok(all)
}

fn dd(words: &[String]) -> Command {
    let mut dd = Command::new("dd");
    dd.args(words).arg("status=none");
    dd
}

fn requests_of_a_device_are_counted_and_timed() -> Result<()> {
    let mut disk = Disk::new()?;
    // Where nothing has mounted control groups, that comes before netto's start.
    let readers = Group::new("readers")?;
    let daemon = Daemon::start(&["--health", "--score-devices", &disk.name])?;
    let device = disk.device().display().to_string();
    for (direction, count) in [("read", READS), ("write", WRITES)] {
        let (from, to, flag) = match direction {
            "read" => (&*device, "/dev/null", "iflag=direct"),
            _ => ("/dev/zero", &*device, "oflag=direct"),
        };
        let before = requests(&daemon, &disk, direction)?;
        child::run(&mut dd(&[
            format!("if={from}"),
            format!("of={to}"),
            format!("bs={BLOCK}"),
            format!("count={count}"),
            flag.to_owned(),
            "conv=notrunc".to_owned(),
        ]))?;
        let after = requests(&daemon, &disk, direction)?;
        let grown = [0, 1, 2].map(|at| after[at] - before[at]);
        // Nobody else knows of the device.
        ensure!(
            grown[..2] == [count as f64; 2],
            "{direction}: {grown:?} of {count}"
        );
        let mean_us = 1e6 * grown[2] / count as f64;
        println!("\n{count} {direction}s: {mean_us:.0} µs each in the device");
        ensure!(mean_us > 0.0 && grown[2] < 60.0, "{grown:?}");
    }
    let expected = score(&daemon)?;
    ensure!(
        expected["writes"]["expected_seconds"].is_f64(),
        "{expected}"
    );
    from_the_page_cache(&daemon, &mut disk, &readers)
}

/// The first reading of a file waits for the device, the second does not; both are their group's.
fn from_the_page_cache(daemon: &Daemon, disk: &mut Disk, readers: &Group) -> Result<()> {
    let file = disk.mount()?.join("records");
    fs::write(&file, vec![7; (OF_FILE * BLOCK) as usize])?;
    child::run(&mut Command::new("sync"))?;
    disk.forget()?;
    let missing = score(daemon)?["unavailable"].to_string();
    if missing.contains("page_cache\"") {
        return Err(NotOnThisKernel(missing).into());
    }
    let words = [
        format!("if={}", file.display()),
        "of=/dev/null".to_owned(),
        format!("bs={BLOCK}"),
        format!("count={OF_FILE}"),
    ];
    let read = || -> Result<[f64; 2]> {
        let counts = || -> Result<[f64; 2]> {
            let [reads, ..] = requests(daemon, disk, "read")?;
            Ok([reads, total(daemon, "netto_page_cache_lookups_total", &[])?])
        };
        let before = counts()?;
        child::run(&mut readers.command(&dd(&words)))?;
        let after = counts()?;
        Ok([0, 1].map(|at| after[at] - before[at]))
    };
    let (cold, warm) = (read()?, read()?);
    println!("requests and lookups: {cold:?} without, {warm:?} with what the page cache has");
    // The file system may read something of its own.
    ensure!(cold[0] > 4.0 * warm[0], "{cold:?}, {warm:?}");
    ensure!(
        cold[1] >= OF_FILE as f64 && warm[1] >= OF_FILE as f64,
        "{cold:?}, {warm:?}"
    );
    let group = [("owner", "cgroup"), ("cgroup", readers.path())];
    let lookups = total(daemon, "netto_page_cache_cgroup_lookups_total", &group)?;
    let reads = total(daemon, "netto_block_cgroup_reads_total", &group)?;
    println!("of the group: {lookups} lookups, {reads} reads of devices");
    // Programs are files, too, and read once.
    let expected = 2.0 * OF_FILE as f64;
    ensure!(
        (expected..1.2 * expected).contains(&lookups),
        "{lookups} lookups of {expected}"
    );
    Ok(())
}

/// More than there are places for devices.
const FILE_SYSTEMS: usize = 40;

fn file_systems_that_are_read_take_no_place_of_a_device() -> Result<()> {
    let disk = Disk::new()?;
    let daemon = Daemon::start(&["--health", "--score-devices", &disk.name])?;
    // All at once: the kernel gives the number of one that is gone to the next.
    let mut mounted = Vec::new();
    for _ in 0..FILE_SYSTEMS {
        let memory = Memory::mount()?;
        let file = memory.path().join("file");
        fs::write(&file, [7; 4_096])?;
        ensure!(fs::read(&file)?.len() == 4_096);
        mounted.push(memory);
    }
    let before = requests(&daemon, &disk, "read")?;
    child::run(&mut dd(&[
        format!("if={}", disk.device().display()),
        "of=/dev/null".to_owned(),
        format!("bs={BLOCK}"),
        format!("count={READS}"),
        "iflag=direct".to_owned(),
    ]))?;
    let after = requests(&daemon, &disk, "read")?;
    let grown = [0, 1].map(|at| after[at] - before[at]);
    ensure!(
        grown == [READS as f64; 2],
        "{grown:?} of {READS} were counted and timed"
    );
    Ok(())
}
