//! A change is tried with traffic that netto has recorded: `netto synth` plays the conversations of a
//! log against two configurations, and `netto diff` says what the change costs and where.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::child::{self, Owned};
use crate::common::http;
use crate::daemon::{self, Daemon, run_to_end};
use crate::diffs::Span;
use crate::lab::{Namespace, Network, Wire};
use crate::trial::tests;
use crate::{cpus, filters, traffic};

tests! {
    flow_change::packets_of_a_log_are_those_that_were_seen ["ip"] = || played().map(drop);
    flow_change::rules_of_a_firewall_are_found_with_traffic_that_a_log_has ["ip", "nft"];
}

/// The part that the rules belong to.
const PART: &str = "nf_prerouting_v4";
const PACKETS_PER_SECOND: &str = "10000";
const PORTS: [u16; 2] = [9, 10];
const RECORDED: Duration = Duration::from_secs(2);
const SETTLE: Duration = Duration::from_millis(700);
const SPAN: Duration = Duration::from_secs(5);

fn logged(log: &Path, more: &[&str]) -> Result<Daemon> {
    let log = log.to_string_lossy();
    Daemon::start(&[&["--user-period", "200", "--log-file", &log], more].concat())
}

fn end(daemon: Daemon) -> Result<()> {
    let (status, stderr) = daemon.terminate()?;
    ensure!(status.success(), "netto ended ({status}): {stderr}");
    Ok(())
}

/// Conversations of two ports, as netto's log has them, and how many packets it has seen.
fn record(log: &Path) -> Result<u64> {
    let wire = Wire::new()?;
    // Neighbours that look for each other would be traffic in the pauses.
    wire.inside.sysctl("net/ipv6/conf/lan/disable_ipv6", "1")?;
    let switch = format!("/proc/sys/net/ipv6/conf/{}/disable_ipv6", wire.device);
    std::fs::write(switch, "1")?;
    let daemon = logged(log, &["--flows", &wire.device])?;
    let cpu = (cpus::count()? - 1).to_string();
    let senders = PORTS.map(|port| {
        let to = std::net::SocketAddr::new(wire.nobody, port).to_string();
        traffic::agent(&wire.inside, &["udp-paced", &to, PACKETS_PER_SECOND, &cpu])
    });
    std::thread::sleep(RECORDED);
    for sender in senders {
        drop(sender?);
    }
    // Waits until the last interval with packets has ended.
    let seen = || -> Result<u64> {
        let answer: Value = http::get_ok(daemon.at, "/api/v1/flows?last=5m")?.json()?;
        answer["packets"].as_u64().context("no packets")
    };
    let packets = child::eventually(|| {
        let before = seen()?;
        std::thread::sleep(SETTLE);
        ensure!(before == seen()?, "packets still come");
        Ok(before)
    })?;
    end(daemon).map(|()| packets)
}

/// The traffic of a log, again and again, from left to right.
fn player(network: &Network, log: &Path) -> Result<Owned> {
    let links: Value = serde_json::from_str(&network.right.ip("-j link show dev lan")?)?;
    let to = links[0]["address"].as_str().context("no address of lan")?;
    let netto = daemon::binary();
    let mut command = network.left.command(&netto.to_string_lossy());
    command.args([
        "synth",
        &log.to_string_lossy(),
        "--to",
        "lan",
        "--to-mac",
        to,
    ]);
    // Addresses of the recorded network are no neighbours here.
    command.args([
        "--rewrite-prefix",
        "10.77.9.0/24=10.77.1.0/24",
        "--loop",
        "1000",
    ]);
    Owned::start(&mut command)
}

/// Plays the traffic against this receiver, and gives netto's log of a part of it.
fn measured(network: &Network, traffic: &Path, log: PathBuf) -> Result<String> {
    let daemon = logged(&log, &[])?;
    let player = player(network, traffic)?;
    let before = network.right.received_packets("lan")?;
    child::eventually(|| {
        ensure!(
            network.right.received_packets("lan")? > before,
            "nothing comes"
        );
        Ok(())
    })?;
    std::thread::sleep(SETTLE);
    let span = Span::watch(SPAN);
    drop(player);
    end(daemon)?;
    span.of(&log)
}

fn add_rules(to: &Namespace) -> Result<()> {
    to.nft(&format!(
        "table inet many {{\nchain c {{\ntype filter hook prerouting priority -300; policy accept;\n{}}}\n}}\n",
        filters::rules().repeat(2)
    ))
}

/// A folder with a log of traffic, all of whose packets can be made again.
fn played() -> Result<(TempDir, PathBuf)> {
    let folder = tempfile::tempdir()?;
    let traffic = folder.path().join("yesterday.log");
    let seen = record(&traffic)?;
    // The log's packets are those that are made, all of them.
    let pcap = folder.path().join("traffic.pcap");
    let words = ["synth", &traffic.to_string_lossy(), "--json", "--pcap"];
    let made = child::run(daemon::command(&words).arg(&pcap))?;
    let made: Value = serde_json::from_str(&made)?;
    let packets = made["packets"].as_u64().context("no packets")?;
    ensure!(
        packets == seen && made["refused"] == 0,
        "{seen} packets: {made}"
    );
    ensure!(packets > 1_000, "hardly anything was recorded: {made}");
    Ok((folder, traffic))
}

fn rules_of_a_firewall_are_found_with_traffic_that_a_log_has() -> Result<()> {
    let (folder, traffic) = played()?;
    let network = Network::direct()?;
    let before = measured(&network, &traffic, folder.path().join("before.log"))?;
    add_rules(&network.right)?;
    let after = measured(&network, &traffic, folder.path().join("after.log"))?;
    let (status, json, stderr) = run_to_end(&["diff", &before, &after, "--format", "json"])?;
    ensure!(status.success(), "netto diff ended ({status}): {stderr}");
    let comparison: Value = serde_json::from_str(&json)?;
    let mut changes = comparison["changes"]
        .as_array()
        .context("no changes")?
        .iter();
    let found = changes.find(|change| change["component"] == PART);
    let found = found.with_context(|| format!("{PART} is not compared"))?;
    println!("\n{PART}: {}", found["cpus"]);
    let cpus = found["cpus"]["value"].as_f64().context("no CPUs")?;
    ensure!(found["is_real"] == true && cpus > 0.0, "{found}");
    // A gate says so, and names the part.
    let gate = format!("{PART}>+50%");
    let (status, _, stderr) = run_to_end(&["diff", &before, &after, "--fail-if", &gate])?;
    ensure!(status.code() == Some(1), "{status}: {stderr}");
    ensure!(stderr.contains(PART), "{stderr}");
    Ok(())
}
