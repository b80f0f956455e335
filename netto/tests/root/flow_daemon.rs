//! `--flows`: the daemon counts the packets of an interface to their conversations, to the packet and
//! the byte; samples them where counting all costs too much, and says so; and follows an interface
//! that goes and comes back.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use metrics_common::Availability;
use serde_json::Value;

use crate::child;
use crate::common::http;
use crate::daemon::Daemon;
use crate::lab::Wire;
use crate::packets::sum;
use crate::trial::tests;
use crate::{measure, traffic};

tests! {
    flow_daemon::known_packets_are_one_conversation_in_answer_page_and_metrics ["ip"];
    flow_daemon::over_the_budget_packets_are_sampled_and_totals_have_all ["ip"] = sampled;
    flow_daemon::an_interface_that_goes_is_a_note_and_one_that_comes_back_is_counted ["ip"];
}

/// That a test sends.
pub const PACKETS: u64 = 700;
/// Of an agent's datagram, with the headers of IPv4 and UDP.
const BYTES: u64 = 64 + 28;
const PORT: u64 = 9;

fn start(wire: &Wire, more: &[&str]) -> Result<Daemon> {
    Daemon::start(&[&["--flows", wire.device.as_str()], more].concat())
}

pub fn answer(daemon: &Daemon) -> Result<Value> {
    http::get_ok(daemon.at, "/api/v1/flows?last=5m")?.json()
}

pub fn number(value: &Value, name: &str) -> Result<u64> {
    let number = value[name].as_u64();
    number.with_context(|| format!("no {name} in {value}"))
}

/// Sends so many through the interface.
pub fn send(wire: &Wire, packets: u64) -> Result<()> {
    let to = format!("{}:{PORT}", wire.nobody);
    let words = ["udp-count", &to, &packets.to_string()];
    traffic::agent_to_end(&wire.inside, &words).map(drop)
}

/// Conversations with the agent's port.
fn with_agent(answer: &Value) -> Vec<Value> {
    let all = answer["conversations"].as_array().into_iter().flatten();
    let is_with_agent = |conversation: &&Value| {
        conversation["protocol"] == 17 && conversation["ends"][1]["port"] == PORT
    };
    all.filter(is_with_agent).cloned().collect()
}

/// What is listed, not listed, by prefix and lost is all, and all time of the RX softirq and of sends is
/// somebody's.
pub fn sums_hold(answer: &Value) -> Result<()> {
    let [mut packets, mut bytes] = ["packets", "bytes"].map(|name| number(&answer["other"], name));
    let mut cpu_ns = number(answer, "other_cpu_ns")?;
    let mut sent_ns = number(answer, "other_sent_cpu_ns")?;
    for conversation in answer["conversations"].as_array().context("no list")? {
        for way in [&conversation["sent"], &conversation["received"]] {
            packets = Ok(packets? + number(way, "packets")?);
            bytes = Ok(bytes? + number(way, "bytes")?);
        }
        cpu_ns += number(conversation, "cpu_ns")?;
        sent_ns += conversation["sent_cpu_ns"].as_u64().unwrap_or(0);
    }
    let all = [
        packets? + number(answer, "prefix_packets")? + number(answer, "lost_packets")?,
        bytes? + number(answer, "prefix_bytes")? + number(answer, "lost_bytes")?,
        cpu_ns,
        sent_ns,
    ];
    let stated = [
        number(answer, "packets")?,
        number(answer, "bytes")?,
        number(answer, "rx_softirq_ns")?,
        number(answer, "sends_ns")?,
    ];
    ensure!(all == stated, "{all:?} of {stated:?}");
    Ok(())
}

/// Packets and bytes by the metrics.
fn exported(daemon: &Daemon) -> Result<[u64; 2]> {
    let samples = measure::parse(&http::get_ok(daemon.at, "/metrics")?.body)?;
    let of = |name: &str| sum(&samples, name, &[]) as u64;
    Ok([of("netto_flow_packets_total"), of("netto_flow_bytes_total")])
}

fn is_attached(device: &str) -> Result<bool> {
    let link = child::run(Command::new("ip").args(["-d", "link", "show", "dev", device]))?;
    Ok(link.contains("prog/xdp"))
}

