//! `netto flows` at a real interface: frames that were made for it have their flows, to the packet and
//! the byte, by either hook; what has no flow is counted; and nothing stays behind.

use std::collections::BTreeSet;
use std::io::BufRead as _;
use std::os::fd::AsRawFd as _;

use anyhow::{Context, Result, ensure};
use libbpf_rs::query::ProgInfoIter;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrLike as _, sendto, socket,
};
use serde_json::Value;

use crate::child::{self, Owned};
use crate::daemon;
use crate::lab::Network;
use crate::lab_itself::needs_kernel;
use crate::traffic;
use crate::trial::tests;

#[allow(dead_code, reason = "the parser's own tests use the rest")]
#[path = "../../crates/features/flows/src/frames.rs"]
pub mod frames;

use frames::{ethernet, extension, gre, ipv4, ipv6, tcp, vxlan, with_ports};

tests! {
    flow_table::each_packet_is_counted_to_its_flow_by_either_hook ["ip"]
        = || ["xdp", "tc"].into_iter().try_for_each(counted);
    flow_table::packets_in_tunnels_are_counted_to_their_own_flows_if_that_is_asked_for ["ip"]
        = || ["xdp", "tc"].into_iter().try_for_each(inner);
    flow_table::every_frame_that_is_cut_off_is_malformed ["ip"];
    flow_table::each_of_many_flows_is_read_from_the_table ["ip"];
    flow_table::flows_without_room_are_counted_by_prefix_and_sums_are_right ["ip"];
    flow_table::a_flood_of_prefixes_is_counted_by_the_end_that_is_one ["ip"];
    flow_table::an_xdp_program_that_is_there_stays_and_tc_sees_the_packets ["ip"];
    flow_table::no_program_is_left_after_sigkill ["ip"];
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const PORTS: [u16; 2] = [40_000, 443];
/// The begin of the addresses of these tests' frames; a namespace has packets of its own.
const OWN: [&str; 2] = ["192.0.2.", "2001:db8:"];

/// Sends the frames that standard input has in hexadecimal, one a line: the agent's part.
pub fn send_frames(device: &str) -> Result<()> {
    let mut addresses = getifaddrs()?.filter(|address| address.interface_name == device);
    let link = addresses.find_map(|address| address.address?.as_link_addr().copied());
    let link = link.with_context(|| format!("no device {device}"))?;
    ensure!(link.family() == Some(AddressFamily::Packet));
    let socket = socket(
        AddressFamily::Packet,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let digits = (0..line.len()).step_by(2);
        let frame: Result<Vec<u8>, _> = digits
            .map(|at| u8::from_str_radix(&line[at..at + 2], 16))
            .collect();
        sendto(socket.as_raw_fd(), &frame?, &link, MsgFlags::empty())?;
    }
    Ok(())
}

/// Two hosts, of which the left one sends nothing of its own.
pub fn network() -> Result<Network> {
    let network = Network::direct()?;
    let result = network.left.sysctl("net/ipv6/conf/lan/disable_ipv6", "1");
    result.map(|()| network)
}

/// `netto flows` at the receiver's device.
pub struct Flows {
    process: Owned,
    /// What it has said at its start.
    stderr: String,
}

impl Flows {
    /// Starts it with these options, and waits until it measures.
    pub fn start(network: &Network, options: &[&str]) -> Result<Flows> {
        let binary = daemon::binary();
        let mut command = network.right.command(&binary.to_string_lossy());
        command.args(["flows", "lan", "--json", "--seconds", "300"]);
        let mut process = Owned::start(command.args(options))?;
        let stderr = child::eventually(|| {
            let ended = process.try_wait()?;
            let stderr = process.stderr();
            ensure!(
                ended.is_none() || stderr.contains("at most"),
                "it ended: {stderr}"
            );
            let is_ready = stderr.contains("at most");
            is_ready.then_some(stderr).context("it does not measure")
        })?;
        Ok(Flows { process, stderr })
    }

    /// Ends it by Ctrl+C, and reads what it prints.
    pub fn finish(mut self) -> Result<Value> {
        self.process.signal("INT")?;
        let status = self.process.wait()?;
        let (out, err) = (self.process.stdout(), self.process.stderr());
        ensure!(status.success(), "{status}: {err}");
        serde_json::from_str(&out).with_context(|| format!("no JSON: {out}"))
    }
}

/// Sends frames from left to right, and waits until they are there.
fn send(network: &Network, frames: &[Vec<u8>]) -> Result<()> {
    let before = network.right.received_packets("lan")?;
    let hex = |frame: &Vec<u8>| frame.iter().map(|byte| format!("{byte:02x}")).collect();
    let lines: Vec<String> = frames.iter().map(hex).collect();
    let binary = std::env::current_exe()?;
    let binary = binary.to_string_lossy();
    let orders = format!("{}\n", lines.join("\n"));
    network
        .left
        .feed(&binary, &["agent", "frames", "lan"], &orders)?;
    child::eventually(|| {
        let came = network.right.received_packets("lan")? - before;
        ensure!(came >= frames.len() as u64, "{came} of {}", frames.len());
        Ok(())
    })
}

/// A flow without its times.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    protocol: u64,
    ports: Vec<u64>,
    message: Vec<u64>,
    vlans: Vec<u64>,
    flags: Vec<String>,
    packets: u64,
    bytes: u64,
}

