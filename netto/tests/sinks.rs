//! The whole right half of the daemon, with a made-up measurement: what goes in
//! as snapshots must come out of every sink, and nobody may hold up anybody.

mod sinks_support;

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics_common::codec::{self, ServerMessage};
use metrics_common::{COMPONENTS, CpuModes, Kind, Snapshot};
use netto::config::Config;
use netto::run;
use netto::sinks::websocket_client::Patience;
use sinks_support::*;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Message, WebSocket};

fn endless() -> Source {
    Source::new(u64::MAX, Then::GoOn)
}

/// A dashboard: a WebSocket that has been accepted.
struct Dashboard(WebSocket<TcpStream>);

impl Dashboard {
    fn open(address: SocketAddr) -> Dashboard {
        let url = format!("ws://{address}/ws");
        let (socket, _) = tungstenite::client(url, connect(address)).expect("a WebSocket");
        Dashboard(socket)
    }

    /// The next message; the close frame's code and reason when the daemon hangs up.
    fn next(&mut self) -> Result<ServerMessage, (CloseCode, String)> {
        loop {
            match self.0.read().expect("the daemon says something") {
                Message::Binary(bytes) => return Ok(codec::decode(&bytes).expect("a message")),
                Message::Close(Some(frame)) => return Err((frame.code, frame.reason.to_string())),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("unexpected: {other:?}"),
            }
        }
    }

    fn hello(&mut self) {
        let Ok(ServerMessage::Hello(found)) = self.next() else {
            panic!("the first message is no Hello");
        };
        assert_eq!(*found, info());
    }

    fn snapshot(&mut self) -> Snapshot {
        match self.next() {
            Ok(ServerMessage::Snapshot(snapshot)) => *snapshot,
            other => panic!("no snapshot: {other:?}"),
        }
    }

    /// Reads on until the daemon hangs up.
    fn farewell(&mut self) -> (Option<String>, CloseCode, String) {
        let mut bye = None;
        loop {
            match self.next() {
                Ok(ServerMessage::Bye(reason)) => bye = Some(reason),
                Ok(_) => assert!(bye.is_none(), "something follows the Bye"),
                Err((code, reason)) => return (bye, code, reason),
            }
        }
    }
}

