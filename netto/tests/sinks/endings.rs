//! The end of the daemon: on request, or because a part of it failed.

use std::io::Write as _;
use std::net::TcpListener;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use actix_web::web::Bytes;

use metrics_common::codec::ServerMessage;
use netto::config::Config;
use netto::features::FEATURES;
use netto::run::{self, Prepared};
use netto_log::log_writer::LogStore;
use netto_metrics::prometheus::{Form, Targets};
use tungstenite::protocol::frame::coding::CloseCode;

use crate::client::Dashboard;
use crate::support::*;

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
    // The log has all earlier snapshots, and is complete.
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

fn prepared(config: &Config) -> Prepared {
    run::bind(FEATURES, config).expect("prepared")
}

/// A disk that is full.
struct Full;

impl LogStore for Full {
    fn prepare(&mut self) -> anyhow::Result<bool> {
        Ok(false)
    }

    fn append(&mut self, _: &[u8]) -> anyhow::Result<bool> {
        anyhow::bail!("there is no room")
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// A disk that does not answer. No real one is used: a process that waits for a file system that is
/// frozen or suspended cannot be ended.
struct Silent(mpsc::Receiver<()>);

impl LogStore for Silent {
    fn prepare(&mut self) -> anyhow::Result<bool> {
        Ok(false)
    }

    fn append(&mut self, _: &[u8]) -> anyhow::Result<bool> {
        self.0.recv()?;
        Ok(true)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

#[test]
fn a_disk_that_stays_full_ends_nothing_and_is_told_at_the_end() {
    let daemon = Daemon::prepared(prepared(&config()).with_log_store(Full), endless());
    let mut dashboard = Dashboard::open(daemon.address);
    dashboard.hello();
    while dashboard.snapshot().sequence < 10 {}
    let error = format!("{:#}", daemon.stop().expect_err("the log has no end"));
    assert!(error.contains("no room"), "{error}");
    assert!(error.contains("snapshots are not in it"), "{error}");
}

#[test]
fn a_disk_that_does_not_answer_delays_nothing_else() {
    let config = Config {
        user_period: Duration::from_millis(2),
        ..config()
    };
    // Ends with the test.
    let (_answer, waits) = mpsc::channel();
    let prepared = prepared(&config).with_log_store(Silent(waits));
    let daemon = Daemon::prepared(prepared, Source::bulky(10_000));
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
    let daemon = Daemon::start(&config(), Source::bulky(100_000));
    let mut dashboard = Dashboard::open(daemon.address);
    dashboard.hello();
    // A client that does not read must not delay the end.
    let _deaf = Dashboard::open(daemon.address);
    let address = daemon.address;
    let reader = std::thread::spawn(move || dashboard.close_message());
    daemon.stop().expect("a clean end");
    let (bye, code, _) = reader.join().expect("the dashboard was told");
    assert_eq!(bye.as_deref(), Some("the test is over"));
    assert_eq!(code, CloseCode::Away);
    TcpListener::bind(address).expect("the port is free");
}

/// Further hosts, whose list does not come once it is stuck.
struct Stuck {
    is_stuck: AtomicBool,
    forever: Mutex<mpsc::Receiver<()>>,
}

impl Targets for Stuck {
    fn names(&self) -> Vec<&str> {
        if self.is_stuck.load(Ordering::Relaxed) {
            let forever = self.forever.lock().expect("no panic");
            // Its sender goes with the test.
            let _ = forever.recv();
        }
        Vec::new()
    }

    fn page(&self, _: &str, _: Form) -> Option<Bytes> {
        None
    }
}

#[test]
fn an_answer_that_never_comes_does_not_delay_the_end_forever() {
    let (_until_the_end, forever) = mpsc::channel();
    let hosts = Arc::new(Stuck {
        is_stuck: AtomicBool::new(false),
        forever: Mutex::new(forever),
    });
    let prepared = prepared(&config()).with_targets(hosts.clone());
    let daemon = Daemon::prepared(prepared, endless());
    daemon.ready();
    hosts.is_stuck.store(true, Ordering::Relaxed);
    let mut asking = connect(daemon.address);
    asking
        .write_all(b"GET /hosts HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .expect("it takes the request");
    // Whoever serves is stuck now.
    until("the list is asked for", || {
        hosts.forever.try_lock().is_err()
    });
    let (sender, ended) = mpsc::channel();
    std::thread::spawn(move || sender.send(daemon.stop()));
    let end = ended.recv_timeout(Duration::from_secs(30));
    end.expect("it ends").expect("a clean end");
}

#[test]
fn sigterm_ends_it_cleanly() {
    let prepared = prepared(&config());
    let address = prepared.local_addr().expect("an address");
    let thread = std::thread::spawn(move || prepared.serve(info(), Box::new(endless())));
    // The signal is listened for before anything is served.
    assert_eq!(get(address, "/healthz", &[]).status, 200);
    let pid = std::process::id().to_string();
    let killed = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(killed.expect("kill runs").success());
    thread.join().expect("no panic").expect("a clean end");
}
