//! Latencies: filters with traffic that passes and traffic that does not, and groups.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use metrics_common::latency::Point;

use crate::child::Owned;
use crate::groups::Group;
use crate::lab::{Namespace, Network};
use crate::latency::{AT_SOCKETS, PORT, TURNS, address, answerer, ask, most, netns};
use crate::latency_talk::Measured;

/// Where the other one answers, who is not meant.
const OTHER_PORT: u16 = 5202;
/// An agent that takes longer to begin is not coming.
const LIMIT: Duration = Duration::from_secs(10);

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

pub fn filtered() -> Result<()> {
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
    ensure!(count == TURNS, "{count} packets in groups, of {TURNS}");
    Ok(())
}