/// Opens a dashboard as soon as a place is free.
fn open_when_free(address: SocketAddr) -> Dashboard {
    let deadline = Instant::now() + LIMIT;
    loop {
        let url = format!("ws://{address}/ws");
        if let Ok((socket, _)) = tungstenite::client(url, connect(address)) {
            return Dashboard(socket);
        }
        assert!(Instant::now() < deadline, "the place stays taken");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_api_shows_the_snapshot() {
    let daemon = Daemon::start(&config(), endless());
    daemon.ready();
    let json = get(daemon.address, "/api/v1/snapshot", &[]).json();
    let expected = snapshot(json["sequence"].as_u64().expect("a number"));
    assert_eq!(json["interval_ns"], expected.interval_ns);
    assert_eq!(json["time_unix_ns"], expected.time_unix_ns);
    for (component, row) in COMPONENTS.iter().zip(&expected.components) {
        let shown = &json["components"][component.slug];
        match row {
            Some(values) => assert_eq!(shown["cpu_ns"], serde_json::json!(values)),
            None => assert_eq!(shown["unavailable"], "no such function here"),
        }
    }
    assert_eq!(json["cpu_modes"]["host"]["steal_ns"], 16);
    assert_eq!(json["power"]["network_watts"], 10.0);

    let shown = get(daemon.address, "/api/v1/info", &[]).json();
    assert_eq!(shown, serde_json::to_value(info()).expect("Info is JSON"));
}

#[test]
fn counters_are_the_sums_of_all_snapshots() {
    let daemon = Daemon::start(&config(), endless());
    let page = daemon
        .wait_for("/metrics", |answer| {
            series(&answer.text(), "netto_snapshots_total", &[]) >= Some(5.0)
        })
        .text();
    let count = series(&page, "netto_snapshots_total", &[]).expect("a count") as u64;
    let seen: Vec<Snapshot> = (1..=count).map(snapshot).collect();
    let check = |name: &str, labels: &[(&str, &str)], expected: f64| {
        let found = series(&page, name, labels);
        let close = found.is_some_and(|found| (found - expected).abs() <= expected * 1e-9);
        assert!(
            close,
            "{name} {labels:?} is {found:?}, not {expected}\n{page}"
        );
    };
    for (cpu, column) in [("0", 0), ("1", 1)] {
        for (index, component) in COMPONENTS.iter().enumerate() {
            let event = component.parent.unwrap_or_default();
            let (name, labels): (_, &[_]) = match component.kind {
                Kind::Sum => continue,
                Kind::Timed(..) => (
                    "netto_cpu_seconds_total",
                    &[("cpu", cpu), ("event", component.slug)],
                ),
                Kind::Sampled(_) | Kind::Remainder => (
                    "netto_component_cpu_seconds_total",
                    &[
                        ("cpu", cpu),
                        ("event", event),
                        ("component", component.slug),
                    ],
                ),
            };
            if component.slug == HIDDEN {
                assert_eq!(series(&page, name, labels), None);
                continue;
            }
            let sum_ns: u64 = seen
                .iter()
                .map(|snapshot| snapshot.components[index].as_ref().expect("measured")[column])
                .sum();
            check(name, labels, sum_ns as f64 / 1e9);
        }
        for (mode, value) in CpuModes::NAMES.iter().zip([1, 2, 3, 4, 5, 6, 7, 8]) {
            check(
                "netto_cpu_mode_seconds_total",
                &[("cpu", cpu), ("mode", mode)],
                (value * count) as f64 / 1e9,
            );
        }
    }
    let count = count as f64;
    check("netto_samples_total", &[("cpu", "0")], 50.0 * count);
    check("netto_samples_lost_total", &[("cpu", "1")], 3.0 * count);
    check("netto_network_energy_joules_total", &[], 0.5 * count);
    check(
        "netto_energy_joules_total",
        &[("zone", "package-0")],
        2.0 * count,
    );
    check(
        "netto_user_cpu_seconds_total",
        &[("mode", "user")],
        1e-3 * count,
    );
    check(
        "netto_probe_attached",
        &[("probe", "softirq_entry"), ("method", "tp_btf")],
        1.0,
    );
    check(
        "netto_probe_attached",
        &[("probe", "inet_sendmsg"), ("method", "fentry")],
        0.0,
    );
    check("netto_build_info", &[("version", "9.9.9")], 1.0);
    check(
        "netto_sink_dropped_snapshots_total",
        &[("sink", "file")],
        0.0,
    );
}

#[test]
fn promtool_has_nothing_to_say() {
    let present = Command::new("promtool")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !present.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: promtool is not installed");
        return;
    }
    let daemon = Daemon::start(&config(), endless());
    daemon.ready();
    let answer = get(daemon.address, "/metrics", &[]);
    assert!(
        answer.head.contains("text/plain; version=0.0.4"),
        "{}",
        answer.head
    );
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("metrics");
    std::fs::write(&file, &answer.body).expect("a file");
    let output = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(std::fs::File::open(&file).expect("the file"))
        .output()
        .expect("promtool runs");
    let said = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success() && said.is_empty(),
        "{}",
        String::from_utf8_lossy(&said)
    );
}

#[test]
fn dashboards_and_the_log_see_the_same_snapshots() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("netto.log");
    let config = Config {
        log_file: Some(path.clone()),
        ..config()
    };
    let daemon = Daemon::start(&config, endless());
    let mut dashboards = [
        Dashboard::open(daemon.address),
        Dashboard::open(daemon.address),
    ];
    let seen: Vec<Vec<Snapshot>> = dashboards
        .iter_mut()
        .map(|dashboard| {
            dashboard.hello();
            (0..5).map(|_| dashboard.snapshot()).collect()
        })
        .collect();
    daemon.stop().expect("a clean end");

    let (messages, damaged) = read_log(&path);
    assert_eq!(damaged, 0);
    assert_eq!(
        messages.first(),
        Some(&ServerMessage::Hello(Box::new(info())))
    );
    assert_eq!(
        messages.last(),
        Some(&ServerMessage::Bye("the test is over".to_owned()))
    );
    let logged = &messages[1..messages.len() - 1];
    for (index, message) in logged.iter().enumerate() {
        let expected = snapshot(index as u64 + 1);
        assert_eq!(message, &ServerMessage::Snapshot(Box::new(expected)));
    }
    for snapshots in seen {
        for (previous, next) in snapshots.iter().zip(&snapshots[1..]) {
            assert_eq!(next.sequence, previous.sequence + 1);
        }
        for seen in snapshots {
            assert!(logged.contains(&ServerMessage::Snapshot(Box::new(seen))));
        }
    }
}

