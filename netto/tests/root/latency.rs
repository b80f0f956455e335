//! Latencies inside the stack: two processes on two hosts talk in turns, so that it is known how
//! many packets are at which point, and how long a reader lets them wait.

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use metrics_common::Availability;
use metrics_common::latency::Point;

use crate::child::Owned;
use crate::daemon::Shared;
use crate::lab::{Namespace, Network};
use crate::latency_filters::{filtered, grouped, polled, queued};
use crate::latency_talk::{Measured, MeasuredLatencies};
use crate::running::programs_of;
use crate::trial::tests;
use crate::{latency_changes, latency_delays, latency_depth, traffic};

tests! {
    latency::every_point_counts_every_packet ["ip"] = counted;
    latency::a_reader_quicker_than_the_function_that_enqueues_loses_nothing ["ip"]
        = latency_depth::read_at_once;
    latency::sockets_for_which_there_is_no_place_are_counted ["ip"]
        = latency_depth::more_sockets_than_places;
    latency::a_reader_that_sleeps_is_seen_where_it_reads_and_nowhere_else ["ip"] = slept;
    latency::one_in_eight_are_the_same_eighth_at_all_points ["ip"] = sampled;
    latency::filters_let_through_what_they_name_and_nothing_else ["ip"] = filtered;
    latency::groups_divide_what_is_counted ["ip"] = grouped;
    latency::a_slow_queue_is_seen_where_packets_leave ["ip", "tc"] = queued;
    latency::what_a_driver_hands_to_gro_is_seen_at_ip ["ip", "ethtool"] = polled;
    latency::what_a_program_takes_before_ip_is_seen_behind_it ["ip"] = latency_delays::burnt;
    latency::what_a_queue_holds_back_on_the_way_in_is_the_queues ["ip", "tc"]
        = latency_delays::held_back_on_the_way_in;
    latency::a_reader_that_may_not_run_is_seen_where_it_reads ["ip"] = latency_delays::throttled;
    latency::segments_that_waited_for_an_earlier_one_count_if_that_is_wanted ["ip", "nft"]
        = latency_delays::blocked_by_an_earlier_segment;
    latency::what_runs_before_softirqs_are_on_again_is_in_their_wait ["ip"] = latency_delays::raised;
    latency::groups_of_owners_have_what_each_received ["ip"] = latency_delays::grouped_by_owner;
    latency::of_more_datagrams_than_stamps_are_kept_each_is_known_or_counted ["ip"]
        = latency_depth::more_wait_than_stamps_are_kept;
    latency::points_come_and_go_at_sighup = latency_changes::asked_for_otherwise;
    latency::a_terminal_shows_what_a_daemon_measures ["ip"] = latency_changes::on_a_terminal;
    latency::what_it_costs_is_what_the_kernel_says_of_its_programs ["ip"]
        = latency_changes::its_price_is_the_kernels;
    latency::the_clock_is_set_and_no_packet_is_in_a_wrong_bucket ["ip"]
        = latency_changes::the_clock_is_set;
    latency::who_does_not_ask_has_no_program_and_is_told_how_to_ask = not_asked;
}

pub const TURNS: u64 = 300;
pub const PORT: u16 = 5201;
/// A reader's pause.
const SLEEP: Duration = Duration::from_millis(30);
const SLEPT_TURNS: u64 = 25;
/// How much longer a sleep may be than it was asked to, on a busy host.
const LATE_NS: u64 = 10_000_000;
const ONE_IN: u64 = 8;
const SAMPLED_TURNS: u64 = 5_000;
/// Standard deviations that a sample may be off.
const SIGMAS: f64 = 5.0;
/// The points at sockets.
pub const AT_SOCKETS: [Point; 6] = [
    Point::TcpSocketEnqueued,
    Point::UdpSocketEnqueued,
    Point::TcpSocketRead,
    Point::UdpSocketRead,
    Point::TcpReadWait,
    Point::UdpReadWait,
];

