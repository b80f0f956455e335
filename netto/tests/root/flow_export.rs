//! `--flows-export`: what collectors and readers of IPFIX that are not netto's make of its records.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread::JoinHandle;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::child::{self, Owned};
use crate::common::http;
use crate::daemon::{self, Daemon};
use crate::flow_loop::{csv, records};
use crate::flow_table::{Flows, network};
use crate::lab::{Namespace, Wire};
use crate::traffic;
use crate::trial::tests;

tests! {
    flow_export::records_become_packets_that_are_the_same_flows_again;
    flow_export::nfcapd_has_the_same_totals ["ip", "nfcapd", "nfdump"];
    flow_export::tshark_has_no_complaint_about_a_file_or_a_connection ["tshark"] = tshark;
    flow_export::what_a_live_measurement_shows_is_in_its_file ["ip", "tshark"];
    flow_export::a_collector_that_comes_later_has_every_record_with_its_cpu_time ["ip", "tshark"];
    flow_export::a_full_disk_leaves_whole_messages_and_the_loss_is_told ["ip", "tshark"]
        = full_disk;
}

/// As many as the smallest buffer of a socket has room for.
const RECORDS: u64 = 300;
const NFCAPD_PORT: u16 = 9_995;
/// What tshark complains of: a warning and more, among them of records that are missing.
const COMPLAINTS: &str = "_ws.malformed or _ws.expert.severity >= 0x600000";
const DAMAGE: &str = "_ws.malformed";

/// A capture file of packets that netto synth has made of records.
fn packets(folder: &Path) -> Result<String> {
    let path = |name: &str| folder.join(name).display().to_string();
    let (table, pcap) = (path("records.csv"), path("x.pcap"));
    std::fs::write(&table, csv(&records(RECORDS)))?;
    child::run(&mut daemon::command(&["synth", &table, "--pcap", &pcap]))?;
    Ok(pcap)
}

/// Runs `netto flows` on a file, which exports.
fn export(netto: &mut Command, pcap: &str, target: &str) -> Result<Value> {
    let words = ["flows", "--json", "--read", pcap, "--flows-export", target];
    Ok(serde_json::from_str(&child::run(netto.args(words))?)?)
}

fn number(value: &Value, name: &str) -> Result<u64> {
    let number = value[name].as_u64();
    number.with_context(|| format!("no {name} in {value}"))
}

/// Packets of each record that tshark finds in a file.
fn packets_by_tshark(path: &Path) -> Result<Vec<u64>> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(path).args(["-T", "fields"]);
    command.args(["-E", "aggregator=,", "-e", "cflow.packets"]);
    let text = child::run(&mut command)?;
    let words = text.split([',', '\n']).filter(|word| !word.is_empty());
    words.map(|word| Ok(word.parse()?)).collect()
}

fn is_without(complaints: &str, path: &Path) -> Result<()> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(path).args(["-Y", complaints]);
    let complaints = child::run(&mut command)?;
    ensure!(complaints.trim().is_empty(), "{complaints}");
    Ok(())
}

fn records_become_packets_that_are_the_same_flows_again() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let pcap = packets(folder.path())?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (file, again) = (path("x.ipfix"), path("y.pcap"));
    let before = export(&mut daemon::command(&[]), &pcap, &format!("file:{file}"))?;
    child::run(&mut daemon::command(&["synth", &file, "--pcap", &again]))?;
    let words = ["flows", "--json", "--read", &again];
    let after: Value = serde_json::from_str(&child::run(&mut daemon::command(&words))?)?;
    let flows = |measured: &Value| -> BTreeSet<String> {
        let flows = measured["flows"].as_array().into_iter().flatten();
        flows.map(Value::to_string).collect()
    };
    let (before, after) = (flows(&before), flows(&after));
    ensure!(before.len() as u64 == RECORDS, "{} flows", before.len());
    let other: Vec<_> = before.symmetric_difference(&after).take(4).collect();
    ensure!(other.is_empty(), "{other:#?}");
    Ok(())
}

/// Bytes that wait in the sockets of a namespace that receive datagrams at this port; none without
/// such a socket.
fn waiting(namespace: &Namespace, port: u16) -> Result<Option<u64>> {
    let sockets = namespace.run("cat", "/proc/net/udp")?;
    let at = format!(":{port:04X}");
    let of_port = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (_, received) = words.get(4)?.split_once(':')?;
        let bytes = u64::from_str_radix(received, 16).ok()?;
        words.get(1)?.ends_with(&at).then_some(bytes)
    };
    Ok(sockets.lines().find_map(of_port))
}

