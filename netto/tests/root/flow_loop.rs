//! A closed loop: `netto synth` makes packets of random records, and `netto flows` makes records of
//! them again, which are the same.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use metrics_common::random::SplitMix64;
use serde_json::Value;

use crate::child;
use crate::daemon;
use crate::flow_table::{Flows, network};
use crate::trial::tests;

tests! {
    flow_loop::random_records_come_back_from_a_cable_as_they_were ["ip"] = || come_back(2_000);
    flow_loop::of_100000_random_records_each_comes_back_as_it_was ["ip"] = || come_back(100_000);
}

/// Time between the starts of two records, nanoseconds.
const GAP_NS: u64 = 200_000;
/// By how much the clocks that stamp packets may differ, nanoseconds.
const CLOCKS_NS: u64 = 20_000_000;
const TOS: u64 = 8;

/// What makes a flow: addresses, ports or type and code, protocol.
pub type Key = (String, String, [u64; 2], u64);

/// A flow as its record has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    packets: u64,
    bytes: u64,
    flags: u64,
    /// From the first packet of all.
    start_ns: u64,
    end_ns: u64,
}

/// Random records, no two of the same flow, in the order of their starts.
pub fn records(count: u64) -> BTreeMap<Key, Flow> {
    let mut random = SplitMix64(25);
    let mut flows = BTreeMap::new();
    for number in 0..count {
        // Type and code of ICMP and IGMP are where ports are.
        let (protocol, ports) = match random.below(7) {
            0 | 1 => (6, [1024 + random.below(60_000), 443]),
            2 | 3 => (
                17,
                [1024 + random.below(60_000), 1024 + random.below(60_000)],
            ),
            4 => (1, [8, 0]),
            5 => (58, [128, 0]),
            _ => (132, [7_000, 1024 + random.below(60_000)]),
        };
        let is_six = protocol == 58 || protocol != 1 && random.below(3) == 0;
        let host = |network: u64| {
            if is_six {
                let (first, second) = (number / 60_000 + 1, number % 60_000 + 1);
                format!("2001:db8:{network}::{first:x}:{second:x}")
            } else {
                let (first, second) = (16 * network + number / 62_500, number / 250 % 250);
                format!("10.{first}.{second}.{}", 1 + number % 250)
            }
        };
        let packets = 1 + random.below(12);
        let start_ns = number * GAP_NS;
        let lasts_us = if packets == 1 {
            0
        } else {
            random.below(200_000)
        };
        let flags = if protocol == 6 {
            [2, 24, 26, 27][random.below(4) as usize]
        } else {
            0
        };
        let flow = Flow {
            packets,
            bytes: packets * (80 + 4 * random.below(340)),
            flags,
            start_ns,
            end_ns: start_ns + lasts_us * 1_000,
        };
        flows.insert((host(1), host(2), ports, protocol), flow);
    }
    flows
}

/// As `netto synth` reads them.
pub fn csv(flows: &BTreeMap<Key, Flow>) -> String {
    let mut lines: Vec<_> = flows.iter().collect();
    lines.sort_by_key(|(_, flow)| flow.start_ns);
    let seconds = |ns: u64| {
        format!(
            "{}.{:09}",
            1_500_000_000 + ns / 1_000_000_000,
            ns % 1_000_000_000
        )
    };
    let mut text = String::new();
    for ((from, to, ports, protocol), flow) in lines {
        let [source, destination] = match protocol {
            1 | 58 => [0, ports[0] * 256 + ports[1]],
            _ => *ports,
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{},{},{from},{to},{source},{destination},{protocol},{TOS},{},{},{}",
            seconds(flow.start_ns),
            seconds(flow.end_ns),
            flow.flags,
            flow.packets,
            flow.bytes,
        );
    }
    text
}

