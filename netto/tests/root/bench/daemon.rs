//! What the daemon takes: to start, when nothing happens; memory; and how often idle CPUs are woken for it.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use metrics_common::codec::ServerMessage;
use netto_log_format::LogReader;

use super::clock::{cpu_ns, timer_interrupts};
use super::{Options, end, figure, forced};
use crate::child::Owned;
use crate::daemon::{Daemon, START_LIMIT};
use crate::lab::Network;
use crate::{child, cpus, daemon, http, traffic};

/// Of the daemon at its defaults.
const INTERVAL: Duration = Duration::from_millis(500);
/// Periods that an idle daemon is watched: of eight, one interval is made.
const TICKS: u32 = 24;
/// Time until the startup is complete, and idle CPUs are not sampled any more.
const START: Duration = Duration::from_secs(20);
/// How long CPUs are watched.
const WATCHED: Duration = Duration::from_secs(5);

/// Guests with more CPUs are asked for memory only: their time is no instructions.
const FEW_CPUS: usize = 8;
/// Time until a plan fits the load.
const SETTLED: Duration = Duration::from_secs(10);
/// Time between two scrapes, Prometheus' default, and their number.
const SCRAPED: Duration = Duration::from_secs(15);
const SCRAPES: u32 = 2;
const SELDOM_HZ: &str = "10";
const STEADY_HZ: &str = "1000";
const STEADY_PORT: u16 = 5201;
const UNUSED_PORT: u16 = 9;

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
    end(daemon)?;
    if cpus <= FEW_CPUS {
        quiet_to_steady(options)?;
    }
    Ok(())
}

fn interrupts_hz() -> Result<f64> {
    interrupts_in(|| {
        std::thread::sleep(WATCHED);
        Ok(())
    })
}

/// Timer interrupts a second while something goes on.
fn interrupts_in(go_on: impl FnOnce() -> Result<()>) -> Result<f64> {
    let (before, begun) = (timer_interrupts()?, Instant::now());
    go_on()?;
    Ok((timer_interrupts()? - before) as f64 / begun.elapsed().as_secs_f64())
}

/// What a host of few packets costs, beside none and many: netto's instructions and wake-ups a second, and the
/// host's timer interrupts, with netto and without.
fn quiet_to_steady(options: &Options) -> Result<()> {
    let network = Network::direct()?;
    let start = |load: Load| -> Result<Vec<Owned>> {
        match load {
            Load::None => Ok(Vec::new()),
            Load::Seldom => {
                // No one listens: each is answered, by ICMP.
                let to = SocketAddr::new(network.right_v4, UNUSED_PORT).to_string();
                let words = ["udp-paced", &to, SELDOM_HZ, "0"];
                Ok(vec![traffic::agent(&network.left, &words)?])
            }
            Load::Steady => {
                let to = SocketAddr::new(network.right_v4, STEADY_PORT).to_string();
                let sink = traffic::agent(&network.right, &["tcp-sink", &to])?;
                let words = ["tcp-paced", &to, STEADY_HZ, "0"];
                Ok(vec![traffic::agent(&network.left, &words)?, sink])
            }
        }
    };
    let rest = || {
        std::thread::sleep(SCRAPED * SCRAPES);
        Ok(())
    };
    for load in [Load::None, Load::Seldom, Load::Steady] {
        let name = load.name();
        let running = start(load)?;
        std::thread::sleep(SETTLED);
        let without = interrupts_in(rest)?;
        drop(running);
        let daemon = options.start(None, &[])?;
        std::thread::sleep(START);
        let running = start(load)?;
        std::thread::sleep(SETTLED);
        let (begun, before) = (Instant::now(), cpu_ns(&daemon.process)?);
        let woken = wake_ups(&daemon)?;
        let with = interrupts_in(|| {
            for _ in 0..SCRAPES {
                std::thread::sleep(SCRAPED);
                if load != Load::None {
                    http::get_ok(daemon.at, "/metrics")?;
                }
            }
            Ok(())
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        let spent_ns = (cpu_ns(&daemon.process)? - before) as f64;
        let woken = (wake_ups(&daemon)? - woken) as f64;
        drop(running);
        end(daemon)?;
        figure(&format!("{name}_cpu_ns_hz"), &[spent_ns / seconds]);
        figure(&format!("{name}_wake_ups_hz"), &[woken / seconds]);
        figure(&format!("{name}_interrupts_hz"), &[with]);
        figure(&format!("{name}_interrupts_without_hz"), &[without]);
    }
    Ok(())
}

/// What a host does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    None,
    /// A packet and its answer ten times a second, and a scrape each 15 s.
    Seldom,
    /// A thousand segments a second over one connection, and the scrapes.
    Steady,
}

impl Load {
    fn name(self) -> &'static str {
        match self {
            Load::None => "quiet",
            Load::Seldom => "seldom",
            Load::Steady => "steady",
        }
    }
}

/// How often threads of the daemon have slept so far, as often as they were woken.
fn wake_ups(daemon: &Daemon) -> Result<u64> {
    let folder = format!("/proc/{}/task", daemon.process.pid());
    let mut sum = 0;
    for entry in std::fs::read_dir(&folder).context(folder)? {
        // A thread may end meanwhile.
        let text = std::fs::read_to_string(entry?.path().join("status")).unwrap_or_default();
        let mut lines = text.lines();
        let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sum += count.map_or(Ok(0), |count| count.trim().parse::<u64>())?;
    }
    Ok(sum)
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