fn numbers(value: &Value) -> Vec<u64> {
    let values = value.as_array().into_iter().flatten();
    values.filter_map(Value::as_u64).collect()
}

fn seen(flow: &Value) -> Seen {
    let all = |names: [&str; 2]| {
        names
            .iter()
            .filter_map(|name| flow[name].as_u64())
            .collect()
    };
    let flags = flow["tcp_flags"].as_array().into_iter().flatten();
    Seen {
        protocol: flow["protocol"].as_u64().unwrap_or_default(),
        ports: all(["source_port", "destination_port"]),
        message: all(["type", "code"]),
        vlans: numbers(&flow["vlans"]),
        flags: flags.filter_map(Value::as_str).map(str::to_owned).collect(),
        packets: flow["packets"].as_u64().unwrap_or_default(),
        bytes: flow["bytes"].as_u64().unwrap_or_default(),
    }
}

/// The flows of these tests' frames.
fn own_flows(measured: &Value) -> impl Iterator<Item = &Value> {
    let flows = measured["flows"].as_array().into_iter().flatten();
    flows.filter(|flow| {
        let source = flow["source"].as_str().unwrap_or_default();
        OWN.iter().any(|address| source.starts_with(address))
    })
}

fn counted(hook: &str) -> Result<()> {
    if hook == "tc" {
        needs_kernel(6, 6, "tcx")?;
    }
    let network = network()?;
    let flows = Flows::start(&network, &["--flows-at", hook])?;
    let by = if hook == "xdp" { "XDP" } else { "tc" };
    ensure!(
        flows.stderr.contains(&format!("received by {by}")),
        "{}",
        flows.stderr
    );
    let udp = with_ports(PORTS, 8, &[0; 20]);
    let of_four = |payload: &[u8]| ethernet(&[], IPV4, payload);
    let tagged = |payload: &[u8]| ethernet(&[(0x8100, 7)], IPV4, payload);
    let frames = [
        of_four(&ipv4(0, 0, 17, &udp)),
        of_four(&ipv4(2, 0, 17, &udp)),
        tagged(&ipv4(0, 0, 17, &udp)),
        of_four(&ipv4(0, 0, 6, &tcp(PORTS, 0x02, 2, &[]))),
        of_four(&ipv4(0, 0, 6, &tcp(PORTS, 0x18, 0, &[0; 100]))),
        of_four(&ipv4(0, 0, 6, &tcp(PORTS, 0x11, 0, &[]))),
        of_four(&ipv4(0, 0, 1, &with_ports([0x0301, 0], 8, &[]))),
        // A packet in three fragments, whose later ones have no ports.
        of_four(&ipv4(0, 0x2000, 132, &with_ports(PORTS, 12, &[0; 12]))),
        of_four(&ipv4(0, 0x2003, 132, &[0; 24])),
        of_four(&ipv4(0, 6, 132, &[0; 5])),
        ethernet(
            &[],
            IPV6,
            &ipv6(0, &extension(60, 8, &extension(17, 16, &udp))),
        ),
        ethernet(&[], IPV6, &ipv6(17, &udp)),
        ethernet(&[], 0x88b5, &[0; 50]),
    ];
    send(&network, &frames)?;
    let measured = flows.finish()?;
    let mut found: Vec<Seen> = own_flows(&measured).map(seen).collect();
    found.sort();
    let ports: Vec<u64> = PORTS.iter().map(|port| u64::from(*port)).collect();
    let flow = |protocol, packets, bytes| Seen {
        protocol,
        ports: ports.clone(),
        packets,
        bytes,
        ..Seen::default()
    };
    let flags = ["fin", "syn", "psh", "ack"].map(str::to_owned);
    let mut expected = vec![
        flow(17, 2, 48 + 56),
        flow(17, 2, 92 + 68),
        Seen {
            vlans: vec![7],
            ..flow(17, 1, 48)
        },
        Seen {
            flags: flags.to_vec(),
            ..flow(6, 3, 48 + 140 + 40)
        },
        Seen {
            message: vec![3, 1],
            ports: vec![],
            ..flow(1, 1, 28)
        },
        flow(132, 3, 44 + 44 + 25),
    ];
    expected.sort();
    ensure!(
        found == expected,
        "by {hook}: {found:#?}, not {expected:#?}"
    );
    for flow in own_flows(&measured) {
        ensure!(
            flow["direction"] == "in" && flow["interface"] == "lan",
            "{flow}"
        );
        ensure!(
            flow["dscps"] == serde_json::json!([frames::TOS >> 2]),
            "{flow}"
        );
        ensure!(flow["least_ttl"] == frames::TTL, "{flow}");
    }
    let totals = &measured["totals"];
    ensure!(totals["other_packets"].as_u64() >= Some(1), "{totals}");
    ensure!(totals["malformed_packets"] == 0, "{totals}");
    ensure!(totals["lost_packets"] == 0, "{totals}");
    Ok(())
}