#[test]
fn the_latest_snapshot_comes_at_once() {
    // The second snapshot would come in an hour.
    let config = Config {
        user_period: Duration::from_secs(3600),
        ..config()
    };
    let daemon = Daemon::start(&config, endless());
    for path in ["/readyz", "/api/v1/snapshot"] {
        let answer = get(daemon.address, path, &[]);
        assert_eq!(answer.status, 503, "{path}");
        assert!(answer.text().contains("not ready"), "{}", answer.text());
    }
    assert_eq!(get(daemon.address, "/healthz", &[]).status, 200);
    Dashboard::open(daemon.address).hello();
    drop(daemon);

    let daemon = Daemon::start(&sinks_support::config(), Source::new(1, Then::GoOn));
    daemon.ready();
    let mut dashboard = Dashboard::open(daemon.address);
    dashboard.hello();
    assert!(dashboard.snapshot().sequence >= 1);
}

#[test]
fn a_slow_reader_skips_to_the_newest() {
    let config = Config {
        user_period: Duration::from_millis(2),
        ..config()
    };
    let daemon = Daemon::start(&config, endless());
    let mut slow = Dashboard::open(daemon.address);
    slow.hello();
    let first = slow.snapshot().sequence;
    // It sleeps until it has missed many.
    let skipped = |answer: &Answer| {
        let labels = [("sink", "websocket")];
        series(
            &answer.text(),
            "netto_sink_dropped_snapshots_total",
            &labels,
        )
    };
    daemon.wait_for("/metrics", |answer| skipped(answer) >= Some(50.0));
    let sequences: Vec<u64> = (0..8).map(|_| slow.snapshot().sequence).collect();
    assert!(sequences.is_sorted(), "{sequences:?}");
    // A few were on their way already; then it is up to date.
    assert!(sequences[4] >= first + 50, "{first}, {sequences:?}");
}

#[test]
fn a_reader_that_is_stuck_is_dropped() {
    let patience = Patience {
        no_progress: Duration::from_millis(100),
        keepalive: Duration::from_millis(20),
    };
    let prepared = run::bind(&config())
        .expect("prepared")
        .with_patience(patience);
    let daemon = Daemon::prepared(prepared, endless());
    let mut stuck = Dashboard::open(daemon.address);
    // Reading the bytes without answering any ping is no progress.
    let mut bytes = Vec::new();
    stuck
        .0
        .get_mut()
        .read_to_end(&mut bytes)
        .expect("the daemon hangs up");
    let reason = b"no progress";
    assert!(bytes.windows(reason.len()).any(|window| window == reason));

    // One that answers stays, however long it takes.
    let mut lively = Dashboard::open(daemon.address);
    lively.hello();
    let first = lively.snapshot().sequence;
    while lively.snapshot().sequence < first + 10 {}
}

#[test]
fn a_reader_that_takes_no_data_is_cut_off() {
    let patience = Patience {
        no_progress: Duration::from_millis(200),
        keepalive: Duration::from_millis(50),
    };
    let config = Config {
        max_clients: 1,
        ..config()
    };
    let prepared = run::bind(&config)
        .expect("prepared")
        .with_patience(patience);
    // Megabytes, more than the buffers between the two ends take.
    let daemon = Daemon::prepared(prepared, Source::bulky(20_000));
    daemon.ready();
    let mut deaf = Dashboard::open(daemon.address);
    // Its place becomes free although it never reads.
    open_when_free(daemon.address);
    // And the connection itself is gone, not waiting for it for ever.
    let cut = loop {
        match deaf.0.get_mut().read(&mut [0; 65536]) {
            Ok(0) => break "ended".to_owned(),
            Ok(_) => {}
            Err(error) => break error.kind().to_string(),
        }
    };
    assert!(
        ["ended", "connection reset"].contains(&cut.as_str()),
        "{cut}"
    );
}