fn nfcapd_has_the_same_totals() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let pcap = packets(folder.path())?;
    let kept = folder.path().join("kept");
    std::fs::create_dir(&kept)?;
    let namespace = Namespace::new()?;
    let port = NFCAPD_PORT;
    let mut command = namespace.command("nfcapd");
    command.args(["-b", "127.0.0.1", "-p", &port.to_string(), "-w"]);
    let mut collector = Owned::start(command.arg(&kept))?;
    child::eventually(|| {
        let ended = collector.try_wait()?;
        ensure!(ended.is_none(), "nfcapd: {}", collector.stderr());
        waiting(&namespace, port)?.context("nfcapd does not listen")
    })?;
    let mut netto = namespace.command(&daemon::binary().to_string_lossy());
    let measured = export(&mut netto, &pcap, &format!("udp://127.0.0.1:{port}"))?;
    child::eventually(|| {
        let left = waiting(&namespace, port)?;
        ensure!(left == Some(0), "{left:?} bytes wait");
        Ok(())
    })?;
    collector.signal("TERM")?;
    collector.wait()?;
    let listing = child::run(Command::new("nfdump").arg("-I").arg("-R").arg(&kept))?;
    let totals = &measured["totals"];
    for (name, expected) in [
        ("Flows", RECORDS),
        ("Packets", number(totals, "packets")?),
        ("Bytes", number(totals, "bytes")?),
        ("Sequence failures", 0),
    ] {
        let line = format!("{name}: {expected}");
        ensure!(
            listing.lines().any(|printed| printed == line),
            "not {line}: {listing}"
        );
    }
    Ok(())
}

/// A collector that takes one connection, and all that comes by it.
fn collector(listener: TcpListener) -> JoinHandle<std::io::Result<Vec<u8>>> {
    std::thread::spawn(move || {
        let mut messages = Vec::new();
        listener.accept()?.0.read_to_end(&mut messages)?;
        Ok(messages)
    })
}

/// Writes what came to a file.
fn keep(collector: JoinHandle<std::io::Result<Vec<u8>>>, file: &Path) -> Result<()> {
    match collector.join() {
        Ok(messages) => Ok(std::fs::write(file, messages?)?),
        Err(_) => bail!("the collector panicked"),
    }
}

fn tshark() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let pcap = packets(folder.path())?;
    let file = folder.path().join("x.ipfix");
    let target = format!("file:{}", file.display());
    let measured = export(&mut daemon::command(&[]), &pcap, &target)?;
    let connection = folder.path().join("connection.ipfix");
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let target = format!("tcp://{}", listener.local_addr()?);
    let collector = collector(listener);
    export(&mut daemon::command(&[]), &pcap, &target)?;
    keep(collector, &connection)?;
    for path in [&file, &connection] {
        is_without(COMPLAINTS, path)?;
        let found = packets_by_tshark(path)?;
        ensure!(found.len() as u64 == RECORDS, "{} records", found.len());
        let sum: u64 = found.iter().sum();
        ensure!(sum == number(&measured["totals"], "packets")?, "{sum}");
    }
    Ok(())
}

fn what_a_live_measurement_shows_is_in_its_file() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("x.ipfix");
    let target = format!("file:{}", file.display());
    let network = network()?;
    let flows = Flows::start(&network, &["--flows-idle", "1", "--flows-export", &target])?;
    let to = format!("{}:9", network.right_v4);
    traffic::agent_to_end(&network.left, &["udp-count", &to, "300"])?;
    let measured = flows.finish()?;
    is_without(COMPLAINTS, &file)?;
    let shown = measured["flows"].as_array().into_iter().flatten();
    let shown: Result<Vec<u64>> = shown.map(|flow| number(flow, "packets")).collect();
    let (mut shown, mut found) = (shown?, packets_by_tshark(&file)?);
    shown.sort_unstable();
    found.sort_unstable();
    ensure!(found == shown, "{found:?}, not {shown:?}");
    ensure!(found.iter().sum::<u64>() >= 300, "{found:?}");
    Ok(())
}