fn inner(hook: &str) -> Result<()> {
    if hook == "tc" {
        needs_kernel(6, 6, "tcx")?;
    }
    let network = network()?;
    let flows = Flows::start(&network, &["--flows-inner=true", "--flows-at", hook])?;
    let segment = ipv4(0, 0, 6, &tcp(PORTS, 0x10, 0, &[0; 10]));
    let udp = ipv6(0, &extension(17, 8, &with_ports(PORTS, 8, &[0; 10])));
    let of_four = |protocol, payload: &[u8]| ethernet(&[], IPV4, &ipv4(0, 0, protocol, payload));
    let frames = [
        of_four(47, &gre(0xb000, IPV4, &segment)),
        of_four(17, &vxlan(&ethernet(&[], IPV4, &segment))),
        ethernet(&[], IPV6, &ipv6(47, &gre(0x2000, IPV6, &udp))),
        of_four(17, &vxlan(&ethernet(&[(0x8100, 7)], IPV6, &udp))),
        of_four(17, &vxlan(&ethernet(&[], 0x0806, &[0; 28]))),
    ];
    send(&network, &frames)?;
    let measured = flows.finish()?;
    let mut found: Vec<_> = own_flows(&measured)
        .map(|flow| {
            let record = seen(flow);
            (
                record.protocol,
                record.ports[0],
                record.vlans,
                record.packets,
                record.bytes,
            )
        })
        .collect();
    found.sort();
    let port = u64::from(PORTS[0]);
    let expected = [
        (6, port, vec![], 2, 2 * 50),
        (17, port, vec![], 1, 66),
        (17, port, vec![7], 1, 66),
        (17, 50_000, vec![], 1, 78),
    ];
    ensure!(found == expected, "by {hook}: {found:?}, not {expected:?}");
    ensure!(measured["totals"]["malformed_packets"] == 0, "{measured}");
    Ok(())
}

