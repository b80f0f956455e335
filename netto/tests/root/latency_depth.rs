//! Latencies: more datagrams wait in a socket than netto keeps stamps of, datagrams wait in more
//! sockets than it has places for, or they do not wait at all: each of those that are read is known,
//! or counted as lost.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use metrics_common::latency::Point;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{setsockopt, sockopt};

use crate::child;
use crate::flows::{OTHER_CPU, RECEIVING_CPU, needs_two_cpus};
use crate::lab::Network;
use crate::latency::{PORT, address, kernels_count, netns};
use crate::latency_talk::Measured;
use crate::traffic;

/// Room for everything that comes while the reader rests.
const ROOM_BYTES: usize = 32 << 20;
/// A reader's rest, between which it takes all that waits.
const REST: Duration = Duration::from_millis(500);
/// Some 1,000 datagrams come in that time.
const PER_SECOND: &str = "2000";
const SENT: Duration = Duration::from_secs(4);
/// The least share of the reads of which everything is known.
const KNOWN: f64 = 0.9;

/// The agent: sleeps, and takes what waits.
pub fn read_late(at: SocketAddr, rest: Duration) -> Result<()> {
    let socket = UdpSocket::bind(at).with_context(|| format!("cannot bind {at}"))?;
    setsockopt(&socket, sockopt::RcvBufForce, &ROOM_BYTES)?;
    socket.set_nonblocking(true)?;
    let mut packet = [0; 2048];
    loop {
        std::thread::sleep(rest);
        while match socket.recv(&mut packet) {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) => return Err(error.into()),
        } {}
    }
}

pub fn more_wait_than_stamps_are_kept() -> Result<()> {
    let network = Network::direct()?;
    let to = address(&network, PORT);
    let measured = Measured::start(&["--latency-netns", &netns(&network.right)?])?;
    let rest_ms = REST.as_millis().to_string();
    let _reader = traffic::agent(&network.right, &["udp-read-late", &to, &rest_ms])?;
    let sender = traffic::agent(&network.left, &["udp-paced", &to, PER_SECOND, "0"])?;
    std::thread::sleep(SENT);
    drop(sender);
    // The reader has taken all that waits.
    let reads = child::eventually(|| {
        let count = || kernels_count(&network.right, "Udp:", "InDatagrams");
        let before = count()?;
        std::thread::sleep(REST * 2);
        let reads = count()?;
        ensure!(reads > 0 && reads == before, "{before} reads, then {reads}");
        Ok(reads)
    })?;
    let found = measured.end()?;
    found.print();
    for point in [Point::UdpSocketRead, Point::UdpReadWait] {
        let (count, lost) = (found.count(point)?, found.lost_at(point));
        println!("{point}: {count} of {reads} reads known, {lost} lost");
        ensure!(
            count + lost == reads,
            "{count} known and {lost} lost, of {reads}"
        );
        ensure!(
            count as f64 >= KNOWN * reads as f64,
            "only {count} of {reads}"
        );
        let mean_ns = found
            .of(point)
            .map_or(0, |all| all.sum_ns / all.count().max(1));
        let expected_ns = REST.as_nanos() as u64 / 2;
        // A busy host wakes the reader late.
        ensure!(
            (expected_ns / 2..expected_ns * 4).contains(&mean_ns),
            "{mean_ns} ns on average, not {expected_ns}"
        );
    }
    Ok(())
}

/// More than netto has places for.
const SOCKETS: u16 = 1500;
const FIRST_PORT: u16 = 20_000;

/// Sockets of many ports.
pub fn many(at: IpAddr) -> Result<Vec<UdpSocket>> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    let sockets = (FIRST_PORT..FIRST_PORT + SOCKETS).map(|port| {
        let socket = UdpSocket::bind((at, port))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    });
    sockets.collect()
}

/// The agent: reads what has come to them after each rest.
pub fn read_many_late(sockets: &[UdpSocket], rest: Duration) -> Result<()> {
    let mut packet = [0; 2048];
    loop {
        std::thread::sleep(rest);
        for socket in sockets {
            while socket.recv(&mut packet).is_ok() {}
        }
    }
}

/// The agent: a datagram to each of these sockets.
pub fn send_to_many(to: IpAddr) -> Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    for port in FIRST_PORT..FIRST_PORT + SOCKETS {
        socket.send_to(&[0x55; 64], (to, port))?;
    }
    Ok(())
}

pub fn more_sockets_than_places() -> Result<()> {
    let network = Network::direct()?;
    let to = network.right_v4.to_string();
    let measured = Measured::start(&["--latency-netns", &netns(&network.right)?])?;
    let _reader = traffic::agent(&network.right, &["udp-many-late", &to, "1500"])?;
    traffic::agent_to_end(&network.left, &["udp-to-many", &to])?;
    child::eventually(|| {
        let reads = kernels_count(&network.right, "Udp:", "InDatagrams")?;
        ensure!(reads == u64::from(SOCKETS), "{reads} reads");
        Ok(())
    })?;
    let found = measured.end()?;
    let by_fentry = found.method(Point::UdpSocketRead)?.contains("fentry");
    for point in [Point::UdpSocketRead, Point::UdpReadWait] {
        let (count, lost) = (found.count(point)?, found.lost_at(point));
        println!("{point}: {count} of {SOCKETS} reads known, {lost} lost");
        ensure!(
            count + lost == u64::from(SOCKETS),
            "{count} known, {lost} lost"
        );
        // Where the reader's packet is at hand, no place is needed.
        let few = if by_fentry { SOCKETS } else { 800 };
        ensure!(count >= u64::from(few), "only {count} known");
    }
    Ok(())
}

/// Datagrams, and their rate.
const AT_ONCE: Duration = Duration::from_secs(2);

/// A reader on another CPU takes each datagram as soon as it can, also before the function has
/// returned that enqueued it.
pub fn read_at_once() -> Result<()> {
    needs_two_cpus()?;
    let network = Network::direct()?;
    let to = address(&network, PORT);
    let measured = Measured::start(&["--latency-netns", &netns(&network.right)?])?;
    let cpu = RECEIVING_CPU.to_string();
    let _reader = traffic::agent(&network.right, &["on", &cpu, "udp-spin-sink", &to])?;
    let cpu = OTHER_CPU.to_string();
    let sender = traffic::agent(&network.left, &["udp-paced", &to, PER_SECOND, &cpu])?;
    std::thread::sleep(AT_ONCE);
    drop(sender);
    std::thread::sleep(REST);
    let reads = kernels_count(&network.right, "Udp:", "InDatagrams")?;
    let found = measured.end()?;
    found.print();
    ensure!(found.anomalies() == 0, "{} anomalies", found.anomalies());
    for point in [
        Point::UdpSocketEnqueued,
        Point::UdpSocketRead,
        Point::UdpReadWait,
    ] {
        let (count, lost) = (found.count(point)?, found.lost_at(point));
        println!("{point}: {count} of {reads} known, {lost} lost");
        // Elsewhere a packet may be read before it is known to have been enqueued. And while others
        // have the reader's CPU, so many wait that some share a place.
        let few = if found.method(point)?.contains("fentry") {
            reads / 200
        } else {
            reads
        };
        ensure!(
            count + lost == reads && lost <= few,
            "{point}: {count} known and {lost} lost, of {reads}"
        );
    }
    Ok(())
}
