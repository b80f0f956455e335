//! The history: answers from the daemon's ring, and the ring as a log.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::Command;

use metrics_common::codec::ServerMessage;
use metrics_common::component::index_of;
use netto_log_format as log;
use netto_pipeline::recent;
use socket2::{Domain, Socket, Type};

use crate::support::*;

const QUERY: &str = "/api/v1/history?component=rx_softirq";

fn numbers(value: &serde_json::Value) -> Vec<f64> {
    let list = value.as_array().expect("a list");
    list.iter().map(|n| n.as_f64().expect("a number")).collect()
}

/// Waits for the snapshot with this number.
fn reach(daemon: &Daemon, sequence: u64) {
    daemon.wait_for("/api/v1/snapshot", |answer| {
        answer.status == 200 && answer.json()["sequence"].as_u64() >= Some(sequence)
    });
}

#[test]
fn the_past_is_what_the_snapshots_were() {
    let daemon = Daemon::start(&config(), endless());
    // Ten snapshots of 50 ms are a point.
    reach(&daemon, 45);
    let answer = get(daemon.address, QUERY, &[]);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let table = answer.json();
    assert_eq!(table["resolution_seconds"], 0.5);
    let ends = numbers(&table["times"]["end_unix_seconds"]);
    let busy = numbers(&table["series"][0]["busy_cpus"]);
    assert!(ends.len() >= 4 && ends.len() == busy.len(), "{table}");
    let row = index_of("rx_softirq").expect("a component");
    for (end, busy) in ends.iter().zip(busy) {
        let last = ((end - 1_700_000_000.0) / 0.05).round() as u64;
        let both = |sequence: u64| 3 * (row as u64 * 1_000 + sequence);
        let ns: u64 = (last - 9..=last).map(both).sum();
        let expected = ns as f64 / 5e8;
        assert!((busy - expected).abs() <= 1e-6, "{busy} or {expected}");
    }
    let of_cpu = get(daemon.address, &format!("{QUERY}&cpu=1"), &[]).json();
    assert_eq!(of_cpu["series"][0]["cpu"], 1);
    assert!(of_cpu["series"][0]["share_ratio"].is_array(), "{of_cpu}");
}

#[test]
fn the_past_is_given_as_json_or_csv_and_what_is_absent_has_a_reason() {
    let daemon = Daemon::start(&config(), endless());
    reach(&daemon, 12);
    let names = format!("/api/v1/history?component=rx_softirq,{HIDDEN}");
    let table = get(daemon.address, &names, &[]).json();
    assert_eq!(table["unavailable"][0]["name"], HIDDEN);
    assert_eq!(table["unavailable"][0]["reason"], "no such function here");
    for (path, accept) in [(format!("{names}&format=csv"), "*/*"), (names, "text/csv")] {
        let answer = get(daemon.address, &path, &[("Accept", accept)]);
        let head = answer.head.to_lowercase();
        assert!(head.contains("content-type: text/csv"), "{head}");
        let text = answer.text();
        let mut lines = text.lines();
        assert_eq!(
            lines.next(),
            Some("begin_unix_seconds,end_unix_seconds,measured_seconds,rx_softirq_busy_cpus")
        );
        assert!(
            lines
                .next()
                .is_some_and(|line| line.starts_with("1700000000,")),
            "{text}"
        );
    }
}

#[test]
fn strange_questions_are_refused_with_what_to_do() {
    let daemon = Daemon::start(&config(), endless());
    daemon.ready();
    for (query, help) in [
        ("component=rx_sofirq", "rx_softirq"),
        ("component=%00%1b", "netto list"),
        ("cpu=x", "0-3,8"),
        ("from=-5", "-5m"),
        ("step=-1", "step"),
        ("what=ever", "component, cpu, from"),
        ("format=yaml", "json or csv"),
    ] {
        let answer = get(daemon.address, &format!("/api/v1/history?{query}"), &[]);
        assert_eq!(answer.status, 400, "{query}");
        assert!(answer.text().contains(help), "{query}: {}", answer.text());
    }
    let elsewhere = [("Origin", "http://evil.example")];
    for path in ["/api/v1/history", "/api/v1/owners", "/api/v1/dump"] {
        assert_eq!(get(daemon.address, path, &elsewhere).status, 403, "{path}");
    }
}