/// Has an agent send so many datagrams, and waits until the daemon has counted all so far. Gives their
/// CPU time so far.
fn count(daemon: &Daemon, wire: &Wire, packets: u64, all: u64) -> Result<u64> {
    let to = format!("{}:9", wire.nobody);
    traffic::agent_to_end(&wire.inside, &["udp-count", &to, &packets.to_string()])?;
    child::eventually(|| {
        let answer = http::get_ok(daemon.at, "/api/v1/flows?last=5m")?.json()?;
        let conversations = answer["conversations"].as_array().into_iter().flatten();
        let conversations = conversations.filter(|conversation| {
            conversation["protocol"] == 17 && conversation["ends"][1]["port"] == 9
        });
        let sum = |of: fn(&Value) -> &Value| -> Option<u64> {
            conversations
                .clone()
                .map(|conversation| of(conversation).as_u64())
                .sum()
        };
        let sent = sum(|conversation| &conversation["sent"]["packets"]);
        ensure!(sent == Some(all), "{sent:?} packets: {answer}");
        sum(|conversation| &conversation["cpu_ns"])
            .with_context(|| format!("no CPU time: {answer}"))
    })
}

/// Whether a note says that flows do not reach their collector.
fn is_away(daemon: &Daemon) -> Result<bool> {
    let notes = daemon.info()?.notes;
    Ok(notes.iter().any(|note| note.contains("flows do not reach")))
}

fn a_collector_that_comes_later_has_every_record_with_its_cpu_time() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let at = listener.local_addr()?;
    drop(listener);
    let wire = Wire::new()?;
    let target = format!("tcp://{at}");
    // Without owners the time is shared by packets: with them a short flow may have no sample.
    let options = [
        "--flows",
        &wire.device,
        "--flows-idle",
        "1",
        "--owners",
        "none",
    ];
    let daemon = Daemon::start(&[&options[..], &["--flows-export", &target]].concat())?;
    count(&daemon, &wire, 700, 700)?;
    child::eventually(|| {
        ensure!(is_away(&daemon)?, "no note of a collector that is away");
        Ok(())
    })?;
    let listener = TcpListener::bind(at)?;
    let collector = collector(listener);
    child::eventually(|| {
        ensure!(!is_away(&daemon)?, "the collector is there");
        Ok(())
    })?;
    // These are under way when the daemon ends.
    let counted_ns = count(&daemon, &wire, 10, 710)?;
    let (status, stderr) = daemon.terminate()?;
    ensure!(status.success(), "{status}: {stderr}");
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("x.ipfix");
    keep(collector, &file)?;
    is_without(COMPLAINTS, &file)?;
    let mut command = Command::new("tshark");
    command.arg("-r").arg(&file).args(["-V", "-Y", "cflow"]);
    let text = child::run(&mut command)?;
    let (mut packets, mut cpu_ns) = (0, 0);
    // What is before the first is the header.
    for record in text.split("\n        Flow ").skip(1) {
        let value = |name: &str| {
            let mut lines = record.lines();
            lines
                .find_map(|line| line.trim().strip_prefix(name))
                .map(str::trim)
        };
        if value("DstPort:") != Some("9 (9)") {
            continue;
        }
        packets += value("Packets:").context("no packets")?.parse::<u64>()?;
        ensure!(value("Direction:") == Some("Ingress (0)"), "{record}");
        let private =
            value("Enterprise Private entry:").with_context(|| format!("no CPU time: {record}"))?;
        let (_, hex) = private.split_once("(hex bytes):").context("no bytes")?;
        let hex = hex.replace(' ', "");
        cpu_ns += u64::from_str_radix(&hex, 16)?;
    }
    ensure!(packets == 710, "{packets} packets: {text}");
    ensure!(cpu_ns > 0, "no CPU time: {text}");
    ensure!(
        cpu_ns == counted_ns,
        "records have {cpu_ns} ns, conversations {counted_ns}"
    );
    Ok(())
}

fn full_disk() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let pcap = packets(folder.path())?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (disk, file, messages) = (path("disk"), path("x.ipfix"), path("said"));
    std::fs::create_dir(&disk)?;
    let netto = daemon::binary();
    // The mount is the namespace's.
    Namespace::new()?.run_script(&format!(
        "mount -t tmpfs -o size=8k none {disk}; \
         {} flows --json --read {pcap} --flows-export file:{disk}/x >/dev/null 2>{messages} && exit 1; \
         cat {disk}/x > {file}",
        netto.display()
    ))?;
    is_without(DAMAGE, Path::new(&file))?;
    let kept = packets_by_tshark(Path::new(&file))?.len() as u64;
    ensure!((1..RECORDS).contains(&kept), "{kept} records are kept");
    let messages = std::fs::read_to_string(messages)?;
    let lost = format!("{} records did not reach file:", RECORDS - kept);
    for part in [lost.as_str(), "No space left"] {
        ensure!(messages.contains(part), "not {part:?}: {messages}");
    }
    Ok(())
}