#[test]
fn a_client_that_talks_is_hung_up_politely() {
    let daemon = Daemon::start(&config(), endless());
    for (message, expected) in [
        (Message::text("give me root"), CloseCode::Unsupported),
        (Message::binary(vec![0xc1; 16]), CloseCode::Unsupported),
        (Message::binary(vec![0; 100_000]), CloseCode::Size),
    ] {
        let mut client = Dashboard::open(daemon.address);
        client.0.send(message).expect("sent");
        let (_, code, reason) = client.farewell();
        assert_eq!(code, expected, "{reason}");
        assert!(!reason.is_empty());
    }
    // Bytes that are no frame at all.
    let mut client = Dashboard::open(daemon.address);
    std::io::Write::write_all(client.0.get_mut(), &[0xff; 64]).expect("sent");
    client.farewell();
    // A client that says goodbye, and one that just goes.
    Dashboard::open(daemon.address)
        .0
        .close(None)
        .expect("closed");
    drop(Dashboard::open(daemon.address));
    assert_eq!(get(daemon.address, "/healthz", &[]).status, 200);
    daemon.stop().expect("nobody was hurt");
}

#[test]
fn the_number_of_dashboards_is_bounded() {
    let config = Config {
        max_clients: 2,
        ..config()
    };
    let daemon = Daemon::start(&config, endless());
    let first = Dashboard::open(daemon.address);
    let _second = Dashboard::open(daemon.address);
    let upgrade = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "x3JJHMbDL1EzLkh9GBhXDw=="),
    ];
    let answer = get(daemon.address, "/ws", &upgrade);
    assert_eq!(answer.status, 503);
    assert!(answer.text().contains("--max-clients"), "{}", answer.text());
    // A place is free again when its dashboard has gone.
    drop(first);
    open_when_free(daemon.address);
}

#[test]
fn strangers_are_turned_away() {
    let config = Config {
        allowed_hosts: vec!["netto.example.com".to_owned()],
        ..config()
    };
    let daemon = Daemon::start(&config, endless());
    daemon.ready();
    let status = |path, headers: &[_]| get(daemon.address, path, headers).status;
    for path in ["/", "/metrics", "/api/v1/snapshot", "/ws"] {
        assert_eq!(status(path, &[("Host", "evil.example")]), 421, "{path}");
    }
    for host in ["testhost:10880", "netto.example.com", "[::1]:1", "10.0.0.1"] {
        assert_eq!(status("/api/v1/snapshot", &[("Host", host)]), 200, "{host}");
    }
    let from = |path, origin| status(path, &[("Host", "localhost:1"), ("Origin", origin)]);
    assert_eq!(from("/api/v1/snapshot", "http://localhost:1"), 200);
    assert_eq!(from("/api/v1/snapshot", "https://netto.example.com"), 200);
    assert_eq!(from("/api/v1/snapshot", "http://evil.example"), 403);
    assert_eq!(from("/api/v1/info", "null"), 403);
    assert_eq!(from("/ws", "http://localhost:2"), 403);
}

#[test]
fn what_cannot_be_had_is_refused_cleanly() {
    let daemon = Daemon::start(&config(), endless());
    assert_eq!(get(daemon.address, "/favicon.png", &[]).status, 404);
    assert_eq!(get(daemon.address, "/../../etc/passwd", &[]).status, 404);
    let answer = request(connect(daemon.address), "POST", "/metrics", &[]);
    assert_eq!(answer.status, 405);
    assert!(answer.head.to_lowercase().contains("allow: get, head"));
    assert_eq!(get(daemon.address, "/ws", &[]).status, 400);
    let head = request(connect(daemon.address), "HEAD", "/metrics", &[]);
    assert_eq!((head.status, head.body.len()), (200, 0));
    // Not even HTTP.
    let mut garbage = connect(daemon.address);
    std::io::Write::write_all(&mut garbage, b"\x16\x03\x01\x00\r\n\r\n").expect("sent");
    let mut answer = String::new();
    garbage.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}

#[test]
fn the_page_is_served_as_browsers_like_it() {
    let daemon = Daemon::start(&config(), endless());
    let plain = get(daemon.address, "/", &[]);
    assert_eq!(plain.status, 200);
    let head = plain.head.to_lowercase();
    assert!(head.contains("content-type: text/html"), "{head}");
    assert!(head.contains("x-content-type-options: nosniff"), "{head}");
    assert!(head.contains("'wasm-unsafe-eval'"), "{head}");
    assert!(plain.text().contains("netto"), "{}", plain.text());
    let packed = get(daemon.address, "/", &[("Accept-Encoding", "gzip")]);
    assert!(
        packed
            .head
            .to_lowercase()
            .contains("content-encoding: gzip")
    );
    assert_eq!(packed.body[..2], [0x1f, 0x8b]);
}