#[test]
fn owners_are_the_sum_of_the_newest_snapshots() {
    let daemon = Daemon::start(&config(), endless());
    reach(&daemon, 45);
    let answer = get(daemon.address, "/api/v1/owners?last=2s&limit=1", &[]);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let found = answer.json();
    let count = found["span"]["intervals"].as_u64().expect("a number");
    assert_eq!(count, 40, "of 50 ms: {found}");
    let end = found["span"]["end_unix_seconds"].as_f64().expect("a time");
    let last = ((end - 1_700_000_000.0) / 0.05).round() as u64;
    let received: u64 = (last - 39..=last).map(|sequence| sequence + 1_000).sum();
    assert_eq!(found["owners"][0]["label"], "web.service");
    assert_eq!(found["owners"][0]["caused_ns"], received);
    assert_eq!(found["owners"][0]["made_others_pay_ns"], 40 * 340);
    assert_eq!(found["total_ns"], received + 40 * 510, "with all others");
    for (query, help) in [
        ("last=60", "60s"),
        ("limit=x", "1 to 500"),
        ("cpu=1", "last and"),
    ] {
        let answer = get(daemon.address, &format!("/api/v1/owners?{query}"), &[]);
        assert_eq!(answer.status, 400, "{query}");
        assert!(answer.text().contains(help), "{query}: {}", answer.text());
    }
}

#[test]
fn many_questions_at_once_are_all_answered() {
    let daemon = Daemon::start(&config(), endless());
    reach(&daemon, 12);
    let address = daemon.address;
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let ask =
            |n: usize| move || get(address, &format!("/api/v1/history?step={}", n + 1), &[]).status;
        let threads: Vec<_> = (0..24).map(|n| scope.spawn(ask(n))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("an answer"))
            .collect()
    });
    assert_eq!(statuses, [200; 24]);
    let before = get(address, "/api/v1/snapshot", &[]).json()["sequence"].as_u64();
    reach(&daemon, before.expect("a number") + 2);
}

