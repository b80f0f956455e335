//! Latencies: more datagrams wait in a socket than netto keeps stamps of, and each of those that
//! are read is known, or counted as lost.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use metrics_common::latency::Point;
use nix::sys::socket::{setsockopt, sockopt};

use crate::child;
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
        let (known, lost) = (found.count(point)?, found.lost_at(point));
        println!("{point}: {known} of {reads} reads known, {lost} lost");
        ensure!(
            known + lost == reads,
            "{known} known and {lost} lost, of {reads}"
        );
        ensure!(
            known as f64 >= KNOWN * reads as f64,
            "only {known} of {reads}"
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