#[test]
fn a_measurement_that_fails_ends_the_daemon_with_its_cause() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("netto.log");
    let config = Config {
        log_file: Some(path.clone()),
        ..config()
    };
    let daemon = Daemon::start(&config, Source::new(3, Then::Fail));
    let error = format!("{:#}", daemon.outcome().expect_err("a failure"));
    assert_eq!(
        error,
        "the trace analyzer failed: the clock of CPU 1 went backwards"
    );
    // What was measured before is in the log, which ends properly.
    let (messages, _) = read_log(&path);
    assert_eq!(messages.len(), 1 + 3 + 1);
    assert_eq!(messages[4], ServerMessage::Bye(error));
}

#[test]
fn a_measurement_that_panics_ends_the_daemon_with_its_message() {
    let daemon = Daemon::start(&config(), Source::new(2, Then::Panic));
    let error = daemon.outcome().expect_err("a failure").to_string();
    assert!(error.contains("the trace analyzer panicked"), "{error}");
    assert!(error.contains("lane 7 is on fire"), "{error}");
}

#[test]
fn a_full_disk_ends_the_daemon_with_its_cause() {
    let config = Config {
        log_file: Some("/dev/full".into()),
        ..config()
    };
    let daemon = Daemon::start(&config, endless());
    let error = format!("{:#}", daemon.outcome().expect_err("a failure"));
    assert!(error.contains("/dev/full"), "{error}");
    assert!(error.contains("No space left on device"), "{error}");
}

#[test]
fn a_disk_that_does_not_answer_holds_up_nobody_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo runs").success());
    // A pipe that nobody empties stands in for the disk.
    let config = Config {
        log_file: Some(path),
        user_period: Duration::from_millis(2),
        ..config()
    };
    let daemon = Daemon::start(&config, Source::bulky(200));
    let mut dashboard = Dashboard::open(daemon.address);
    dashboard.hello();
    let page = daemon.wait_for("/metrics", |answer| {
        let labels = [("sink", "file")];
        series(
            &answer.text(),
            "netto_sink_dropped_snapshots_total",
            &labels,
        ) >= Some(20.0)
    });
    let count = series(&page.text(), "netto_snapshots_total", &[]).expect("a count");
    while (dashboard.snapshot().sequence as f64) < count {}
    let error = daemon.stop().expect_err("the log has no end").to_string();
    assert!(
        error.contains("the log file's disk does not answer"),
        "{error}"
    );
}

#[test]
fn at_the_end_dashboards_are_told_and_the_port_is_free() {
    let daemon = Daemon::start(&config(), Source::bulky(2_000));
    let mut dashboard = Dashboard::open(daemon.address);
    dashboard.hello();
    // One that does not read must not delay the end.
    let _deaf = Dashboard::open(daemon.address);
    let address = daemon.address;
    let reader = std::thread::spawn(move || dashboard.farewell());
    daemon.stop().expect("a clean end");
    let (bye, code, _) = reader.join().expect("the dashboard was told");
    assert_eq!(bye.as_deref(), Some("the test is over"));
    assert_eq!(code, CloseCode::Away);
    TcpListener::bind(address).expect("the port is free");
}

#[test]
fn sigterm_ends_it_cleanly() {
    let prepared = run::bind(&config()).expect("prepared");
    let address = prepared.local_addr().expect("an address");
    let thread = std::thread::spawn(move || prepared.serve(info(), Box::new(endless())));
    // The signal is listened for before anything is served.
    assert_eq!(get(address, "/healthz", &[]).status, 200);
    let own = std::process::id().to_string();
    let killed = Command::new("kill").args(["-TERM", &own]).status();
    assert!(killed.expect("kill runs").success());
    thread.join().expect("no panic").expect("a clean end");
}

#[test]
fn a_port_in_use_is_explained() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let listen = taken.local_addr().expect("an address");
    let error = run::bind(&Config { listen, ..config() })
        .err()
        .expect("refused");
    assert_eq!(
        error.to_string(),
        format!(
            "cannot listen on {listen}: address in use; another netto running? \
             choose another with --port"
        )
    );
    let output = netto(&["-p", &listen.port().to_string()], &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("error: cannot listen on"), "{said}");
}

