//! Messages of a dashboard's WebSocket, and the handling of misbehaving dashboards.

use std::io::{Read, Write};
use std::time::Duration;

use netto::config::Config;
use netto::features::FEATURES;
use netto::run;
use netto_http::websocket_client::Patience;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{HandshakeError, Message};

use crate::client::{Dashboard, open_when_free};
use crate::support::*;

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

    let daemon = Daemon::start(&crate::support::config(), Source::new(1, Then::GoOn));
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
        no_progress: Duration::from_secs(1),
        keepalive: Duration::from_millis(50),
    };
    let prepared = run::bind(FEATURES, &config())
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

    // A dashboard that answers pings stays, however long it takes.
    let mut lively = Dashboard::open(daemon.address);
    lively.hello();
    let first = lively.snapshot().sequence;
    while lively.snapshot().sequence < first + 30 {}
}

#[test]
fn a_reader_that_takes_no_data_is_cut_off_however_much_it_talks() {
    let patience = Patience {
        no_progress: Duration::from_millis(200),
        keepalive: Duration::from_millis(50),
    };
    let config = Config {
        max_clients: 1,
        ..config()
    };
    let prepared = run::bind(FEATURES, &config)
        .expect("prepared")
        .with_patience(patience);
    // More than the kernel's buffers take between the two ends.
    let daemon = Daemon::prepared(prepared, Source::bulky(2_000_000));
    daemon.ready();
    let mut deaf = Dashboard::open(daemon.address);
    // Its place becomes free although it never reads.
    open_when_free(daemon.address);
    // And the connection itself is cut, not kept for the day when it reads.
    until("the end of the connection", || {
        deaf.0.get_mut().write_all(b"?").is_err()
    });
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
        let (_, code, reason) = client.close_message();
        assert_eq!(code, expected, "{reason}");
        assert!(!reason.is_empty());
    }
    // Bytes that are no frame at all.
    let mut client = Dashboard::open(daemon.address);
    client.0.get_mut().write_all(&[0xff; 64]).expect("sent");
    client.close_message();
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
    let url = format!("ws://{}/ws", daemon.address);
    let refused = tungstenite::client(url, connect(daemon.address));
    let Err(HandshakeError::Failure(tungstenite::Error::Http(answer))) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(answer.status(), 503);
    let body = String::from_utf8_lossy(answer.body().as_deref().unwrap_or_default());
    assert!(body.contains("--max-clients"), "{body}");
    // A place is free again when its dashboard has gone.
    drop(first);
    open_when_free(daemon.address);
}
