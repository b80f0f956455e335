//! Latencies inside the stack: two processes on two hosts talk in turns, so that it is known how
//! many packets are at which point, and how long a reader lets them wait.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use metrics_common::codec::ServerMessage;
use metrics_common::latency::{Histogram, Point};
use metrics_common::{Availability, Latency};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::child::Owned;
use crate::daemon::Daemon;
use crate::groups::Group;
use crate::lab::{Namespace, Network};
use crate::running::{programs_of, read_log};
use crate::traffic;
use crate::trial::Test;

pub const TESTS: &[Test] = &[
    Test {
        name: "latency::every_point_counts_every_packet",
        tools: &["ip"],
        body: counted,
    },
    Test {
        name: "latency::a_reader_that_sleeps_is_seen_where_it_reads_and_nowhere_else",
        tools: &["ip"],
        body: slept,
    },
    Test {
        name: "latency::one_in_eight_are_the_same_eighth_at_all_points",
        tools: &["ip"],
        body: sampled,
    },
    Test {
        name: "latency::filters_let_through_what_they_name_and_nothing_else",
        tools: &["ip"],
        body: filtered,
    },
    Test {
        name: "latency::groups_divide_what_is_counted",
        tools: &["ip"],
        body: grouped,
    },
    Test {
        name: "latency::who_does_not_ask_has_no_program_and_is_told_how_to_ask",
        tools: &[],
        body: off,
    },
];

const TURNS: u64 = 300;
const BYTES: usize = 300;
const PORT: u16 = 5201;
const OTHER_PORT: u16 = 5202;
/// Longer than two intervals of netto's.
const SETTLE: Duration = Duration::from_millis(300);
/// What a reader sleeps.
const SLEEP: Duration = Duration::from_millis(30);
const SLEPT_TURNS: u64 = 25;
/// How much longer a sleep may be than it was asked to, on a busy host.
const LATE_NS: u64 = 10_000_000;
const ONE_IN: u64 = 8;
const SAMPLED_PACKETS: u64 = 40_000;
/// Standard deviations that a sample may be off.
const SIGMAS: f64 = 5.0;
/// An answer that takes longer was lost.
const LIMIT: Duration = Duration::from_secs(5);
/// What is measured at sockets.
const AT_SOCKETS: [Point; 6] = [
    Point::TcpSocketEnqueued,
    Point::UdpSocketEnqueued,
    Point::TcpSocketRead,
    Point::UdpSocketRead,
    Point::TcpReadWait,
    Point::UdpReadWait,
];

/// The one who answers.
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
struct Measured {
    daemon: Daemon,
    folder: tempfile::TempDir,
}

impl Measured {
    fn start(options: &[&str]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let log = folder.path().join("netto.log");
        let log = log.to_str().context("no UTF-8 path")?;
        let mut all = vec!["--latency", "--user-period", "100", "--max-overhead", "100"];
        all.extend(["--log-file", log, "--log-exact"]);
        all.extend(options);
        let daemon = Daemon::start(&all)?;
        let info = daemon.info()?;
        let known = info.instruments.iter().find(|own| own.name == "latency");
        if let Availability::Unavailable { reason } = &known.context("not listed")?.availability {
            bail!("latencies are not measured: {reason}");
        }
        std::thread::sleep(SETTLE);
        Ok(Measured { daemon, folder })
    }

    /// Everything that was measured until now.
    fn end(self) -> Result<Found> {
        std::thread::sleep(SETTLE);
        self.daemon.terminate()?;
        found(&self.folder.path().join("netto.log"))
    }
}

/// What a whole run has measured.
#[derive(Default)]
struct Found(Vec<Latency>);

fn found(log: &Path) -> Result<Found> {
    let (messages, _) = read_log(log)?;
    let mut found = Found::default();
    for message in messages {
        if let ServerMessage::Snapshot(snapshot) = message {
            found.0.extend(snapshot.sections.latency);
        }
    }
    ensure!(!found.0.is_empty(), "the log has no latencies");
    Ok(found)
}

impl Found {
    /// `None` if the point is not measured.
    fn of(&self, point: Point) -> Option<Histogram> {
        let mut all = Histogram::default();
        for latency in &self.0 {
            all.merge(&latency.of(point)?.histogram());
        }
        Some(all)
    }

