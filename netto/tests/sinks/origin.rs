//! No spelling of a path leads a page of another site to the API or a WebSocket.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::support::*;

const GUARDED: [&str; 7] = [
    "/ws",
    "/debug/pprof/profile",
    "/api/v1/info",
    "/api/v1/snapshot",
    "/api/v1/flamegraph",
    "/api/v1/history",
    "/api/v1/dump",
];

/// How one byte of a path may be written so that some reader takes it for the same.
fn spelling(byte: u8) -> impl Strategy<Value = String> {
    let plain = (byte as char).to_string();
    let swapped = if byte.is_ascii_lowercase() {
        plain.to_uppercase()
    } else {
        plain.to_lowercase()
    };
    let around = match byte {
        b'/' => vec!["//", "/./", "/x/../", "/;a=b/", "\\", "/%2e/", "/%2F"],
        _ => vec![""],
    };
    prop_oneof![
        6 => Just(plain.clone()),
        6 => Just(format!("%{byte:02x}")),
        3 => Just(format!("%{byte:02X}")),
        1 => Just(format!("%25{byte:02x}")),
        1 => Just(swapped),
        1 => Just(format!("{plain};p=1")),
        1 => prop::sample::select(around)
            .prop_map(move |text| if text.is_empty() { plain.clone() } else { text.to_owned() }),
    ]
}

fn spelled() -> impl Strategy<Value = String> {
    let path = prop::sample::select(&GUARDED[..]);
    let ending = prop::sample::select(&["", "", "", "/", "?history", "?", "#x", "%00", "%2f"][..]);
    (path, ending).prop_flat_map(|(path, ending)| {
        let bytes: Vec<_> = path.bytes().skip(1).map(spelling).collect();
        // The first byte stays: without it, it is no request of a path.
        bytes.prop_map(move |bytes| format!("/{}{ending}", bytes.concat()))
    })
}

/// The status of the answer to a request of this path, as a WebSocket or plainly.
fn status(address: SocketAddr, path: &str, origin: &str) -> u16 {
    let mut stream = connect(address);
    let upgrade = if path.to_lowercase().ends_with('s') || path.contains("history") {
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n"
    } else {
        "Connection: close\r\n"
    };
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\n{upgrade}\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    status_of(stream)
}

fn status_of(stream: TcpStream) -> u16 {
    let mut line = String::new();
    let mut reader = BufReader::new(stream.take(4096));
    reader.read_line(&mut line).expect("an answer");
    let status = line.split(' ').nth(1).unwrap_or_default();
    status.parse().unwrap_or_else(|_| panic!("{line:?}"))
}

#[test]
fn no_spelling_of_a_path_leads_around_the_check_of_origin() {
    let daemon = Daemon::start(&config(), endless());
    daemon.ready();
    let address = daemon.address;
    let mut reached = BTreeSet::new();
    let mut runner = TestRunner::new(Config {
        cases: 600,
        failure_persistence: None,
        ..Config::default()
    });
    let outcome = runner.run(&spelled(), |path| {
        let foreign = status(address, &path, "https://evil.example");
        prop_assert!(
            [400, 403, 404].contains(&foreign),
            "{} is answered with {}",
            path,
            foreign
        );
        Ok(())
    });
    outcome.expect("every spelling is refused");
    // The check is not vacuous: these spellings do lead there, from the own page.
    for path in ["/ws", "/%77s", "/%61pi/v1/info", "/api/%76%31/snapshot"] {
        assert_eq!(status(address, path, "https://evil.example"), 403, "{path}");
        let answer = status(address, path, "http://localhost");
        assert!([101, 200].contains(&answer), "{path}: {answer}");
        reached.insert(answer);
    }
    assert_eq!(reached.len(), 2, "a WebSocket and the API: {reached:?}");
}