fn every_frame_that_is_cut_off_is_malformed() -> Result<()> {
    let udp = with_ports(PORTS, 8, &[0; 4]);
    let whole = [
        ethernet(&[(0x88a8, 1), (0x8100, 2)], IPV4, &ipv4(3, 0, 17, &udp)),
        ethernet(&[], IPV4, &ipv4(0, 0, 6, &tcp(PORTS, 0x02, 2, &[]))),
        ethernet(
            &[],
            IPV6,
            &ipv6(0, &extension(60, 8, &extension(17, 16, &udp))),
        ),
        ethernet(&[], IPV6, &ipv6(58, &with_ports([0x8000, 0], 8, &[]))),
        ethernet(
            &[],
            IPV4,
            &ipv4(0, 0, 47, &gre(0xb000, IPV4, &ipv4(0, 0, 17, &udp))),
        ),
    ];
    // The kernel sends no frame without an Ethernet header.
    let cut = |frame: &Vec<u8>| -> Vec<_> {
        (14..frame.len())
            .map(|bytes| frame[..bytes].to_vec())
            .collect()
    };
    let frames: Vec<Vec<u8>> = whole.iter().flat_map(cut).collect();
    let network = network()?;
    let flows = Flows::start(&network, &["--flows-at", "xdp", "--flows-inner=true"])?;
    send(&network, &frames)?;
    let measured = flows.finish()?;
    let malformed = measured["totals"]["malformed_packets"].as_u64();
    ensure!(
        malformed == Some(frames.len() as u64),
        "{malformed:?} of {}",
        frames.len()
    );
    let bytes: usize = frames.iter().map(Vec::len).sum();
    ensure!(measured["totals"]["malformed_bytes"] == bytes, "{measured}");
    ensure!(own_flows(&measured).count() == 0, "{measured}");
    Ok(())
}

/// Whatever was full, packets and bytes are those of flows, of prefixes, and of those lost.
fn all_is_counted(measured: &Value) -> Result<()> {
    let number = |value: &Value| value.as_u64().context("no number");
    let totals = &measured["totals"];
    for what in ["packets", "bytes"] {
        let sum = |list: &str| -> u64 {
            let rows = measured[list].as_array().into_iter().flatten();
            rows.filter_map(|row| row[what].as_u64()).sum()
        };
        let others = number(&measured["not_listed"][what])?;
        let lost = number(&totals[format!("lost_{what}")])?;
        let all = number(&totals[what])?;
        let found = sum("flows") + sum("prefixes") + others + lost;
        ensure!(all == found, "{what}: {all}, not {found}: {totals}");
    }
    Ok(())
}

/// Packets of the prefixes of these lengths, and at least how many flows the largest has.
fn by_prefix(measured: &Value, bits: [u64; 2]) -> [u64; 2] {
    let rows = measured["prefixes"].as_array().into_iter().flatten();
    let of_bits = rows
        .filter(|row| row["source"]["bits"] == bits[0] && row["destination"]["bits"] == bits[1]);
    of_bits.fold([0, 0], |[packets, flows], row| {
        let number = |name: &str| row[name].as_u64().unwrap_or_default();
        [
            packets + number("packets"),
            flows.max(number("least_flows")),
        ]
    })
}

fn each_of_many_flows_is_read_from_the_table() -> Result<()> {
    let network = network()?;
    let flows = Flows::start(&network, &["--flows-at", "xdp"])?;
    let frame = |port: u16| {
        let udp = with_ports([port, 53], 8, &[]);
        ethernet(&[], IPV4, &ipv4(0, 0, 17, &udp))
    };
    let count = 20_000;
    send(&network, &(1..=count).map(frame).collect::<Vec<_>>())?;
    let measured = flows.finish()?;
    all_is_counted(&measured)?;
    let found = own_flows(&measured).count();
    ensure!(found == usize::from(count), "{found} flows");
    Ok(())
}