    fn count(&self, point: Point) -> Result<u64> {
        let found = self.of(point).map(|histogram| histogram.count());
        found.with_context(|| format!("{point} is not measured: {:?}", self.missing()))
    }

    fn missing(&self) -> String {
        let missing = self.0.iter().flat_map(|latency| &latency.missing);
        let mut texts: Vec<String> = missing
            .map(|missing| format!("{}: {}", missing.point, missing.reason))
            .collect();
        texts.sort();
        texts.dedup();
        texts.join("; ")
    }

    fn anomalies(&self) -> u64 {
        let points = self.0.iter().flat_map(|latency| &latency.points);
        points
            .map(|point| point.negative_total() + point.too_long_total())
            .sum()
    }

    fn print(&self) {
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

/// The option's value for a namespace.
fn netns(namespace: &Namespace) -> Result<String> {
    let inode = std::fs::metadata(Path::new("/run/netns").join(namespace.name()))?.ino();
    Ok(inode.to_string())
}

fn address(network: &Network, port: u16) -> String {
    SocketAddr::new(network.right_v4, port).to_string()
}

fn answerer(at: &Namespace, to: &str) -> Result<Owned> {
    traffic::agent(at, &["answer-late", to, "0"])
}

fn ask(from: &Namespace, to: &str, turns: u64) -> Result<()> {
    traffic::agent_to_end(from, &["ask-late", to, &turns.to_string()]).map(drop)
}

/// Packets of all turns at a point: the end of a connection is enqueued, and never read.
fn most(point: Point) -> u64 {
    TURNS + u64::from(point == Point::TcpSocketEnqueued)
}

/// A value of `/proc/net/snmp` of a namespace.
fn kernels_count(at: &Namespace, protocol: &str, name: &str) -> Result<u64> {
    let text = at.run("cat", "/proc/net/snmp")?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol));
    let (names, values) = (lines.next(), lines.next());
    let names = names.unwrap_or_default().split_whitespace();
    let mut both = names.zip(values.unwrap_or_default().split_whitespace());
    let (_, value) = both
        .find(|(found, _)| *found == name)
        .with_context(|| format!("the kernel has no {protocol} {name}"))?;
    Ok(value.parse()?)
}

fn counted() -> Result<()> {
    let network = Network::direct()?;
    let to = address(&network, PORT);
    let measured = Measured::start(&["--latency-netns", &netns(&network.right)?])?;
    let _answerer = answerer(&network.right, &to)?;
    ask(&network.left, &to, TURNS)?;
    let segments = kernels_count(&network.right, "Tcp:", "InSegs")?;
    let packets = kernels_count(&network.right, "Ip:", "InReceives")?;
    let found = measured.end()?;
    found.print();
    for point in AT_SOCKETS.into_iter().chain([Point::UdpStart]) {
        let count = found.count(point)?;
        ensure!(
            (TURNS..=most(point)).contains(&count),
            "{count} packets at {point}, of {TURNS}"
        );
    }
    let at_tcp = found.count(Point::TcpStart)?;
    println!("{at_tcp} segments at TCP of {segments}, {packets} packets of IPv4");
    // The last acknowledgements may come after the kernel was asked; the connection's first
    // and last packets may find no socket.
    ensure!(
        at_tcp.abs_diff(segments) <= 4,
        "{at_tcp} segments of {segments}"
    );
    // IPv6 says hello to its neighbours.
    let at_ip = found.count(Point::IpStart)?;
    ensure!(
        (packets..packets + 30).contains(&at_ip),
        "{at_ip} packets of {packets}"
    );
    let anomalies = found.anomalies();
    ensure!(anomalies == 0, "{anomalies} anomalies");
    Ok(())
}

