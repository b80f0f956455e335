//! Clients that go on listening for what is new.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use netto::config::Config;
use netto::features::FEATURES;
use netto::run;
use netto_http::websocket_client::Patience;
use serde_json::Value;

use crate::support::*;

/// A listener: an answer that goes on.
struct Listener(BufReader<TcpStream>);

impl Listener {
    /// `None` if all places are taken.
    fn open(address: SocketAddr) -> Option<Listener> {
        let mut stream = connect(address);
        let request = format!("GET /api/v1/anomalies?follow=1 HTTP/1.1\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut listener = Listener(BufReader::new(stream));
        let status = listener.line();
        let mut head = String::new();
        while let line = listener.line()
            && !line.is_empty()
        {
            head.push_str(&line.to_lowercase());
        }
        match status.as_str() {
            "HTTP/1.1 200 OK" => {
                assert!(
                    head.contains("content-type: application/x-ndjson"),
                    "{head}"
                );
                Some(listener)
            }
            "HTTP/1.1 503 Service Unavailable" => None,
            other => panic!("{other}"),
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    /// The next line, which comes in a chunk of its own.
    fn next(&mut self) -> Value {
        let length = usize::from_str_radix(&self.line(), 16).expect("the length of a chunk");
        let line = self.line();
        assert_eq!(line.len() + 1, length, "{line}");
        assert_eq!(self.line(), "");
        serde_json::from_str(&line).expect("JSON")
    }
}

#[test]
fn a_listener_gets_a_line_at_once_and_then_even_if_nothing_is_new_and_has_a_place_of_its_own() {
    let config = Config {
        max_clients: 1,
        ..config()
    };
    let patience = Patience {
        keepalive: Duration::from_millis(100),
        ..Patience::default()
    };
    let prepared = run::bind(FEATURES, &config)
        .expect("it can be prepared")
        .with_patience(patience);
    let daemon = Daemon::serving(prepared, info(), endless());
    daemon.ready();
    let mut first = Listener::open(daemon.address).expect("a place");
    let lines = [first.next(), first.next(), first.next()];
    for line in &lines {
        assert_eq!(line["changed"], Value::Array(Vec::new()), "{line}");
        assert_eq!(line["open"], Value::Array(Vec::new()), "{line}");
    }
    let number = |at: usize, name: &str| lines[at][name].as_f64().expect("a number");
    assert_eq!(number(0, "same_seconds"), 0.0);
    assert!(number(1, "same_seconds") >= 0.1 && number(2, "same_seconds") >= 0.1);
    assert!(number(0, "now_unix_seconds") < number(2, "now_unix_seconds"));
    assert!(Listener::open(daemon.address).is_none(), "all are taken");
    drop(first);
    eventually("a free place", || Listener::open(daemon.address));
    let wrong = get(daemon.address, "/api/v1/anomalies?follow=maybe", &[]);
    assert_eq!(wrong.status, 400, "{}", wrong.text());
    let now = get(daemon.address, "/api/v1/anomalies?follow=0", &[]);
    assert!(now.json()["anomalies"].is_array());
}