fn key(flow: &Value) -> Result<Key> {
    let text = |name: &str| flow[name].as_str().map(str::to_owned).context("no address");
    let number = |name: &str| flow[name].as_u64();
    let ports = number("source_port")
        .or(number("type"))
        .zip(number("destination_port").or(number("code")));
    let (source, destination) = ports.with_context(|| format!("no ports: {flow}"))?;
    let protocol = number("protocol").context("no protocol")?;
    Ok((
        text("source")?,
        text("destination")?,
        [source, destination],
        protocol,
    ))
}

/// A flow of `netto flows`, whose times are from `begin_ns` on.
fn seen(flow: &Value, begin_ns: u64) -> Result<Flow> {
    let number = |name: &str| {
        flow[name]
            .as_u64()
            .with_context(|| format!("no {name}: {flow}"))
    };
    let names = flow["tcp_flags"].as_array().into_iter().flatten();
    let bits = ["fin", "syn", "rst", "psh", "ack"];
    let bit = |name: &Value| bits.iter().position(|flag| name == flag);
    let flags = names.map(|name| bit(name).map(|bit| 1 << bit).context("another flag"));
    Ok(Flow {
        packets: number("packets")?,
        bytes: number("bytes")?,
        flags: flags.sum::<Result<u64>>()?,
        start_ns: number("first_unix_ns")? - begin_ns,
        end_ns: number("last_unix_ns")? - begin_ns,
    })
}

/// Also prints by how much times differ. A host that is not quiet delivers packets late, so that
/// only being early is wrong.
fn come_back(count: u64) -> Result<()> {
    let expected = records(count);
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("records.csv");
    std::fs::write(&path, csv(&expected))?;
    let network = network()?;
    let flows = Flows::start(&network, &["--flows-at", "xdp", "--flows-max", "200000"])?;
    let netto = daemon::binary();
    let mut command = network.left.command(&netto.to_string_lossy());
    command.args(["synth", &path.to_string_lossy(), "--json", "--to", "lan"]);
    // To an address that nobody has, so that the receiver's stack takes no part.
    command.args(["--to-mac", "02:00:00:00:00:99"]);
    let sent: Value = serde_json::from_str(&child::run(&mut command)?)?;
    ensure!(sent["records"] == count && sent["refused"] == 0, "{sent}");
    let measured = flows.finish()?;
    let listed = measured["flows"].as_array().context("no flows")?;
    // A namespace has packets of its own.
    let returned: Vec<&Value> = listed
        .iter()
        .filter(|flow| flow["dscps"] == serde_json::json!([TOS >> 2]))
        .collect();
    let begin_ns = returned
        .iter()
        .filter_map(|flow| flow["first_unix_ns"].as_u64())
        .min();
    let begin_ns = begin_ns.context("no flow came back")?;
    let late_ns = sent["lateness"]["max_ns"].as_u64().context("no lateness")?;
    let mut found = BTreeMap::new();
    for flow in returned {
        let (key, seen) = (key(flow)?, seen(flow, begin_ns)?);
        let other = found.insert(key, seen);
        ensure!(other.is_none(), "a flow has two records: {flow}, {other:?}");
    }
    let mut furthest_ns = 0;
    for (key, should) in &expected {
        let came = found
            .remove(key)
            .with_context(|| format!("{key:?} did not come back"))?;
        let without_times = |flow: &Flow| (flow.packets, flow.bytes, flow.flags);
        ensure!(
            without_times(&came) == without_times(should),
            "{key:?} is {came:?}, not {should:?}"
        );
        for (came_ns, due_ns) in [
            (came.start_ns, should.start_ns),
            (came.end_ns, should.end_ns),
        ] {
            ensure!(
                came_ns + late_ns + CLOCKS_NS >= due_ns,
                "{key:?} is {came:?}, before {should:?}"
            );
            furthest_ns = furthest_ns.max(came_ns.abs_diff(due_ns));
        }
    }
    ensure!(found.is_empty(), "nobody sent {found:?}");
    println!(
        "\n{count} records: times differ by {} µs at most",
        furthest_ns / 1_000
    );
    Ok(())
}