fn slept() -> Result<()> {
    let network = Network::direct()?;
    let to = address(&network, PORT);
    let measured = Measured::start(&["--latency-netns", &netns(&network.right)?])?;
    let sleep_ms = SLEEP.as_millis().to_string();
    let _answerer = traffic::agent(&network.right, &["answer-late", &to, &sleep_ms])?;
    ask(&network.left, &to, SLEPT_TURNS)?;
    let found = measured.end()?;
    found.print();
    let sleep_ns = SLEEP.as_nanos() as u64;
    let median = |point: Point| -> Result<_> {
        let histogram = found.of(point).with_context(|| format!("no {point}"))?;
        histogram
            .percentile(0.5)
            .with_context(|| format!("nothing at {point}"))
    };
    let readers = [
        Point::TcpSocketRead,
        Point::UdpSocketRead,
        Point::TcpReadWait,
        Point::UdpReadWait,
    ];
    for point in readers {
        let median = median(point)?;
        ensure!(
            median.upper_ns > sleep_ns && median.lower_ns < sleep_ns + LATE_NS,
            "{point}: {median:?}, of {sleep_ns} ns"
        );
    }
    for point in [Point::TcpSocketEnqueued, Point::UdpSocketEnqueued] {
        let median = median(point)?;
        ensure!(
            median.upper_ns < sleep_ns / 10,
            "{point}: {median:?}, though nobody sleeps there"
        );
    }
    Ok(())
}

fn sampled() -> Result<()> {
    let network = Network::direct()?;
    let to = address(&network, PORT);
    let one_in = ONE_IN.to_string();
    let netns = netns(&network.right)?;
    let measured = Measured::start(&["--latency-one-in", &one_in, "--latency-netns", &netns])?;
    let before = kernels_count(&network.right, "Udp:", "InDatagrams")?;
    let _sink = traffic::agent(&network.right, &["udp-sink", &to])?;
    let packets = SAMPLED_PACKETS.to_string();
    traffic::agent_to_end(&network.left, &["udp-count", &to, &packets])?;
    std::thread::sleep(SETTLE);
    let read = kernels_count(&network.right, "Udp:", "InDatagrams")? - before;
    let found = measured.end()?;
    found.print();
    let near = |count: u64, of: u64| {
        let expected = of as f64 / ONE_IN as f64;
        (count as f64 - expected).abs() < SIGMAS * expected.sqrt()
    };
    let started = found.count(Point::UdpStart)?;
    ensure!(
        near(started, SAMPLED_PACKETS),
        "{started} of {SAMPLED_PACKETS} packets"
    );
    let was_read = found.count(Point::UdpSocketRead)?;
    ensure!(near(was_read, read), "{was_read} of {read} that were read");
    // The same packets: those that IPv6 sends by itself are the only ones that IP has more.
    let at_ip = found.count(Point::IpStart)?;
    ensure!(
        (started..started + 20).contains(&at_ip),
        "{at_ip} at IP, {started} at UDP"
    );
    if read == SAMPLED_PACKETS {
        let enqueued = found.count(Point::UdpSocketEnqueued)?;
        ensure!(
            enqueued == started && was_read == started,
            "{started} at UDP, {enqueued} enqueued, {was_read} read"
        );
    }
    Ok(())
}

/// Talks with two answerers and expects that one is counted: at these points, so often.
fn expect_one(
    network: &Network,
    options: &[&str],
    places: [(&Namespace, &str); 2],
    points: &[Point],
) -> Result<()> {
    let measured = Measured::start(options)?;
    for (from, to) in places {
        ask(from, to, TURNS)?;
    }
    let found = measured.end()?;
    for &point in points {
        let count = found.count(point)?;
        ensure!(
            (TURNS..=most(point)).contains(&count),
            "{options:?} let {count} packets through at {point}, not {TURNS}"
        );
    }
    let _ = network;
    Ok(())
}