fn flows_without_room_are_counted_by_prefix_and_sums_are_right() -> Result<()> {
    let network = network()?;
    let flows = Flows::start(&network, &["--flows-max", "8"])?;
    let frame = |port: u16| {
        let udp = with_ports([port, 53], 8, &[0; 7]);
        match port % 2 {
            0 => ethernet(&[], IPV4, &ipv4(0, 0, 17, &udp)),
            _ => ethernet(&[], IPV6, &ipv6(17, &udp)),
        }
    };
    send(&network, &(1..=2_000).map(frame).collect::<Vec<_>>())?;
    let measured = flows.finish()?;
    all_is_counted(&measured)?;
    let totals = &measured["totals"];
    ensure!(totals["packets"].as_u64() >= Some(2_000), "{totals}");
    ensure!(totals["lost_packets"] == 0, "{totals}");
    for bits in [[24, 32], [48, 128]] {
        let [packets, flows] = by_prefix(&measured, bits);
        ensure!(packets > 500 && packets <= 1_000, "{bits:?}: {measured}");
        ensure!(flows > 100 && flows <= 256, "{flows} flows");
    }
    let notes = measured["notes"].to_string();
    ensure!(notes.contains("because the table was full"), "{notes}");
    Ok(())
}

fn a_flood_of_prefixes_is_counted_by_the_end_that_is_one() -> Result<()> {
    let network = network()?;
    let flows = Flows::start(&network, &["--flows-max", "8", "--flows-at", "xdp"])?;
    let udp = with_ports(PORTS, 8, &[0; 7]);
    let frame = ethernet(&[], IPV4, &ipv4(0, 0, 17, &udp));
    // As many networks, and then as many hosts, as the tables of prefixes cannot hold, also if one of
    // the intervals ends within.
    let from = |number: u16| {
        let mut frame = frame.clone();
        frame[27..29].copy_from_slice(&number.to_be_bytes());
        frame
    };
    let to = |number: u16| {
        let mut frame = frame.clone();
        frame[32..34].copy_from_slice(&number.to_be_bytes());
        frame
    };
    let frames: Vec<_> = (0..4_000).map(from).chain((0..2_000).map(to)).collect();
    send(&network, &frames)?;
    let measured = flows.finish()?;
    all_is_counted(&measured)?;
    for bits in [[24, 32], [0, 32], [24, 0]] {
        let [packets, flows] = by_prefix(&measured, bits);
        ensure!(packets > 0 && flows > 0, "{bits:?}: {measured}");
    }
    let [packets, flows] = by_prefix(&measured, [0, 32]);
    ensure!(packets > 1_000 && flows > 200, "{packets} {flows}");
    ensure!(measured["totals"]["lost_packets"] == 0, "{measured}");
    Ok(())
}

fn an_xdp_program_that_is_there_stays_and_tc_sees_the_packets() -> Result<()> {
    needs_kernel(6, 6, "tcx")?;
    let network = network()?;
    let _other = traffic::agent(&network.right, &["attach", "xdp-generic", "lan"])?;
    let flows = Flows::start(&network, &[])?;
    for part in ["another XDP program is there", "received by tc"] {
        ensure!(flows.stderr.contains(part), "{part}: {}", flows.stderr);
    }
    let udp = ethernet(&[], IPV4, &ipv4(0, 0, 17, &with_ports(PORTS, 8, &[])));
    send(&network, &[udp])?;
    ensure!(own_flows(&flows.finish()?).count() == 1);
    let device = network.right.ip("-details link show lan")?;
    ensure!(
        device.contains("xdpgeneric"),
        "the other program is gone: {device}"
    );
    Ok(())
}

/// Numbers of the programs of `netto flows` in the kernel.
fn programs() -> BTreeSet<u32> {
    let all = ProgInfoIter::default();
    let of_flows = all.filter(|info| info.name.to_string_lossy().starts_with("netto_flows"));
    of_flows.map(|info| info.id).collect()
}

fn no_program_is_left_after_sigkill() -> Result<()> {
    let network = network()?;
    let before = programs();
    let mut flows = Flows::start(&network, &[])?;
    let started = &programs() - &before;
    ensure!(!started.is_empty(), "it measures without a program");
    flows.process.signal("KILL")?;
    flows.process.wait()?;
    child::eventually(|| {
        let left = &programs() & &started;
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    })
}
