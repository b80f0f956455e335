//! What a report says is what was measured: by the log's snapshots, and by what the daemon
//! answered while it wrote the log.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Cursor};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use metrics_common::COMPONENTS;
use netto_log_format::LogIndex;
use netto_questions::times::Rfc3339;
use serde_json::Value;

use super::files::*;
use crate::http;

#[test]
fn the_sums_of_a_report_are_those_of_the_snapshots() {
    let (_folder, path, snapshots) = log(3, 120);
    let report = report(&path, &[]);
    for component in COMPONENTS {
        let expected = match component.slug {
            // The made-up host does not have it.
            "nf_ingress" => None,
            slug => Some(sum_ns(&snapshots, slug)),
        };
        assert_eq!(
            reported_ns(&report, component.slug),
            expected,
            "{}",
            component.slug
        );
    }
    assert_eq!(report["covered"]["intervals"], 120);
    assert_eq!(report["covered"]["measured_ns"], 120 * INTERVAL_NS);
    let capacity = 3.0 * 120.0 * INTERVAL_NS as f64;
    let share = report["headline"]["share_ratio"]["mean"]
        .as_f64()
        .expect("a number");
    assert!((share - sum_ns(&snapshots, "network") as f64 / capacity).abs() < 1e-12);
    let reason = report["components"].as_array().expect("a list");
    let lacking = reason
        .iter()
        .find(|c| c["component"] == "nf_ingress")
        .expect("it is there");
    assert!(
        lacking["unavailable"]
            .as_str()
            .expect("a reason")
            .contains("CONFIG_NETFILTER")
    );
}

#[test]
fn a_span_some_cpus_and_a_component_are_what_their_options_say() {
    let (_folder, path, snapshots) = log(4, 240);
    let spans = report(
        &path,
        &["--from", "12:00:30", "--to", "2026-05-01T12:01:00Z"],
    );
    assert_eq!(
        reported_ns(&spans, "gro"),
        Some(sum_ns(&snapshots[60..120], "gro"))
    );
    let last = report(&path, &["--last", "15s"]);
    assert_eq!(last["covered"]["intervals"], 30);
    assert_eq!(
        reported_ns(&last, "gro"),
        Some(sum_ns(&snapshots[210..], "gro"))
    );
    let cpus = report(&path, &["--cpus", "1,3"]);
    let rx = metrics_common::component::index_of("rx_softirq").expect("a component");
    let expected: u64 = snapshots
        .iter()
        .filter_map(|s| s.cost().cpu_ns(rx))
        .map(|row| row[1] + row[3])
        .sum();
    assert_eq!(reported_ns(&cpus, "rx_softirq"), Some(expected));
    let about = report(&path, &["--component", "rx_softirq"]);
    assert_eq!(
        about["headline"]["cpu_ns"].as_u64(),
        Some(sum_ns(&snapshots, "rx_softirq"))
    );
}

/// Whether two reports say the same; sums of energy were added in another order.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(name, a)| b.get(name).is_some_and(|b| is_same(a, b)))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        _ => match (a.as_f64(), b.as_f64()) {
            (Some(x), Some(y)) if a.is_f64() => (x - y).abs() <= 1e-12 * y.abs(),
            _ => a == b,
        },
    }
}

#[test]
fn by_digests_a_report_says_what_it_says_by_every_interval() {
    let (_folder, path, snapshots) = log(3, 2_000);
    for options in [
        &[][..],
        &["--component", "rx_softirq"],
        &["--component", "gro"],
        &["--from", "12:01:00", "--to", "12:14:30"],
        &["--last", "12m"],
        &["--cpus", "1"],
    ] {
        let every = [options, &["--every-interval"]].concat();
        let (by_digests, by_intervals) = (report(&path, options), report(&path, &every));
        assert!(
            is_same(&by_digests, &by_intervals),
            "{options:?}: {by_digests:#} {by_intervals:#}"
        );
        for format in ["table", "svg"] {
            let shown = |options: &[&str]| {
                let arguments = ["report", text(&path), "--format", format];
                stdout_of(&[&arguments, options].concat())
            };
            assert_eq!(shown(options), shown(&every), "{format} {options:?}");
        }
    }
    // Checks that digests are read at all, without looking at the covered blocks.
    let mut bytes = std::fs::read(&path).expect("read");
    let index = LogIndex::of(&mut Cursor::new(&bytes)).expect("a log");
    let block = index.parts()[5];
    bytes[(block.offset + block.bytes / 2) as usize] ^= 0xff;
    std::fs::write(&path, &bytes).expect("written");
    let found = report(&path, &[]);
    assert_eq!(found["covered"]["intervals"], 2_000);
    assert_eq!(found["files"]["damaged_stretches"], 0);
    assert_eq!(reported_ns(&found, "gro"), Some(sum_ns(&snapshots, "gro")));
    let every = report(&path, &["--every-interval"]);
    assert_eq!(every["files"]["damaged_stretches"], 1);
}

