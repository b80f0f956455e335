//! What the daemon takes: to start, when nothing happens; memory; and how often idle CPUs are woken for it.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use metrics_common::codec::ServerMessage;
use metrics_common::log::LogReader;

use super::clock::{cpu_ns, timer_interrupts};
use super::{Options, end, figure, forced};
use crate::child::Owned;
use crate::daemon::{Daemon, START_LIMIT};
use crate::lab::Network;
use crate::{child, cpus, daemon, traffic};

/// Of the daemon at its defaults.
const INTERVAL: Duration = Duration::from_millis(500);
/// Periods that an idle daemon is watched: of eight, one interval is made.
const TICKS: u32 = 24;
/// Time until the startup is complete, and idle CPUs are not sampled any more.
const START: Duration = Duration::from_secs(20);
/// How long CPUs are watched.
const WATCHED: Duration = Duration::from_secs(5);

/// From the start to the first snapshot in the log.
pub fn start(options: &Options) -> Result<()> {
    let (mut spent, mut took) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let folder = tempfile::tempdir()?;
        let log = folder.path().join("netto.log");
        let port = child::free_port()?.to_string();
        let log_text = log.to_string_lossy();
        let mut arguments = vec!["run", "--address", "127.0.0.1", "--port", &port];
        arguments.extend(["--log-flush", "0", "--log-file", &log_text]);
        arguments.extend(options.netto.iter().map(String::as_str));
        let begun = Instant::now();
        let mut process = Owned::start(&mut daemon::command(&arguments))?;
        while !has_snapshot(&log) {
            if let Some(status) = process.try_wait()? {
                bail!("netto ended ({status}): {}", process.stderr());
            }
            ensure!(begun.elapsed() < START_LIMIT, "no snapshot in the log");
            std::thread::sleep(Duration::from_millis(1));
        }
        spent.push(cpu_ns(&process)? as f64 / 1e9);
        took.push(begun.elapsed().as_secs_f64());
        process.signal("TERM")?;
        process.wait()?;
    }
    figure("start_cpu_seconds", &spent);
    figure("start_seconds", &took);
    Ok(())
}

fn has_snapshot(log: &Path) -> bool {
    let messages = File::open(log)
        .ok()
        .and_then(|file| LogReader::new(file).ok());
    messages.is_some_and(|mut messages| {
        messages.any(|message| matches!(message, Ok(ServerMessage::Snapshot(_))))
    })
}

/// netto's CPU time on an idle host.
pub fn idle(options: &Options) -> Result<()> {
    let cpus = cpus::count()?;
    figure("idle_timer_interrupts_without_hz", &[interrupts_hz()?]);
    let daemon = options.start(None, &[])?;
    std::thread::sleep(START);
    figure("idle_timer_interrupts_hz", &[interrupts_hz()?]);
    let before = cpu_ns(&daemon.process)?;
    std::thread::sleep(INTERVAL * TICKS);
    let spent_ns = (cpu_ns(&daemon.process)? - before) as f64;
    figure(
        "idle_cpu_tick_ns",
        &[spent_ns / f64::from(TICKS) / cpus as f64],
    );
    figure("resident_mb", &[resident_bytes(&daemon)? / 1e6]);
    end(daemon)?;
    let daemon = options.start(None, &["--owners", "cgroup", "--latency"])?;
    std::thread::sleep(START);
    figure("resident_all_mb", &[resident_bytes(&daemon)? / 1e6]);
    end(daemon)
}

fn interrupts_hz() -> Result<f64> {
    let (before, begun) = (timer_interrupts()?, Instant::now());
    std::thread::sleep(WATCHED);
    Ok((timer_interrupts()? - before) as f64 / begun.elapsed().as_secs_f64())
}

fn resident_bytes(daemon: &Daemon) -> Result<f64> {
    let path = format!("/proc/{}/status", daemon.process.pid());
    let text = std::fs::read_to_string(&path).context(path)?;
    let kib: f64 = text
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .context("no VmRSS")?;
    Ok(kib * 1024.0)
}

/// Resident memory after bulk TCP, at a high frequency.
pub fn loaded(options: &Options) -> Result<()> {
    const FREQUENCY_HZ: u64 = 10_000;
    let network = Network::direct()?;
    for _ in 0..options.rounds {
        let daemon = options.start(Some(FREQUENCY_HZ), forced()?)?;
        std::thread::sleep(START);
        let load = traffic::tcp(&network.left, &network.right, network.right_v4)?;
        std::thread::sleep(8 * INTERVAL + options.warm_up);
        drop(load);
        figure("resident_loaded_mb", &[resident_bytes(&daemon)? / 1e6]);
        end(daemon)?;
    }
    Ok(())
}