fn filtered() -> Result<()> {
    let network = Network::direct()?;
    let netns = netns(&network.right)?;
    let (to, other) = (address(&network, PORT), address(&network, OTHER_PORT));
    let group = Group::new("latency")?;
    // One in a group of its own.
    let own = std::env::current_exe()?;
    let own = own.to_str().context("no UTF-8 path")?;
    let mut inside = network.right.command(own);
    inside.args(["agent", "answer-late", &to, "0"]);
    let first = || -> Result<Owned> {
        let mut agent = Owned::start(&mut group.command(&inside))?;
        agent.wait_for_line("ready", LIMIT)?;
        Ok(agent)
    };
    let places = [
        (&network.left, to.as_str()),
        (&network.left, other.as_str()),
    ];
    let both = || Ok::<_, anyhow::Error>((first()?, answerer(&network.right, &other)?));
    let in_netns = ["--latency-netns", &netns];
    {
        let _answerers = both()?;
        let options = [&in_netns[..], &["--latency-cgroups", group.path()]].concat();
        expect_one(&network, &options, places, &AT_SOCKETS)?;
    }
    {
        // One who is asked writes as much to a port of its own choice.
        let _answerers = both()?;
        let port = PORT.to_string();
        let options = [&in_netns[..], &["--latency-ports", &port]].concat();
        expect_one(&network, &options, places, &AT_SOCKETS)?;
    }
    {
        let answerers = both()?;
        // `ip netns exec` becomes the program.
        let pid = answerers.1.pid().to_string();
        let points = [Point::TcpSocketRead, Point::UdpSocketRead];
        expect_one(&network, &["--latency-pids", &pid], places, &points)?;
    }
    {
        // Over the device, and within the host.
        let _answerers = both()?;
        let links: serde_json::Value =
            serde_json::from_str(&network.right.ip("-j link show lan")?)?;
        let number = links[0]["ifindex"].to_string();
        let options = [&in_netns[..], &["--latency-interfaces", &number]].concat();
        let places = [
            (&network.left, to.as_str()),
            (&network.right, other.as_str()),
        ];
        let points = [&AT_SOCKETS[..], &[Point::UdpStart]].concat();
        expect_one(&network, &options, places, &points)?;
    }
    // Nobody has so many in the queue.
    let _answerers = both()?;
    let measured = Measured::start(&["--latency-min-queue", "1000000"])?;
    ask(&network.left, &to, TURNS)?;
    let found = measured.end()?;
    let count = found.count(Point::UdpSocketEnqueued)?;
    ensure!(
        count == 0,
        "{count} packets in a queue that is never so long"
    );
    ensure!(
        found.of(Point::IpStart).is_none() && found.missing().contains("ip-start: a packet's"),
        "IP knows of queues: {}",
        found.missing()
    );
    Ok(())
}

fn grouped() -> Result<()> {
    let network = Network::direct()?;
    let to = address(&network, PORT);
    let netns = netns(&network.right)?;
    let measured = Measured::start(&["--latency-group", "interface", "--latency-netns", &netns])?;
    let _answerer = answerer(&network.right, &to)?;
    ask(&network.left, &to, TURNS)?;
    let found = measured.end()?;
    let groups = found.0.iter().flat_map(|latency| &latency.groups);
    let of_udp = groups.filter(|group| group.point == Point::UdpSocketRead);
    let mut count = 0;
    for group in of_udp {
        let name = group.name.as_deref().context("a group without a name")?;
        ensure!(name.ends_with(&netns), "{name} is not in {netns}");
        count += group.histogram.count();
    }
    ensure!(count == TURNS, "{count} packets in groups, of {TURNS}");
    Ok(())
}

fn off() -> Result<()> {
    let daemon = Daemon::start(&[])?;
    let info = daemon.info()?;
    let known = info.instruments.iter().find(|own| own.name == "latency");
    let Availability::Unavailable { reason } = &known.context("not listed")?.availability else {
        bail!("it runs though nobody asked for it");
    };
    ensure!(reason.contains("--latency"), "{reason}");
    ensure!(
        daemon
            .snapshot()?
            .get("latency")
            .is_none_or(serde_json::Value::is_null)
    );
    let without = programs_of(daemon.process.pid())?;
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", daemon.process.pid()))?;
    ensure!(!without.is_empty() && !maps.is_empty());
    let names = libbpf_rs::query::ProgInfoIter::default()
        .filter(|program| without.contains(&program.id))
        .map(|program| program.name.to_string_lossy().into_owned());
    let names: Vec<String> = names.collect();
    let of_latency = [
        "netto_ready",
        "netto_start_nea",
        "netto_ip_near",
        "netto_ip_v4",
    ];
    ensure!(
        !names.iter().any(|name| of_latency.contains(&name.as_str())),
        "{names:?}"
    );
    drop(daemon);
    Ok(())
}