/// The option's value for a namespace.
pub fn netns(namespace: &Namespace) -> Result<String> {
    let inode = std::fs::metadata(Path::new("/run/netns").join(namespace.name()))?.ino();
    Ok(inode.to_string())
}

pub fn address(network: &Network, port: u16) -> String {
    SocketAddr::new(network.right_v4, port).to_string()
}

pub fn answerer(at: &Namespace, to: &str) -> Result<Owned> {
    traffic::agent(at, &["answer-late", to, "0"])
}

pub fn ask(from: &Namespace, to: &str, turns: u64) -> Result<()> {
    traffic::agent_to_end(from, &["ask-late", to, &turns.to_string()]).map(drop)
}

/// Packets of all turns at a point: the end of a connection is enqueued, and never read.
fn most(point: Point) -> u64 {
    TURNS + u64::from(point == Point::TcpSocketEnqueued)
}

/// Fails unless a point has the packets of all turns.
pub fn must_have_all(found: &MeasuredLatencies, point: Point) -> Result<()> {
    let (count, lost) = (found.count(point)?, lost(found, point)?);
    ensure!(
        count <= most(point) && count + lost >= TURNS,
        "{count} packets at {point}, not {TURNS}, and {lost} lost"
    );
    Ok(())
}

/// Datagrams that were read before they had a stamp, which happens where no function that reads can be
/// hooked: netto counts a few as lost.
pub fn lost(found: &MeasuredLatencies, point: Point) -> Result<u64> {
    let is_read = matches!(point, Point::UdpSocketRead | Point::UdpReadWait);
    let lost = found.lost_at(point);
    let few = if is_read && !found.method(point)?.contains("fentry") {
        TURNS / 20
    } else {
        0
    };
    ensure!(lost <= few, "{lost} packets lost at {point}");
    Ok(lost)
}

/// A value of `/proc/net/snmp` of a namespace.
pub fn kernels_count(at: &Namespace, protocol: &str, name: &str) -> Result<u64> {
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
        must_have_all(&found, point)?;
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
    let lost = found.lost_at(Point::IpStart);
    ensure!(
        (packets..packets + 30).contains(&at_ip) && lost == 0,
        "{at_ip} packets of {packets}, {lost} lost"
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
    let _answerer = answerer(&network.right, &to)?;
    ask(&network.left, &to, SAMPLED_TURNS)?;
    let found = measured.end()?;
    found.print();
    let expected = SAMPLED_TURNS as f64 / ONE_IN as f64;
    for point in [Point::UdpStart, Point::TcpSocketRead] {
        let count = found.count(point)?;
        ensure!(
            (count as f64 - expected).abs() < SIGMAS * expected.sqrt(),
            "{count} packets at {point}, of {expected} expected"
        );
    }
    // The same ones at every point.
    let (at_udp, at_tcp) = (
        found.count(Point::UdpStart)?,
        found.count(Point::TcpSocketRead)?,
    );
    for (point, expected) in [
        (Point::UdpSocketEnqueued, at_udp),
        (Point::UdpSocketRead, at_udp),
        (Point::UdpReadWait, at_udp),
        (Point::TcpReadWait, at_tcp),
    ] {
        let (count, lost) = (found.count(point)?, lost(&found, point)?);
        ensure!(
            (expected - lost..=expected).contains(&count),
            "{count} packets at {point}, of {expected}"
        );
    }
    let at_ip = found.count(Point::IpStart)?;
    ensure!(at_ip >= at_udp, "{at_ip} at IP, {at_udp} at UDP");
    Ok(())
}

fn not_asked() -> Result<()> {
    let daemon = Shared::take()?;
    let info = daemon.info()?;
    let instrument = info
        .instruments
        .iter()
        .find(|instrument| instrument.name == "latency");
    let Availability::Unavailable { reason } = &instrument.context("not listed")?.availability
    else {
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
    Ok(())
}
