//! Traffic between namespaces: by this binary's own agents, and by iperf3.
//!
//! Everything started here stops when it is dropped.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::child::{self, Owned};
use crate::lab::Namespace;

/// The port that the sinks listen on.
const PORT: u16 = 5201;

/// An agent at work in a namespace.
pub fn agent(at: &Namespace, words: &[&str]) -> Result<Owned> {
    let binary = std::env::current_exe().context("cannot tell where this test binary is")?;
    let binary = binary
        .to_str()
        .context("this test binary has no UTF-8 path")?;
    let mut agent = Owned::start(at.command(binary).arg("agent").args(words))?;
    agent.wait_for_line("ready")?;
    Ok(agent)
}

/// The output of an agent that ends by itself.
pub fn agent_to_end(at: &Namespace, words: &[&str]) -> Result<String> {
    let binary = std::env::current_exe().context("cannot tell where this test binary is")?;
    let binary = binary
        .to_str()
        .context("this test binary has no UTF-8 path")?;
    child::run(at.command(binary).arg("agent").args(words))
}

fn socket(address: IpAddr) -> String {
    SocketAddr::new(address, PORT).to_string()
}

/// A stream of small UDP packets of one flow, without a receiver.
pub fn udp_blast(from: &Namespace, to: IpAddr) -> Result<Owned> {
    agent(from, &["udp-blast", &socket(to)])
}

/// A stream of small UDP packets of ever other flows, without a receiver.
pub fn udp_flows(from: &Namespace, to: IpAddr) -> Result<Owned> {
    agent(from, &["udp-flows", &socket(to)])
}

/// A stream of small UDP packets and a process that receives them.
pub fn udp(from: &Namespace, at: &Namespace, to: IpAddr) -> Result<[Owned; 2]> {
    let sink = agent(at, &["udp-sink", &socket(to)])?;
    Ok([udp_blast(from, to)?, sink])
}

/// One bulk TCP connection.
pub fn tcp(from: &Namespace, at: &Namespace, to: IpAddr) -> Result<[Owned; 2]> {
    let sink = agent(at, &["tcp-sink", &socket(to)])?;
    Ok([agent(from, &["tcp-blast", &socket(to)])?, sink])
}

/// iperf3's JSON report.
pub fn iperf3(
    from: &Namespace,
    at: &Namespace,
    to: IpAddr,
    seconds: u32,
    options: &str,
) -> Result<serde_json::Value> {
    let _server = Owned::start(
        at.command("iperf3")
            .args(["-s", "-1", "-B", &to.to_string()]),
    )?;
    child::eventually(|| {
        let report = from.run(
            "iperf3",
            &format!("-c {to} -t {seconds} -J --connect-timeout 1000 {options}"),
        )?;
        let report: serde_json::Value =
            serde_json::from_str(&report).context("iperf3 wrote no JSON")?;
        // Refused by a server that does not listen yet, it still exits with 0.
        if let Some(error) = report["error"].as_str() {
            bail!("iperf3: {error}");
        }
        Ok(report)
    })
}

/// A bulk TCP connection of iperf3 that lasts until dropped.
pub fn iperf3_load(from: &Namespace, at: &Namespace, to: IpAddr) -> Result<[Owned; 2]> {
    let to = to.to_string();
    let server = Owned::start(at.command("iperf3").args(["-s", "-1", "-B", &to]))?;
    let client = child::eventually(|| {
        let mut client = Owned::start(from.command("iperf3").args(["-c", &to, "-t", "60"]))?;
        std::thread::sleep(Duration::from_millis(300));
        match client.try_wait()? {
            Some(status) => bail!("iperf3 ended ({status}): {}", client.stderr()),
            None => Ok(client),
        }
    })?;
    Ok([client, server])
}