#[test]
fn a_report_is_one_screen_and_names_what_matters() {
    let (_folder, path, _) = log(16, 240);
    let table = stdout_of(&["report", text(&path)]);
    // A made-up host has something to say of every feature.
    assert!(table.lines().count() <= 69, "{table}");
    // A reason is as long as it must be.
    let (screen, _) = table.split_once("Not measured").expect("it is there");
    assert!(screen.lines().count() <= 40, "{table}");
    let widest = screen.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(110), "{table}");
    for part in [
        "Demonstration",
        "demo-16",
        "16 CPUs",
        "Networking",
        "p95",
        "RX softirq",
        "Busiest CPUs",
        "Peaks",
        "Energy",
        "netto itself",
        "Lost samples",
        "Gaps              none",
        "Not measured",
        "Per packet",
        "Per message",
        "Per gigabit",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
}

/// A daemon that logs, killed by its own number when dropped.
struct Daemon(Child, SocketAddr);

impl Daemon {
    fn start(log: &std::path::Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_netto"))
            .args([
                "demo",
                "--cpus",
                "4",
                "--port",
                "0",
                "--user-period",
                "250",
                // To be compared to the nanosecond.
                "--log-exact",
                "--log-file",
            ])
            .arg(log)
            .stderr(Stdio::piped())
            .spawn()
            .expect("netto starts");
        let stderr = child.stderr.take().expect("it is piped");
        // Owned before anything can go wrong.
        let mut daemon = Daemon(child, SocketAddr::from(([127, 0, 0, 1], 0)));
        let lines = BufReader::new(stderr).lines();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = receiver
                .recv_timeout(left)
                .expect("it says where it listens");
            let address = line
                .split(|c: char| c.is_whitespace() || c == '/')
                .find_map(|word| word.parse::<SocketAddr>().ok());
            if let Some(address) = address {
                daemon.1 = address;
                return daemon;
            }
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_report_agrees_with_what_the_daemon_answered_in_the_same_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("netto.log");
    let daemon = Daemon::start(&path);
    let mut answers: BTreeMap<u64, Value> = BTreeMap::new();
    let deadline = Instant::now() + Duration::from_secs(60);
    // The longest run of answers without one missed, of a machine that may be busy.
    let whole = loop {
        assert!(Instant::now() < deadline, "too busy to be asked");
        if let Ok(answer) = http::get_ok(daemon.1, "/api/v1/snapshot").and_then(|a| a.json()) {
            answers.insert(answer["sequence"].as_u64().expect("a number"), answer);
        }
        let sequences: Vec<u64> = answers.keys().copied().collect();
        let run = sequences
            .chunk_by(|a, b| a + 1 == *b)
            .max_by_key(|run| run.len());
        if let Some(run) = run.filter(|run| run.len() >= 8) {
            break run.to_vec();
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    // The log has them when it has one more.
    std::thread::sleep(Duration::from_secs(1));
    let pid = daemon.0.id().to_string();
    let killed = Command::new("kill").args(["-s", "TERM", &pid]).status();
    assert!(killed.expect("kill runs").success());
    let mut daemon = daemon;
    daemon.0.wait().expect("it ends");
    let of = |sequence: &u64| &answers[sequence];
    let time = |sequence: &u64| of(sequence)["time_unix_ns"].as_u64().expect("a time");
    let from = Rfc3339(time(&whole[0]) - 1).to_string();
    let to = Rfc3339(time(&whole[whole.len() - 1])).to_string();
    let report = report(&path, &["--from", &from, "--to", &to]);
    assert_eq!(
        report["covered"]["intervals"].as_u64(),
        Some(whole.len() as u64)
    );
    for component in COMPONENTS {
        let total = |sequence| of(sequence)["components"][component.slug]["total_ns"].as_u64();
        let expected: Option<u64> = whole.iter().map(total).sum();
        assert_eq!(
            reported_ns(&report, component.slug),
            expected,
            "{}",
            component.slug
        );
    }
    for (of_snapshot, of_report) in [
        ("network_energy_joules", "network_joules"),
        ("network_capacity_energy_joules", "network_capacity_joules"),
    ] {
        let joules = |sequence| of(sequence)["power"][of_snapshot].as_f64();
        let expected: f64 = whole.iter().filter_map(joules).sum();
        let found = report["power"][of_report].as_f64().expect("a number");
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    }
}
