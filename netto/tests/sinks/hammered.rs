//! Fifty clients that repeat one request without a pause: measuring and dashboards continue.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use metrics_common::codec::ServerMessage;
use netto::config::Config;
use netto::features::FEATURES;
use netto::run;

use crate::client::Dashboard;
use crate::support::*;

const CLIENTS: usize = 50;
const PATHS: [&str; 8] = [
    "/api/v1/flamegraph",
    "/metrics",
    "/api/v1/snapshot",
    "/api/v1/info",
    "/api/v1/history?component=rx_softirq,tx_syscall&cpu=0-63",
    "/api/v1/dump",
    "/",
    "/ws",
];

/// Uses a connection until it fails; counts the answers.
fn ask(address: SocketAddr, path: &str, until: &AtomicBool, bytes: &AtomicUsize) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut buffer = vec![0; 1 << 20];
    while !until.load(Ordering::Relaxed) {
        let Ok(mut stream) = TcpStream::connect(address) else {
            continue;
        };
        // Short, so that the end of the test is noticed.
        let _ = stream.set_read_timeout(Some(Duration::from_millis(500)));
        let mut done = false;
        while !done && !until.load(Ordering::Relaxed) {
            done = stream.write_all(request.as_bytes()).is_err();
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => done = true,
                Ok(count) => _ = bytes.fetch_add(count, Ordering::Relaxed),
            }
        }
    }
}

/// Lets so many clients ask for this path while `meanwhile` runs.
fn hammer<T>(address: SocketAddr, path: &str, meanwhile: impl FnOnce() -> T) -> T {
    let until = AtomicBool::new(false);
    let bytes = AtomicUsize::new(0);
    let result = std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| ask(address, path, &until, &bytes));
        }
        let result = meanwhile();
        until.store(true, Ordering::Relaxed);
        result
    });
    assert!(bytes.into_inner() > 0, "{path} gave nothing");
    result
}

#[test]
fn stacks_are_folded_once_a_second_and_never_by_the_analyzer() {
    let source = endless();
    let witness = source.witness.clone();
    let daemon = Daemon::start(&config(), source);
    daemon.ready();
    let begun = Instant::now();
    hammer(daemon.address, "/api/v1/flamegraph", || {
        until("they are folded anew", || witness.folded() >= 3);
    });
    let most = begun.elapsed().as_secs() as usize + 1;
    assert!(witness.folded() <= most, "{} in {most} s", witness.folded());
    daemon.stop().expect("a clean end");
}

/// Waits for so many snapshots; whether none was skipped.
fn next_of(dashboard: &mut Dashboard, snapshots: usize) -> bool {
    let mut sequences = Vec::new();
    while sequences.len() < snapshots {
        match dashboard.next() {
            Ok(ServerMessage::Snapshot(snapshot)) => sequences.push(snapshot.sequence),
            Ok(_) => {}
            Err(end) => panic!("hung up: {end:?}"),
        }
    }
    sequences.windows(2).all(|pair| pair[1] == pair[0] + 1)
}

/// A large made-up host, whose pages are expensive: some 600 kB of metrics.
#[test]
fn no_interval_is_lost_and_no_dashboard_starves_while_clients_hammer() {
    const PERIOD: Duration = Duration::from_millis(250);
    /// Of each path: two seconds.
    const SNAPSHOTS: usize = 8;
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("netto.log");
    let config = Config {
        user_period: PERIOD,
        log_file: Some(log.clone()),
        ..config()
    };
    let host = netto_demo::demo(netto_demo::Settings {
        cpus: 64,
        seed: 1,
        period: PERIOD,
        frequency_hz: 1000,
        features: FEATURES,
        without: &["owners", "latency"],
    });
    let prepared = run::bind(FEATURES, &config).expect("prepared");
    let daemon = Daemon::serving(prepared, host.info, host.source);
    daemon.ready();
    let mut dashboard = Dashboard::open(daemon.address);
    for path in PATHS {
        let is_complete = hammer(daemon.address, path, || next_of(&mut dashboard, SNAPSHOTS));
        println!("{path}: the dashboard was sent each: {is_complete}");
    }
    daemon.stop().expect("a clean end");
    // How late intervals are is asked of a quiet host, by `clients::`; none is missing in the log.
    let (messages, damaged) = read_log(&log);
    assert_eq!(damaged, 0);
    let sequences = messages.iter().filter_map(|message| match message {
        ServerMessage::Snapshot(snapshot) => Some(snapshot.sequence),
        _ => None,
    });
    let sequences: Vec<u64> = sequences.collect();
    assert!(sequences.windows(2).all(|pair| pair[1] == pair[0] + 1));
}
