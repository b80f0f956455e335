//! Latencies: filters with traffic that passes and traffic that does not, and groups; queues of
//! what is sent, and what a driver hands to GRO.

use anyhow::{Context, Result, ensure};
use metrics_common::latency::Point;

use crate::child;
use crate::groups::Group;
use crate::lab::{Namespace, Network};
use crate::latency::{
    AT_SOCKETS, PORT, TURNS, address, answerer, ask, kernels_count, lost, must_have_all, netns,
};
use crate::latency_delays::in_group;
use crate::latency_talk::Measured;
use crate::traffic;

/// The port of the other answerer, which the filter excludes.
const OTHER_PORT: u16 = 5202;

/// Talks with two answerers and expects one of them to be counted: at these points, this often.
fn expect_one(options: &[&str], places: [(&Namespace, &str); 2], points: &[Point]) -> Result<()> {
    let measured = Measured::start(options)?;
    for (from, to) in places {
        ask(from, to, TURNS)?;
    }
    let found = measured.end()?;
    for &point in points {
        must_have_all(&found, point).with_context(|| format!("let through by {options:?}"))?;
    }
    Ok(())
}

pub fn filtered() -> Result<()> {
    let network = Network::direct()?;
    let netns = netns(&network.right)?;
    let (to, other) = (address(&network, PORT), address(&network, OTHER_PORT));
    let group = Group::new("latency")?;
    // One answerer in a group of its own.
    let first = || in_group(&group, &network.right, &["answer-late", &to, "0"]);
    let places = [
        (&network.left, to.as_str()),
        (&network.left, other.as_str()),
    ];
    let both = || Ok::<_, anyhow::Error>((first()?, answerer(&network.right, &other)?));
    let in_netns = ["--latency-netns", &netns];
    {
        let _answerers = both()?;
        let options = [&in_netns[..], &["--latency-cgroups", group.path()]].concat();
        expect_one(&options, places, &AT_SOCKETS)?;
    }
    {
        // An answerer writes as much to a port of its own choice.
        let _answerers = both()?;
        let port = PORT.to_string();
        let options = [&in_netns[..], &["--latency-ports", &port]].concat();
        expect_one(&options, places, &AT_SOCKETS)?;
    }
    {
        let answerers = both()?;
        // `ip netns exec` becomes the program.
        let pid = answerers.1.pid().to_string();
        let points = [Point::TcpSocketRead, Point::UdpSocketRead];
        expect_one(&["--latency-pids", &pid], places, &points)?;
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
        expect_one(&options, places, &points)?;
    }
    // A minimal queue that is never reached, so that nothing is measured.
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
        found.of(Point::IpStart).is_none()
            && found
                .missing()
                .contains("ip-start: packets are filtered by"),
        "IP knows of queues: {}",
        found.missing()
    );
    Ok(())
}

pub fn grouped() -> Result<()> {
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
    let lost = lost(&found, Point::UdpSocketRead)?;
    ensure!(
        count <= TURNS && count + lost >= TURNS,
        "{count} packets in groups, not {TURNS}, and {lost} lost"
    );
    Ok(())
}

/// Packets of 106 bytes that wait for a slow queue, and how long the last of them does: 630 ms,
/// since 1,600 bytes may go at once; less if they are sent slowly, and more on a busy host.
const QUEUED: u64 = 30;
const SLOW: &str = "qdisc add dev lan root tbf rate 20kbit burst 1600 limit 100000";
const LAST_NS: std::ops::Range<u64> = 200_000_000..6_000_000_000;

pub fn queued() -> Result<()> {
    let network = Network::direct()?;
    network.left.run("tc", SLOW)?;
    let netns = netns(&network.left)?;
    let options = ["--latency-points", "qdisc", "--latency-netns", &netns];
    let measured = Measured::start(&options)?;
    let (to, count) = (address(&network, PORT), QUEUED.to_string());
    traffic::agent_to_end(&network.left, &["udp-count", &to, &count])?;
    child::eventually(|| {
        let came = kernels_count(&network.right, "Udp:", "NoPorts")?;
        ensure!(came >= QUEUED, "{came} of {QUEUED} have come");
        Ok(())
    })?;
    let found = measured.end()?;
    found.print();
    let count = found.count(Point::Qdisc)?;
    // IPv6 says hello to its neighbours.
    ensure!(
        (QUEUED..QUEUED + 10).contains(&count),
        "{count} packets of {QUEUED} waited"
    );
    let last = found.of(Point::Qdisc).and_then(|all| all.percentile(1.0));
    let last = last.context("nothing waited")?;
    ensure!(
        LAST_NS.contains(&last.ns),
        "the last one waited {last:?}, not {LAST_NS:?}"
    );
    ensure!(found.of(Point::IpStart).is_none(), "nobody asked for IP");
    Ok(())
}

pub fn polled() -> Result<()> {
    let network = Network::direct()?;
    network.enable_gro()?;
    let netns = netns(&network.right)?;
    let options = [
        "--latency-points",
        "driver-to-ip",
        "--latency-netns",
        &netns,
    ];
    let measured = Measured::start(&options)?;
    let to = address(&network, PORT);
    let _answerer = answerer(&network.right, &to)?;
    ask(&network.left, &to, TURNS)?;
    let found = measured.end()?;
    found.print();
    // Of both protocols, and acknowledgements.
    let count = found.count(Point::DriverToIp)?;
    ensure!(
        (2 * TURNS..4 * TURNS).contains(&count),
        "{count} packets of {TURNS} turns"
    );
    Ok(())
}
