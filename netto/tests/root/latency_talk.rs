//! Latencies of a talk, each turn a datagram and a message of a connection there and back, and a
//! daemon's measurement of it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use metrics_common::codec::ServerMessage;
use metrics_common::latency::{Histogram, Point};
use metrics_common::sections::PointLatency;
use metrics_common::{Availability, Latency};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::daemon::Daemon;
use crate::groups;
use crate::running::read_log;

/// Bytes of each message.
const BYTES: usize = 300;
/// An answer that takes longer was lost.
const LIMIT: Duration = Duration::from_secs(60);

/// The answering side.
pub struct LateAnswerer {
    datagrams: UdpSocket,
    listener: TcpListener,
}

impl LateAnswerer {
    pub fn bind(at: SocketAddr) -> Result<Self> {
        Ok(LateAnswerer {
            datagrams: UdpSocket::bind(at).with_context(|| format!("cannot bind {at}"))?,
            listener: TcpListener::bind(at).with_context(|| format!("cannot bind {at}"))?,
        })
    }

    /// Takes a datagram and a message of a connection in turns, each so long after it has come,
    /// and sends it back.
    pub fn serve(self, sleep: Duration) -> Result<()> {
        let (mut stream, _) = self.listener.accept()?;
        stream.set_nodelay(true)?;
        let mut data = [0; BYTES];
        loop {
            wait_and_sleep(&self.datagrams, sleep)?;
            let (_, from) = self.datagrams.recv_from(&mut data)?;
            self.datagrams.send_to(&data, from)?;
            wait_and_sleep(&stream, sleep)?;
            stream.read_exact(&mut data)?;
            stream.write_all(&data)?;
        }
    }
}

fn wait_and_sleep(socket: &impl AsFd, sleep: Duration) -> Result<()> {
    let mut sockets = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
    poll(&mut sockets, PollTimeout::NONE)?;
    std::thread::sleep(sleep);
    Ok(())
}

/// The other side.
pub fn ask_late(to: SocketAddr, turns: u64) -> Result<()> {
    let datagrams = UdpSocket::bind("0.0.0.0:0")?;
    datagrams.connect(to)?;
    datagrams.set_read_timeout(Some(LIMIT))?;
    let mut stream = TcpStream::connect(to).with_context(|| format!("cannot connect to {to}"))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let mut data = [0; BYTES];
    for _ in 0..turns {
        datagrams.send(&data)?;
        datagrams.recv(&mut data)?;
        stream.write_all(&data)?;
        stream.read_exact(&mut data)?;
    }
    Ok(())
}

/// A daemon that measures latencies, and its log.
pub struct Measured {
    daemon: Daemon,
    folder: tempfile::TempDir,
}

impl Measured {
    pub fn start(options: &[&str]) -> Result<Self> {
        // Where fentry is refused, sockets of the root group tell when UDP begins.
        groups::hierarchy()?;
        let folder = tempfile::tempdir()?;
        let log = folder.path().join("netto.log");
        let log = log.to_str().context("no UTF-8 path")?;
        let mut all = vec!["--latency", "--user-period", "100", "--max-overhead", "100"];
        all.extend(["--log-file", log, "--log-exact"]);
        all.extend(options);
        let daemon = Daemon::start(&all)?;
        let info = daemon.info()?;
        let instrument = info
            .instruments
            .iter()
            .find(|instrument| instrument.name == "latency");
        if let Availability::Unavailable { reason } =
            &instrument.context("not listed")?.availability
        {
            bail!("latencies are not measured: {reason}");
        }
        daemon.settle()?;
        Ok(Measured { daemon, folder })
    }

    /// Everything that was measured until now.
    pub fn end(self) -> Result<MeasuredLatencies> {
        self.daemon.settle()?;
        self.daemon.terminate()?;
        found(&self.folder.path().join("netto.log"))
    }
}

/// The measurements of a whole run.
#[derive(Default)]
pub struct MeasuredLatencies(pub Vec<Latency>);

fn found(log: &std::path::Path) -> Result<MeasuredLatencies> {
    let (messages, _) = read_log(log)?;
    let mut found = MeasuredLatencies::default();
    for message in messages {
        if let ServerMessage::Snapshot(snapshot) = message {
            found.0.extend(snapshot.sections.latency);
        }
    }
    ensure!(!found.0.is_empty(), "the log has no latencies");
    Ok(found)
}

impl MeasuredLatencies {
    /// `None` if the point is not measured.
    pub fn of(&self, point: Point) -> Option<Histogram> {
        let mut all = Histogram::default();
        for latency in &self.0 {
            all.merge(&latency.of(point)?.histogram());
        }
        Some(all)
    }

    pub fn count(&self, point: Point) -> Result<u64> {
        let found = self.of(point).map(|histogram| histogram.count());
        found.with_context(|| format!("{point} is not measured: {:?}", self.missing()))
    }

    pub fn missing(&self) -> String {
        let missing = self.0.iter().flat_map(|latency| &latency.missing);
        let mut texts: Vec<String> = missing
            .map(|missing| format!("{}: {}", missing.point, missing.reason))
            .collect();
        texts.sort();
        texts.dedup();
        texts.join("; ")
    }

    pub fn anomalies(&self) -> u64 {
        Point::ALL
            .iter()
            .map(|point| self.anomalies_at(*point))
            .sum()
    }

    pub fn anomalies_at(&self, point: Point) -> u64 {
        let points = self.0.iter().filter_map(|latency| latency.of(point));
        points
            .map(|point| point.negative_total() + point.too_long_total())
            .sum()
    }

    pub fn lost_at(&self, point: Point) -> u64 {
        let points = self.0.iter().filter_map(|latency| latency.of(point));
        points.map(PointLatency::lost_total).sum()
    }

    /// How a point is measured.
    pub fn method(&self, point: Point) -> Result<&str> {
        let last = self.0.last().and_then(|latency| latency.of(point));
        Ok(&last
            .with_context(|| format!("{point} is not measured"))?
            .method)
    }

    pub fn print(&self) {
        let Some(last) = self.0.last() else { return };
        println!();
        for point in &last.points {
            let all = self.of(point.point).unwrap_or_default();
            let us = |share| all.percentile(share).map_or(0, |found| found.ns / 1000);
            println!(
                "{:<20} {:>6} packets, p50 {} us, p99 {} us, by {}",
                point.point,
                all.count(),
                us(0.5),
                us(0.99),
                point.method
            );
        }
    }
}
