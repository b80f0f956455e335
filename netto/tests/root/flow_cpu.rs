//! What a conversation costs: samples show whose the CPU time is where packets of one cost far more
//! than those of another.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use socket2::{SockFilter, SockRef};

use crate::child;
use crate::common::http;
use crate::daemon::Daemon;
use crate::flow_daemon::{answer, number, sums_hold};
use crate::flows::{OTHER_CPU, RECEIVING_CPU};
use crate::lab::Network;
use crate::traffic;
use crate::trial::tests;

tests! {
    flow_cpu::time_of_fragments_is_of_no_conversation_whose_ports_no_socket_has ["ip"] = fragments;
    flow_cpu::a_conversation_of_dear_packets_has_more_time_than_one_of_as_many_cheap_ones = dear;
}

/// Packets a second of each conversation.
const RATE: &str = "3000";
/// Divisions of the filter of dear packets, as many as a socket may have (`optmem_max`): some 10 µs.
const DIVISIONS: usize = 2_400;
/// How much dearer a packet of the one is at least than of the other; without samples both cost the
/// same. A packet costs up to 15 µs otherwise, and both figures have a margin of a tenth.
const DEARER: f64 = 1.2;
/// Time of dear packets that samples must have shown before figures are read: then both margins are a tenth.
const ENOUGH_NS: u64 = 400_000_000;

/// A socket whose filter, which runs when a packet is received, keeps the CPU busy.
pub fn dear_sink(at: SocketAddr) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(at)?;
    let instruction = |code: u32, k: u32| SockFilter::new(code as u16, 0, 0, k);
    let mut code = vec![
        instruction(libc::BPF_LD | libc::BPF_IMM, u32::MAX),
        instruction(libc::BPF_LDX | libc::BPF_IMM, 3),
    ];
    let divide = || instruction(libc::BPF_ALU | libc::BPF_DIV | libc::BPF_X, 0);
    code.extend(std::iter::repeat_with(divide).take(DIVISIONS));
    code.push(instruction(libc::BPF_RET | libc::BPF_K, u32::MAX));
    SockRef::from(&socket).attach_filter(&code)?;
    Ok(socket)
}

/// An agent on a CPU, by itself in no group.
fn agent(cpu: u32, words: &[&str]) -> Result<child::Owned> {
    let binary = std::env::current_exe().context("cannot tell where this test binary is")?;
    let binary = binary
        .to_str()
        .context("this test binary has no UTF-8 path")?;
    let mut command = child::mortal(binary);
    command.args(["agent", "on", &cpu.to_string()]).args(words);
    let mut agent = child::Owned::start(&mut command)?;
    agent.wait_for_line("ready")?;
    Ok(agent)
}

fn conversation(answer: &Value, port: u16) -> Result<Value> {
    let all = answer["conversations"].as_array().into_iter().flatten();
    let has_port = |end: &Value| end["port"] == port;
    let mut found = all.filter(|conversation| {
        conversation["ends"]
            .as_array()
            .into_iter()
            .flatten()
            .any(has_port)
    });
    found
        .next()
        .cloned()
        .context("no conversation of this port")
}

fn dear() -> Result<()> {
    let daemon = Daemon::start(&["--flows", "lo", "--owners", "process"])?;
    let ports = [child::free_port()?, child::free_port()?];
    let [dear, cheap] = ports.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)).to_string());
    let cpus = std::thread::available_parallelism()?.get();
    let receiving = RECEIVING_CPU.min(cpus as u32 - 1);
    // Both are received on one CPU, where packets alone tell nothing of them.
    let cpu = receiving.to_string();
    let loads = [
        agent(OTHER_CPU, &["udp-dear-sink", &dear])?,
        agent(OTHER_CPU, &["udp-sink", &cheap])?,
        agent(receiving, &["udp-paced", &dear, RATE, &cpu])?,
        agent(receiving, &["udp-paced", &cheap, RATE, &cpu])?,
    ];
    let found = child::eventually(|| {
        let answer = answer(&daemon)?;
        let dear = conversation(&answer, ports[0])?;
        ensure!(number(&dear, "sampled_cpu_ns")? >= ENOUGH_NS, "{dear}");
        Ok(answer)
    })?;
    sums_hold(&found)?;
    let both = [
        conversation(&found, ports[0])?,
        conversation(&found, ports[1])?,
    ];
    let of_packet = |conversation: &Value| -> Result<f64> {
        let packets = number(&conversation["sent"], "packets")?
            + number(&conversation["received"], "packets")?;
        Ok(number(conversation, "cpu_ns")? as f64 / packets as f64)
    };
    let ratio = of_packet(&both[0])? / of_packet(&both[1])?;
    println!("\na packet is {ratio:.3} times as dear: {both:#?}");
    ensure!(ratio >= DEARER, "{ratio:.3} of {both:?}");
    for conversation in &both {
        for name in ["cpu_margin_ns", "sent_cpu_ns", "sent_cpu_margin_ns"] {
            ensure!(
                number(conversation, name)? > 0,
                "no {name} of {conversation}"
            );
        }
    }
    // Beneath the process that receives it stands its conversation.
    child::eventually(|| {
        let answer: Value = http::get_ok(daemon.at, "/api/v1/owners?last=5m")?.json()?;
        let owners = answer["owners"].as_array().context("no owners")?;
        let mut receivers = owners.iter().filter(|owner| owner["pid"] == loads[0].pid());
        let receiver = receivers.next().context("the receiver is no owner")?;
        let received = conversation(receiver, ports[0])?;
        ensure!(number(&received, "cpu_ns")? > 0, "{receiver}");
        Ok(())
    })
}