/// Runs `netto dump`; returns its exit code and output.
fn dump(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_netto"))
        .arg("dump")
        .args(arguments)
        .env_remove("NETTO_CONNECT")
        .output()
        .expect("the program runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), stderr)
}

#[test]
fn a_dump_is_a_log_of_the_very_snapshots_that_were() {
    let daemon = Daemon::start(&config(), Source::revealing(5));
    reach(&daemon, 20);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("before.log");
    let url = format!("http://{}", daemon.address);
    let file = path.to_str().expect("a path");
    let (code, stderr) = dump(&["--connect", &url, "-o", file]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("netto report"), "{stderr}");
    let (messages, damaged) = read_log(&path);
    assert_eq!(damaged, 0);
    let mut seen = BTreeMap::new();
    let mut hellos = 0;
    for message in messages {
        match message {
            ServerMessage::Hello(_) => hellos += 1,
            ServerMessage::Snapshot(snapshot) => {
                seen.insert(snapshot.sequence, snapshot);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(hellos, 2, "one for each description");
    let last = *seen.keys().next_back().expect("snapshots");
    assert!(last >= 20);
    assert!(seen.keys().copied().eq(1..=last), "all from the first on");
    for (sequence, found) in seen {
        let expected = match sequence {
            5.. => revealed(snapshot(sequence)),
            _ => snapshot(sequence),
        };
        assert_eq!(*found, expected);
    }
}

#[test]
fn a_report_on_a_dump_says_what_the_past_says_of_the_same_time() {
    let daemon = Daemon::start(&config(), endless());
    reach(&daemon, 45);
    let path = "/api/v1/history?component=rx_softirq,network&step=1000";
    let table = get(daemon.address, path, &[]).json();
    let ends = numbers(&table["times"]["end_unix_seconds"]);
    assert_eq!(ends.len(), 1, "{table}");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("before.log");
    let file = path.to_str().expect("a path");
    let url = format!("http://{}", daemon.address);
    let (code, stderr) = dump(&["--connect", &url, "--output", file]);
    assert_eq!(code, Some(0), "{stderr}");
    // The made-up time begins 20 seconds after 22:13.
    let seconds = ends[0] - 1_700_000_000.0 + 20.0;
    let to = format!("2023-11-14T22:13:{seconds:04.1}Z");
    let report = Command::new(env!("CARGO_BIN_EXE_netto"))
        .args(["report", "--format", "json", "--to", &to, file])
        .output()
        .expect("the program runs");
    assert!(report.status.success(), "{report:?}");
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert_eq!(report["host"]["hostname"], "testhost", "{report}");
    for series in table["series"].as_array().expect("series") {
        let mut rows = report["components"].as_array().expect("rows").iter();
        let row = rows
            .find(|row| row["component"] == series["name"])
            .expect("a row");
        let reported = row["cpus"].as_f64().expect("a figure");
        let charted = numbers(&series["busy_cpus"])[0];
        assert!((charted - reported).abs() < 2e-6, "{series}: {reported}");
    }
}

#[test]
fn a_server_that_never_ends_its_log_does_not_fill_the_disk() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", server.local_addr().expect("an address"));
    let endless = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().expect("a client");
        let head = b"HTTP/1.1 200 OK\r\n\r\n";
        let begun = stream.write_all(&[&head[..], log::MAGIC].concat());
        begun.expect("it reads the begin");
        while stream.write_all(&[0; 1 << 16]).is_ok() {}
    });
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("before.log");
    let file = path.to_str().expect("a path");
    let (code, stderr) = dump(&["--connect", &url, "-o", file]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("sends more than 64 MiB"), "{stderr}");
    assert!(path.metadata().expect("the begin").len() <= 64 << 20);
    endless.join().expect("it ends with its client");
}

/// Asks for a dump and takes nothing of the answer.
fn ask_and_do_not_read(address: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    socket.connect(&address.into()).expect("a connection");
    let request = b"GET /api/v1/dump HTTP/1.1\r\nHost: localhost\r\n\r\n";
    socket.send(request).expect("sent");
    socket
}

#[test]
fn unread_dumps_block_further_ones_until_they_end() {
    let daemon = Daemon::start(&config(), Source::bulky(20_000));
    // Some 9 bytes for each number, 4 MiB of them.
    reach(&daemon, 60);
    let whole = get(daemon.address, "/api/v1/dump", &[]);
    assert_eq!(whole.status, 200);
    let length = whole.body.len();
    assert!(
        length > 3 << 20 && length < recent::MOST_BYTES + (64 << 10),
        "{length}"
    );
    let idle: Vec<_> = (0..6)
        .map(|_| ask_and_do_not_read(daemon.address))
        .collect();
    let refused = daemon.wait_for("/api/v1/dump", |answer| answer.status == 503);
    assert!(
        refused.head.to_lowercase().contains("retry-after: 5"),
        "{}",
        refused.head
    );
    assert_eq!(get(daemon.address, "/healthz", &[]).status, 200);
    drop(idle);
    daemon.wait_for("/api/v1/dump", |answer| answer.status == 200);
}

#[test]
fn a_dump_that_cannot_be_had_says_why() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let nobody = format!("http://{}", free.local_addr().expect("an address"));
    drop(free);
    let (code, stderr) = dump(&["--connect", &nobody]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(
        stderr.contains("cannot reach a netto at 127.0.0.1"),
        "{stderr}"
    );
    let (code, stderr) = dump(&["--connect", "netto.example"]);
    assert_eq!(code, Some(2), "{stderr}");
    let daemon = Daemon::start(&config(), endless());
    daemon.ready();
    let url = format!("http://{}", daemon.address);
    let (code, stderr) = dump(&["--connect", &url, "-o", "/nonexistent/before.log"]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("/nonexistent/before.log"), "{stderr}");
}
