//! Latencies from a packet's arrival, also of one that was sent on this host and says until its
//! delivery when it departed: beside a program of the tests' own, which times the same packets.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use metrics_common::latency::{Point, bucket_of};
use netto_truth::arrivals::{Arrivals, Place, Protocol};

use crate::flows::{OTHER_CPU, RECEIVING_CPU, needs_two_cpus, steer};
use crate::groups;
use crate::lab::{Namespace, Network};
use crate::latency::PORT;
use crate::latency_talk::Measured;
use crate::traffic;
use crate::trial::{NotOnThisKernel, tests};

tests! {
    arrivals::over_veth_are_where_they_are ["ip"] = || veth(1000);
    arrivals::at_a_higher_rate_are_where_they_are ["ip"] = || veth(10_000);
    arrivals::over_loopback_are_where_they_are ["ip"] = loopback;
    arrivals::behind_a_bridge_are_where_they_are ["ip"] = bridged;
    arrivals::behind_another_cpus_backlog_are_where_they_are ["ip"] = steered;
}

const MEASURED: Duration = Duration::from_secs(5);
/// Until the readers have read everything.
const REST: Duration = Duration::from_millis(500);
/// What fills a backlog, in packets a second.
const FLOOD: u64 = 95_000;
/// Packets of IPv6 that look for neighbours.
const NEIGHBOURS: u64 = 30;

/// A place, the point that netto has there, and the protocols of its packets.
const PLACES: [(Place, Point, &[Protocol]); 4] = [
    (Place::Ip, Point::IpStart, &[Protocol::Tcp, Protocol::Udp]),
    (Place::Protocol, Point::TcpStart, &[Protocol::Tcp]),
    (Place::Protocol, Point::UdpStart, &[Protocol::Udp]),
    (Place::Read, Point::TcpSocketRead, &[Protocol::Tcp]),
];

fn veth(per_second: u64) -> Result<()> {
    let network = Network::direct()?;
    let to = SocketAddr::new(network.right_v4, PORT);
    measure(&network.left, &network.right, to, per_second)
}

fn loopback() -> Result<()> {
    let host = Namespace::new()?;
    measure(&host, &host, SocketAddr::from(([127, 0, 0, 1], PORT)), 1000)
}

fn bridged() -> Result<()> {
    let network = Network::bridged()?;
    let to = SocketAddr::new(network.right_v4, PORT);
    measure(&network.left, &network.right, to, 1000)
}

fn steered() -> Result<()> {
    needs_two_cpus()?;
    let network = Network::direct()?;
    steer(&network.right, "lan")?;
    let to = SocketAddr::new(network.right_v4, PORT);
    measure(&network.left, &network.right, to, FLOOD)
}

/// TCP of a thousand segments a second, and UDP of so many, beside the truth.
fn measure(left: &Namespace, right: &Namespace, to: SocketAddr, datagrams: u64) -> Result<()> {
    let netns = fs::metadata(Path::new("/run/netns").join(right.name()))?.ino();
    // A backlog that is full drops segments, for which later ones wait.
    let netns_option = ["--latency-netns", &netns.to_string()];
    let measured = Measured::start(&[&netns_option[..], &["--latency-include-hol"]].concat())?;
    let groups = File::open(groups::hierarchy()?)?;
    let truth = Arrivals::attach(netns, &groups)?;
    let at = to.to_string();
    let (sends, receives) = (OTHER_CPU.to_string(), RECEIVING_CPU.to_string());
    let reads = |how| traffic::agent(right, &["on", &receives, how, &at]);
    let _readers = (reads("udp-sink")?, reads("tcp-reads")?);
    let rate = datagrams.to_string();
    let segments = ["on", &sends, "tcp-ticks", &at, "1000"];
    let datagrams = ["udp-paced", &at, &rate, &sends];
    let senders = [&segments[..], &datagrams].map(|words| traffic::agent(left, words));
    let senders: Vec<_> = senders.into_iter().collect::<Result<_>>()?;
    std::thread::sleep(MEASURED);
    drop(senders);
    std::thread::sleep(REST);
    let mut all = Vec::new();
    for (place, point, protocols) in PLACES {
        all.push((point, truth.latencies(place, protocols)?));
    }
    let found = measured.end()?;
    found.print();
    let method = found.method(Point::IpStart)?;
    if method.contains("fentry") {
        let reason = "the truth is of tracepoints, some time before these functions";
        return Err(NotOnThisKernel(reason.to_owned()).into());
    }
    let mut wrong = Vec::new();
    for (point, truth) in all {
        let expected: u64 = truth.iter().map(|(_, packets)| packets).sum();
        let histogram = found.of(point).context("not measured")?;
        let (count, lost) = (histogram.count(), found.lost_at(point));
        let mut line = format!("{point}: {count} packets of {expected}, {lost} lost;");
        // A lookup of the truth's may miss what another CPU replaces in the same bucket. What the kernel
        // adds to a segment of which a part was read is in no other one, whose beginning netto counts.
        let missed = 1 + expected / 100_000;
        let (least, most) = match point {
            Point::IpStart => (expected, expected + missed + NEIGHBOURS),
            Point::TcpSocketRead => (expected - expected / 50, expected),
            _ => (expected, expected + missed),
        };
        let mut is_right = (least..=most).contains(&(count + lost)) && lost <= missed;
        for share in [0.5, 0.9, 0.99] {
            let truth_ns = percentile(&truth, share);
            let found_ns = histogram.percentile(share).map_or(0, |found| found.ns);
            line += &format!(" p{:.0} {found_ns} ns of {truth_ns}", share * 100.0);
            is_right &= match (bucket_of(found_ns), bucket_of(truth_ns)) {
                (Some(found), Some(truth)) => found.abs_diff(truth) <= 1,
                _ => false,
            };
        }
        println!("{line}");
        if !is_right {
            wrong.push(line);
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn percentile(truth: &[(u64, u64)], share: f64) -> u64 {
    let all: u64 = truth.iter().map(|(_, packets)| packets).sum();
    let mut until = 0;
    for (ns, packets) in truth {
        until += packets;
        if until as f64 >= share * all as f64 {
            return *ns;
        }
    }
    0
}
