//! Nothing that clients do delays a tick of the real measurement, or loses a stack.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use metrics_common::Snapshot;
use metrics_common::codec::ServerMessage;
use netto_log_format::LogReader;

use crate::child;
use crate::daemon::Daemon;
use crate::lab::Network;
use crate::traffic;
use crate::trial::tests;

tests! {
    clients::fifty_that_hammer_an_endpoint_delay_no_interval_and_lose_no_stack ["ip"] = hammered;
}

const CLIENTS: usize = 50;
const PERIOD_MS: u64 = 500;
/// Intervals that are looked at for each endpoint, and without any client: three seconds.
const INTERVALS: u64 = 6;
const PATHS: [&str; 9] = [
    "/api/v1/flamegraph",
    "/metrics",
    "/api/v1/snapshot",
    "/api/v1/info",
    "/api/v1/history",
    "/api/v1/dump",
    "/",
    "/ws?history",
    "/nothing",
];
/// Other work on the machine may delay an interval, too: then the same is tried again.
const ATTEMPTS: usize = 3;

/// Asks again and again, on one connection for as long as it lasts.
fn ask(at: SocketAddr, path: &str, until: &AtomicBool, requests: &AtomicU64) {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: keep-alive, Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n\r\n"
    );
    let mut chunk = vec![0; 1 << 16];
    while !until.load(Ordering::Relaxed) {
        let Ok(mut stream) = TcpStream::connect(at) else {
            continue;
        };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
        while !until.load(Ordering::Relaxed) && stream.write_all(request.as_bytes()).is_ok() {
            requests.fetch_add(1, Ordering::Relaxed);
            if !matches!(stream.read(&mut chunk), Ok(1..)) {
                break;
            }
        }
    }
}

/// Lets clients ask for a path until so many more snapshots are in the log.
fn hammer(daemon: &Daemon, log: &Path, path: &str) -> Result<Vec<Snapshot>> {
    let until = AtomicBool::new(false);
    let requests = AtomicU64::new(0);
    let taken = std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| ask(daemon.at, path, &until, &requests));
        }
        let taken = next(log);
        until.store(true, Ordering::Relaxed);
        taken
    })?;
    // A client with nothing to do but wait for a slow answer hammers enough, too.
    ensure!(
        requests.into_inner() >= CLIENTS as u64,
        "{path} was hardly asked for"
    );
    Ok(taken)
}

fn snapshots(log: &Path) -> Result<Vec<Snapshot>> {
    let reader = LogReader::new(std::fs::File::open(log)?)?;
    let mut snapshots = Vec::new();
    for message in reader {
        if let ServerMessage::Snapshot(snapshot) = message? {
            snapshots.push(*snapshot);
        }
    }
    Ok(snapshots)
}

/// The snapshots of the next intervals, without the one that has begun.
fn next(log: &Path) -> Result<Vec<Snapshot>> {
    let begun = snapshots(log)?.len();
    child::eventually(|| {
        let all = snapshots(log)?;
        ensure!(
            all.len() as u64 > begun as u64 + INTERVALS,
            "no snapshot any more"
        );
        Ok(all[begun + 1..].to_vec())
    })
}

/// How far the worst interval is from the period, as a ratio, and how many stacks were lost.
fn worst(snapshots: &[Snapshot]) -> (f64, u64) {
    let period_ns = PERIOD_MS * 1_000_000;
    let furthest_ns = snapshots
        .iter()
        .map(|snapshot| snapshot.interval_ns.abs_diff(period_ns))
        .max()
        .unwrap_or(period_ns);
    let lost = snapshots.iter().flat_map(|s| &s.cost().stacks_lost).sum();
    (furthest_ns as f64 / period_ns as f64, lost)
}

/// The highest frequency of the issue that this kernel allows.
fn frequency() -> String {
    let most = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(1000);
    10_000.min(most).to_string()
}

fn hammered() -> Result<()> {
    let network = Network::direct()?;
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("netto.log");
    let frequency = frequency();
    let options = [
        "--frequency",
        &frequency,
        "--log-flush",
        "0",
        "--log-file",
        log.to_str().context("a path")?,
    ];
    let daemon = Daemon::start(&options)?;
    let _traffic = traffic::udp(&network.left, &network.right, network.right_v4)?;
    println!();
    for path in PATHS {
        let is_good = (0..ATTEMPTS).try_fold(false, |is_good, _| {
            if is_good {
                return anyhow::Ok(true);
            }
            let (quiet, _) = worst(&next(&log)?);
            let (deviation, lost) = worst(&hammer(&daemon, &log, path)?);
            println!(
                "{frequency} Hz, {path}: worst interval {:.1} % off ({:.1} % without clients), {lost} stacks lost",
                deviation * 100.0,
                quiet * 100.0
            );
            // The promise is a tenth; where quiet intervals break that, it is the host's doing.
            Ok(deviation <= f64::max(0.1, 2.0 * quiet) && lost == 0)
        })?;
        ensure!(
            is_good,
            "intervals were late or stacks lost while {path} was hammered, {ATTEMPTS} times"
        );
    }
    let all = snapshots(&log)?;
    ensure!(
        all.windows(2)
            .all(|pair| pair[1].sequence == pair[0].sequence + 1),
        "a snapshot is missing from the log"
    );
    Ok(())
}