fn known_packets_are_one_conversation_in_answer_page_and_metrics() -> Result<()> {
    let wire = Wire::new()?;
    let mut daemon = start(&wire, &["--flows-at", "auto"])?;
    ensure!(is_attached(&wire.device)?, "the program is at the device");
    send(&wire, PACKETS)?;
    let found = child::eventually(|| {
        let answer = answer(&daemon)?;
        let packets: Vec<u64> = with_agent(&answer)
            .iter()
            .map(|conversation| number(&conversation["sent"], "packets"))
            .collect::<Result<_>>()?;
        ensure!(packets.iter().sum::<u64>() >= PACKETS, "{answer}");
        Ok(answer)
    })?;
    sums_hold(&found)?;
    let [conversation] = &with_agent(&found)[..] else {
        bail!("it is one conversation: {found}");
    };
    let amounts = ["packets", "bytes"].map(|name| number(&conversation["sent"], name));
    let [packets, bytes] = amounts;
    ensure!(
        (packets?, bytes?) == (PACKETS, PACKETS * BYTES),
        "{conversation}"
    );
    ensure!(number(&conversation["received"], "packets")? == 0);
    ensure!(conversation["interface"] == wire.device, "{conversation}");
    let host = conversation["ends"][1]["address"].as_str();
    ensure!(host == Some(wire.nobody.to_string().as_str()));
    ensure!(found["one_in"] == 1 && conversation["margin_ratio"].is_null());
    // Whatever else came meanwhile, metrics and answers have the same packets.
    let before = ["packets", "bytes"].map(|name| number(&found, name));
    let metrics = exported(&daemon)?;
    let later = answer(&daemon)?;
    let after = ["packets", "bytes"].map(|name| number(&later, name));
    for ((before, exported), after) in before.into_iter().zip(metrics).zip(after) {
        let (before, after) = (before?, after?);
        ensure!(
            (before..=after).contains(&exported),
            "{before} {exported} {after}"
        );
    }
    let csv = http::get_ok(daemon.at, "/api/v1/flows?format=csv&last=5m")?.body;
    ensure!(
        csv.contains(&format!(",{PORT},,{PACKETS},{},0,0,", PACKETS * BYTES)),
        "{csv}"
    );
    ensure!(daemon.snapshot()?["flows"].is_object());
    daemon.process.signal("KILL")?;
    daemon.process.wait()?;
    child::eventually(|| {
        ensure!(
            !is_attached(&wire.device)?,
            "the program is there after SIGKILL"
        );
        Ok(())
    })
}

fn sampled() -> Result<()> {
    let wire = Wire::new()?;
    let daemon = start(&wire, &["--max-overhead", "0.1"])?;
    let _traffic = traffic::udp_blast(&wire.inside, wire.nobody)?;
    let found = child::eventually(|| {
        let answer = answer(&daemon)?;
        ensure!(number(&answer, "one_in")? > 1, "{answer}");
        Ok(answer)
    })?;
    sums_hold(&found)?;
    let info = daemon.info()?;
    ensure!(
        info.notes
            .iter()
            .any(|note| note.contains("estimated from sampled packets")),
        "{:?}",
        info.notes
    );
    // A conversation has all packets, of which a part was sampled.
    child::eventually(|| {
        let answer = answer(&daemon)?;
        sums_hold(&answer)?;
        let all = answer["conversations"].as_array().context("no list")?;
        let largest = all.first().context("no conversation")?;
        let packets = number(&largest["sent"], "packets")?;
        let sampled = number(largest, "sampled_packets")?;
        ensure!(
            sampled < packets && packets <= number(&answer, "packets")?,
            "{largest}"
        );
        ensure!(largest["margin_ratio"].as_f64() > Some(0.0), "{largest}");
        Ok(())
    })
}

fn an_interface_that_goes_is_a_note_and_one_that_comes_back_is_counted() -> Result<()> {
    let without = Daemon::start(&["--flows", "nettonone"])?;
    let info = without.info()?;
    drop(without);
    let instrument = info
        .instruments
        .iter()
        .find(|instrument| instrument.name == "flows");
    let Availability::Unavailable { reason } = &instrument.context("not listed")?.availability
    else {
        bail!("it runs without an interface");
    };
    ensure!(reason.contains("no interface nettonone"), "{reason}");

    let wire = Wire::new()?;
    let mut daemon = start(&wire, &[])?;
    let other = format!("{}x", wire.device);
    let rename = |from: &str, to: &str| -> Result<()> {
        for words in [
            vec!["link", "set", from, "down"],
            vec!["link", "set", from, "name", to],
            vec!["link", "set", to, "up"],
        ] {
            child::run(Command::new("ip").args(words))?;
        }
        Ok(())
    };
    let is_noted = |daemon: &Daemon| -> Result<bool> {
        let info = daemon.info()?;
        Ok(info
            .notes
            .iter()
            .any(|note| note.contains("until it is back")))
    };
    rename(&wire.device, &other)?;
    child::eventually(|| {
        ensure!(is_noted(&daemon)?, "no note of it");
        Ok(())
    })?;
    daemon.must_live()?;
    rename(&other, &wire.device)?;
    child::eventually(|| {
        ensure!(
            !is_noted(&daemon)? && is_attached(&wire.device)?,
            "not back"
        );
        Ok(())
    })?;
    send(&wire, 10)?;
    child::eventually(|| {
        let answer = answer(&daemon)?;
        let found = with_agent(&answer);
        let conversation = found.first().context("no conversation")?;
        ensure!(conversation["sent"]["packets"] == 10, "{conversation}");
        Ok(())
    })
}
