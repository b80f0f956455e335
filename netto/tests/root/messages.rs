//! Messages of sockets: two processes on two hosts talk in turns, so that every message and its
//! bytes are known. What is no message between hosts is not counted.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::daemon::{Daemon, Shared};
use crate::lab::Network;
use crate::lab_itself::needs_kernel;
use crate::measure::{self, Sample};
use crate::trial::tests;
use crate::{http, traffic};

tests! {
    messages::those_between_hosts_are_counted_to_the_byte_and_looks_and_local_ones_are_not ["ip"]
        = counted;
}

/// Turns, each with a message there and one back of each protocol.
const TURNS: u64 = 2_000;
const DATAGRAM_BYTES: usize = 700;
const WRITE_BYTES: usize = 300;
const LOCAL_BYTES: usize = 900;
/// What netto, the test itself and others say meanwhile: fewer than there are messages, which would
/// be counted twice, and less than what is said locally.
const OWN_MESSAGES: f64 = 3_500.0;
const OWN_BYTES: f64 = 1_500_000.0;
/// An answer that takes longer was lost.
const LIMIT: Duration = Duration::from_secs(60);

/// The answering side.
pub struct Answerer {
    datagrams: UdpSocket,
    listener: TcpListener,
}

impl Answerer {
    pub fn bind(at: SocketAddr) -> Result<Self> {
        Ok(Answerer {
            datagrams: UdpSocket::bind(at).with_context(|| format!("cannot bind {at}"))?,
            listener: TcpListener::bind(at).with_context(|| format!("cannot bind {at}"))?,
        })
    }

    /// Looks at each datagram before it takes it.
    pub fn serve(self) -> Result<()> {
        let (mut stream, _) = self.listener.accept()?;
        stream.set_nodelay(true)?;
        let (mut datagram, mut data) = ([0; DATAGRAM_BYTES], [0; WRITE_BYTES]);
        loop {
            self.datagrams.peek_from(&mut datagram)?;
            let (_, from) = self.datagrams.recv_from(&mut datagram)?;
            self.datagrams.send_to(&datagram, from)?;
            stream.read_exact(&mut data)?;
            stream.write_all(&data)?;
        }
    }
}

/// The asking side, which also talks to itself in between.
pub fn ask(to: SocketAddr, turns: u64) -> Result<()> {
    let datagrams = UdpSocket::bind("0.0.0.0:0")?;
    datagrams.connect(to)?;
    datagrams.set_read_timeout(Some(LIMIT))?;
    let mut stream = TcpStream::connect(to).with_context(|| format!("cannot connect to {to}"))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let (mut here, mut there) = UnixStream::pair()?;
    let (mut datagram, mut data) = ([0; DATAGRAM_BYTES], [0; WRITE_BYTES]);
    let mut local = [0; LOCAL_BYTES];
    for _ in 0..turns {
        datagrams.send(&datagram)?;
        datagrams.recv(&mut datagram)?;
        stream.write_all(&data)?;
        stream.read_exact(&mut data)?;
        here.write_all(&local)?;
        there.read_exact(&mut local)?;
    }
    Ok(())
}

fn metrics(daemon: &Daemon) -> Result<Vec<Sample>> {
    measure::parse(&http::get_ok(daemon.at, "/metrics")?.body)
}

fn value(samples: &[Sample], name: &str, label: Option<(&str, &str)>) -> Result<f64> {
    let is_meant = |sample: &&Sample| {
        sample.name == name && label.is_none_or(|(key, value)| sample.label(key) == value)
    };
    let found: Vec<f64> = samples
        .iter()
        .filter(is_meant)
        .map(|sample| sample.value)
        .collect();
    ensure!(!found.is_empty(), "there is no {name}");
    Ok(found.iter().sum())
}

fn counted() -> Result<()> {
    needs_kernel(6, 3, "tracepoints at messages of sockets")?;
    let network = Network::direct()?;
    let daemon = Shared::take()?;
    let to = SocketAddr::new(network.right_v4, 5201).to_string();
    let _answerer = traffic::agent(&network.right, &["answer-messages", &to])?;
    daemon.settle()?;
    let before = metrics(&daemon)?;
    let turns = TURNS.to_string();
    traffic::agent_to_end(&network.left, &["ask-messages", &to, &turns])?;
    daemon.settle()?;
    let after = metrics(&daemon)?;
    let grown = |name: &str, label: Option<(&str, &str)>| {
        Ok::<f64, anyhow::Error>(value(&after, name, label)? - value(&before, name, label)?)
    };
    // Each turn has a datagram and a write, there and back.
    let messages = (4 * TURNS) as f64;
    let bytes = (2 * TURNS) as f64 * (DATAGRAM_BYTES + WRITE_BYTES) as f64;
    for direction in ["sent", "received"] {
        let label = Some(("direction", direction));
        let found = grown("netto_socket_messages_total", label)?;
        let found_bytes = grown("netto_socket_bytes_total", label)?;
        println!("\n{found} messages of {messages} {direction}, {found_bytes} bytes of {bytes}");
        ensure!(
            (messages..messages + OWN_MESSAGES).contains(&found),
            "{found} messages {direction}, of {messages}"
        );
        ensure!(
            (bytes..bytes + OWN_BYTES).contains(&found_bytes),
            "{found_bytes} bytes {direction}, of {bytes}"
        );
    }
    let polls = grown("netto_napi_polls_total", None)?;
    let polled = grown("netto_napi_packets_total", None)?;
    let cost = grown("netto_own_cpu_seconds_total", Some(("part", "traffic")))?;
    println!("{polls} polls found {polled} packets; counting costs {cost:.6} s");
    ensure!(polled >= messages, "{polled} packets were polled");
    ensure!(polls > 0.0, "nothing was polled");
    ensure!(cost > 0.0, "counting costs nothing");
    let shown = daemon.snapshot()?;
    let work = &shown["traffic"]["work"];
    ensure!(work["counted_ns"] == shown["interval_ns"], "{work}");
    Ok(())
}