/// Of fragmented datagrams: three fragments of Ethernet's size, whose payload would be port 0xabab.
const LARGE_BYTES: usize = 4_000;
const LARGE_PORT: u16 = 7_001;
const PAYLOAD: u8 = 0xab;
/// Datagrams in a row, and the pause after them.
const LARGE_BURST: usize = 20;
const PAUSE: Duration = Duration::from_millis(3);
/// Time of these conversations that must have been seen before ports are read: some hundred samples,
/// two of three of which are of later fragments.
const FRAGMENTS_NS: u64 = 150_000_000;

/// Datagrams that are larger than a packet, from a socket of this port that is not connected.
pub fn send_large(to: SocketAddr) -> Result<()> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, LARGE_PORT))?;
    loop {
        for _ in 0..LARGE_BURST {
            // Where nobody listens, errors come back.
            let _ = socket.send_to(&[PAYLOAD; LARGE_BYTES], to);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Protocol, ports and time of a conversation, nanoseconds.
type Conversation = (u64, [Option<u64>; 2], u64);

/// The conversations of these networks, by the owners that have them.
fn of_network(daemon: &Daemon) -> Result<Vec<Conversation>> {
    let answer: Value = http::get_ok(daemon.at, "/api/v1/owners?last=5m")?.json()?;
    let owners = answer["owners"].as_array().context("no owners")?;
    let conversations = owners
        .iter()
        .flat_map(|owner| owner["conversations"].as_array());
    let mut found = Vec::new();
    for conversation in conversations.flatten() {
        let ends = &conversation["ends"];
        let address = ends[0]["address"].as_str().context("no address")?;
        if !address.starts_with("10.77.") && !address.starts_with("fd77:") {
            continue;
        }
        let ports = [&ends[0]["port"], &ends[1]["port"]].map(Value::as_u64);
        let protocol = number(conversation, "protocol")?;
        found.push((protocol, ports, number(conversation, "cpu_ns")?));
    }
    Ok(found)
}

fn fragments() -> Result<()> {
    let daemon = Daemon::start(&["--flows", "lo", "--owners", "process"])?;
    let network = Network::routed()?;
    let sinks = [network.right_v4, network.right_v6]
        .map(|address| SocketAddr::new(address, LARGE_PORT).to_string());
    let mut agents = Vec::new();
    for sink in &sinks {
        agents.push(traffic::agent(&network.right, &["udp-sink", sink])?);
        agents.push(traffic::agent(&network.left, &["udp-large", sink])?);
    }
    let found = child::eventually(|| {
        let found = of_network(&daemon)?;
        let ns: u64 = found.iter().map(|(_, _, ns)| ns).sum();
        ensure!(ns >= FRAGMENTS_NS, "{found:?}");
        Ok(found)
    })?;
    let port = Some(u64::from(LARGE_PORT));
    let is_udp = |conversation: &&(u64, [Option<u64>; 2], u64)| conversation.0 == 17;
    ensure!(
        found
            .iter()
            .any(|conversation| is_udp(&conversation) && conversation.1 == [port; 2])
    );
    let strange: Vec<_> = found
        .iter()
        .filter(|conversation| {
            conversation.0 == 44 || is_udp(conversation) && conversation.1 != [port; 2]
        })
        .collect();
    ensure!(strange.is_empty(), "{strange:?} of {found:?}");
    Ok(())
}