#[test]
fn passwords_are_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("web.yml");
    let hash = bcrypt::hash("open sesame", 4).expect("a hash");
    std::fs::write(&file, format!("basic_auth_users:\n  ali: {hash}\n")).expect("written");
    let config = Config {
        web_config_file: Some(file),
        ..config()
    };
    let daemon = Daemon::start(&config, endless());
    for path in [
        "/",
        "/metrics",
        "/healthz",
        "/ws",
        "/api/v1/info",
        "/nothing",
    ] {
        let answer = get(daemon.address, path, &[]);
        assert_eq!(answer.status, 401, "{path}");
        assert!(
            answer
                .head
                .to_lowercase()
                .contains("www-authenticate: basic")
        );
    }
    // "ali:open sesame" and "ali:close sesame".
    let right = [("Authorization", "Basic YWxpOm9wZW4gc2VzYW1l")];
    let wrong = [("Authorization", "Basic YWxpOmNsb3NlIHNlc2FtZQ==")];
    assert_eq!(get(daemon.address, "/healthz", &right).status, 200);
    assert_eq!(get(daemon.address, "/metrics", &right).status, 200);
    assert_eq!(get(daemon.address, "/metrics", &wrong).status, 401);
}

#[test]
fn tls_is_spoken_with_the_given_certificate() {
    let folder = tempfile::tempdir().expect("a folder");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let write = |name: &str, text: String| {
        std::fs::write(folder.path().join(name), text).expect("written");
    };
    write("cert.pem", made.cert.pem());
    write("key.pem", made.signing_key.serialize_pem());
    write(
        "web.yml",
        "tls_server_config: {cert_file: cert.pem, key_file: key.pem, min_version: TLS13}"
            .to_owned(),
    );
    let config = Config {
        web_config_file: Some(folder.path().join("web.yml")),
        ..config()
    };
    let daemon = Daemon::start(&config, endless());

    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let session = rustls::ClientConnection::new(Arc::new(client), name).expect("a session");
    let stream = rustls::StreamOwned::new(session, connect(daemon.address));
    let answer = request(stream, "GET", "/healthz", &[]);
    assert_eq!(answer.status, 200);
    daemon.stop().expect("a clean end");
}

/// Runs the program itself, without the environment's settings.
fn netto(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netto"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("NETTO_")) {
        command.env_remove(name);
    }
    command
        .args(arguments)
        .envs(variables.iter().copied())
        .output()
        .expect("the program runs")
}

#[test]
fn wrong_usage_ends_with_two_and_a_short_word() {
    for arguments in [
        &["--frequenzy", "7"][..],
        &["run", "--port", "many"],
        &["--frequency", "0"],
        &["--config", "/nonexistent.toml"],
        &["check", "--log-file", "x"],
    ] {
        let output = netto(arguments, &[]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.starts_with("error: "), "{said}");
        assert!(said.lines().count() <= 2, "{said}");
        assert!(output.stdout.is_empty());
    }
    let help = netto(&["--help"], &[]);
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&help.stdout).contains("Exit codes"));
}

#[test]
fn flags_go_before_the_environment_and_that_before_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("netto.toml");
    std::fs::write(&file, "frequency = 400000\n").expect("written");
    let file = file.to_str().expect("a path");
    // Impossible values, so that the refusal tells which one was taken.
    let variable = [("NETTO_FREQUENCY", "300000")];
    for (arguments, variables, taken) in [
        (
            &["--config", file, "-f", "200000"][..],
            &variable[..],
            "not 200000",
        ),
        (&["--config", file], &variable, "not 300000"),
        (&["--config", file], &[], "not 400000"),
        (&["run"], &variable, "not 300000"),
        (&[], &[("NETTO_CONFIG", file)], "not 400000"),
        (&["check"], &[("NETTO_CONFIG", file)], "not 400000"),
    ] {
        let output = netto(arguments, variables);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(taken), "{arguments:?} {variables:?}: {said}");
    }
    // A variable that a command has no use for does not disturb it.
    let output = netto(&["list"], &[("NETTO_FREQUENCY", "99")]);
    assert_ne!(output.status.code(), Some(2), "{output:?}");
}
