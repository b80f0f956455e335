//! Hooks that several features want: each has a program there, and counts as if it were alone, while
//! others come and go.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use metrics_common::Method;

use crate::daemon::Daemon;
use crate::lab::{Namespace, Network, kernel_at_least};
use crate::latency::{PORT, address, answerer, ask, netns};
use crate::measure::{self, Sample};
use crate::packets::{OTHERS, sum};
use crate::running::attached_at;
use crate::trial::tests;
use crate::{child, groups, http, traffic};

tests! {
    hooks::each_feature_that_wants_a_hook_counts_all_while_others_come_and_go ["ip"] = shared;
}

/// Packets that are sent to a closed port.
const DROPPED: u64 = 2_000;
/// Turns, each with a datagram and a message of a connection there and back.
const TURNS: u64 = 300;
/// Messages of netto and the test itself.
const OWN_MESSAGES: f64 = 500.0;

/// Programs at a tracepoint in alphabetical order, by as much of their names as the kernel keeps.
type Attached = (&'static str, &'static [&'static str]);

fn shared() -> Result<()> {
    // Where fentry is refused, sockets of the root group tell when UDP begins.
    groups::hierarchy()?;
    let network = Network::direct()?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("netto.toml");
    let only = netns(&network.right)?;
    write(&file, Some(&only))?;
    let path = file.to_str().context("no UTF-8 path")?;
    let mut daemon = Daemon::start(&["--config", path, "--user-period", "100"])?;
    let info = daemon.info()?;
    // With functions, latencies need none of these hooks.
    let has_functions = info
        .probes
        .iter()
        .any(|probe| probe.method == Method::Fentry);
    let has_messages = kernel_at_least(6, 3)?;
    let dropped: Attached = ("kfree_skb", &["netto_drop", "netto_dropped"]);
    let without_latency: &[Attached] = if has_messages {
        &[dropped, ("sock_recv_length", &["netto_received"])]
    } else {
        &[dropped]
    };
    let with_latency: &[Attached] = if has_functions {
        without_latency
    } else {
        &[
            dropped,
            ("sock_recv_length", &["netto_received", "netto_udp_read_"]),
        ]
    };
    become_attached(&daemon, with_latency, true)?;
    all_is_counted(&daemon, &network, true)?;
    // The others go on without latencies, and with latencies of new options.
    write(&file, None)?;
    daemon.process.signal("HUP")?;
    become_attached(&daemon, without_latency, false)?;
    all_is_counted(&daemon, &network, false)?;
    write(&file, Some(&only))?;
    daemon.process.signal("HUP")?;
    become_attached(&daemon, with_latency, true)?;
    all_is_counted(&daemon, &network, true)?;
    daemon.must_live()
}

/// Latencies of packets in a namespace, or none.
fn write(file: &Path, latency_in: Option<&str>) -> Result<()> {
    let latency = match latency_in {
        Some(netns) => format!("latency = true\nlatency-netns = [\"{netns}\"]\n"),
        None => String::new(),
    };
    fs::write(file, format!("owners = \"cgroup\"\n{latency}")).context("cannot write the file")
}

fn become_attached(daemon: &Daemon, expected: &[Attached], has_latency: bool) -> Result<()> {
    child::eventually(|| {
        let latency = &daemon.snapshot()?["latency"];
        ensure!(latency.is_object() == has_latency, "latency: {latency}");
        let attached = attached_at(daemon.process.pid())?;
        for (hook, programs) in expected {
            let mut found = attached.get(*hook).cloned().unwrap_or_default();
            found.sort_unstable();
            ensure!(
                found == *programs,
                "at {hook} are {found:?} and not {programs:?}"
            );
        }
        Ok(())
    })
}

fn samples(daemon: &Daemon) -> Result<Vec<Sample>> {
    daemon.settle()?;
    measure::parse(&http::get_ok(daemon.at, "/metrics")?.body)
}

fn send(from: &Namespace, network: &Network) -> Result<()> {
    let closed = format!("{}:9", network.right_v4);
    traffic::agent_to_end(from, &["udp-count", &closed, &DROPPED.to_string()])?;
    ask(from, &address(network, PORT), TURNS)
}

/// Sends what is known, and looks whether each feature has seen it.
fn all_is_counted(daemon: &Daemon, network: &Network, has_latency: bool) -> Result<()> {
    let answerer = answerer(&network.right, &address(network, PORT))?;
    let before = samples(daemon)?;
    send(&network.left, network)?;
    let after = samples(daemon)?;
    drop(answerer);
    let grown = |family: &str, labels: &[(&str, &str)]| {
        sum(&after, family, labels) - sum(&before, family, labels)
    };
    let (sent, turns) = (DROPPED as f64, TURNS as f64);
    let dropped = grown("netto_cpu_dropped_packets_total", &[]);
    let received = grown("netto_socket_messages_total", &[("direction", "received")]);
    let owners_s = grown("netto_own_cpu_seconds_total", &[("part", "owners")]);
    println!("{dropped} dropped, {received} received, owners {owners_s:.6} s");
    ensure!(
        (sent..sent + OTHERS).contains(&dropped),
        "{dropped} drops, of {sent}"
    );
    ensure!(owners_s > 0.0, "owners have met nothing");
    if kernel_at_least(6, 3)? {
        ensure!(
            (4.0 * turns..4.0 * turns + OWN_MESSAGES).contains(&received),
            "{received} messages, of {}",
            4.0 * turns
        );
    }
    for point in ["udp-socket-enqueued", "udp-socket-read", "tcp-socket-read"] {
        let labels = [("point", point)];
        let count = grown("netto_netstack_latency_seconds_count", &labels);
        let expected = if has_latency { turns } else { 0.0 };
        ensure!(
            count == expected,
            "{count} packets at {point}, of {expected}"
        );
    }
    Ok(())
}
