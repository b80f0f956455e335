//! `netto synth` sends what it would write, and only where it may.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::child::{self, Owned};
use crate::daemon;
use crate::lab::{Namespace, Network};
use crate::latency::kernels_count;
use crate::traffic;
use crate::trial::tests;

tests! {
    synth::what_arrives_is_what_the_file_has_byte_by_byte ["ip", "tcpdump"] = arrives;
    synth::tcpdump_finds_every_checksum_right ["tcpdump"] = checksums;
    synth::tshark_finds_checksums_and_sequence_right_with_and_without_a_vlan ["tshark"] = dissected;
    synth::packets_leave_at_their_times_and_not_before ["ip", "tcpdump"] = times;
    synth::an_interface_of_the_hosts_own_network_is_refused ["ip", "unshare"] = refused;
    synth::via_a_neighbour_packets_reach_its_whole_stack ["ip"] = via_a_neighbour;
    synth::sigint_ends_it_with_the_report ["ip"] = interrupted;
    synth::rates_beside_tcpreplay ["ip", "tcpreplay"] = rates;
}

const FLOWS: u64 = 300;
/// From SYN alone to all that there are.
const TCP_FLAGS: [u64; 9] = [2, 4, 16, 18, 20, 24, 26, 27, 31];
const MACS: [&str; 4] = [
    "--from-mac",
    "02:00:00:00:00:01",
    "--to-mac",
    "02:00:00:00:00:02",
];

/// Both ends of a cable in one namespace, over which nobody else talks.
fn cable() -> Result<Namespace> {
    let namespace = Namespace::new()?;
    namespace.sysctl("net/ipv6/conf/default/disable_ipv6", "1")?;
    namespace.ip("link add out type veth peer name in")?;
    namespace.ip("link set out up")?;
    namespace.ip("link set in up")?;
    Ok(namespace)
}

/// Flows of all protocols, some milliseconds after each other.
fn records() -> String {
    let mut text = String::new();
    for flow in 0..FLOWS {
        let (protocol, source_port, destination_port) = match flow % 8 {
            0 | 1 => (6, 40_000 + flow, 443),
            2 => (17, 50_000 + flow, 4000),
            3 => (1, 0, 0x0800),
            4 => (58, 0, 0x8000),
            5 => (2, 0, 0x1600),
            6 => (132, 7000 + flow, 7000),
            _ => (47, 0, 0),
        };
        let flags = match protocol {
            6 => TCP_FLAGS[(flow / 8) as usize % TCP_FLAGS.len()],
            _ => 0,
        };
        // More of these would be sent again, and tell the same.
        let is_alone = matches!(flags, 2 | 4);
        let packets = if is_alone { 1 } else { 1 + flow % 7 };
        let bytes = packets * (80 + flow * 4);
        let network = if protocol == 58 || flow % 16 == 1 {
            ["2001:db8::1:", "2001:db8::2:"]
        } else {
            [
                "10.1.1.",
                if protocol == 2 { "239.1.2." } else { "10.1.2." },
            ]
        };
        let host = 1 + flow % 200;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "1500000000.{:06},1500000000.{:06},{}{host},{}{host},{source_port},{destination_port},\
             {protocol},8,{flags},{packets},{bytes}",
            flow * 1000,
            flow * 1000 + 90_000,
            network[0],
            network[1],
        );
    }
    text
}

/// A folder with the records, and their path.
fn written(records: &str) -> Result<(TempDir, String)> {
    let folder = TempDir::new().context("no folder for the records")?;
    let path = folder.path().join("records.csv");
    std::fs::write(&path, records)?;
    Ok((folder, path.to_string_lossy().into_owned()))
}

/// The report of a run that is to succeed.
fn synth(command: &mut Command) -> Result<Value> {
    Ok(serde_json::from_str(&child::run(command)?)?)
}

fn to_file(records: &str, file: &Path) -> Result<Value> {
    let file = file.to_string_lossy();
    let words = ["synth", records, "--json", "--pcap", &file];
    synth(daemon::command(&words).args(MACS))
}

fn to_cable(namespace: &Namespace, records: &str, more: &[&str]) -> Result<Value> {
    let netto = daemon::binary();
    let mut command = namespace.command(&netto.to_string_lossy());
    command.args(["synth", records, "--json", "--to", "out"]);
    synth(command.args(MACS).args(more))
}

/// Times (ns) and bytes of the frames of a pcap file with nanoseconds.
fn frames(file: &Path) -> Result<Vec<(u64, Vec<u8>)>> {
    let bytes = std::fs::read(file)?;
    ensure!(
        bytes.starts_with(&0xa1b2_3c4d_u32.to_le_bytes()),
        "no nanoseconds"
    );
    let mut rest = bytes.get(24..).context("no header")?;
    let mut frames = Vec::new();
    while let Some((header, behind)) = rest.split_at_checked(16) {
        let word = |at: usize| -> Result<u64> {
            let four = header[at..at + 4].try_into()?;
            Ok(u32::from_le_bytes(four).into())
        };
        let length = usize::try_from(word(8)?)?;
        let (frame, next) = behind.split_at_checked(length).context("a frame is cut")?;
        frames.push((word(0)? * 1_000_000_000 + word(4)?, frame.to_vec()));
        rest = next;
    }
    Ok(frames)
}

/// Runs something while so many packets that come out of the cable are written to a file.
fn captured(
    namespace: &Namespace,
    count: u64,
    file: &Path,
    act: impl FnOnce() -> Result<Value>,
) -> Result<Value> {
    let mut command = namespace.command("tcpdump");
    command.args([
        "-i",
        "in",
        "--time-stamp-precision=nano",
        "-B",
        "16384",
        "-s",
        "0",
    ]);
    command
        .args(["-Z", "root", "-c", &count.to_string(), "-w"])
        .arg(file);
    let mut tcpdump = Owned::start(&mut command)?;
    child::eventually(|| {
        ensure!(
            tcpdump.stderr().contains("listening on"),
            "tcpdump does not listen"
        );
        Ok(())
    })?;
    let report = act()?;
    tcpdump.wait()?;
    Ok(report)
}

fn arrives() -> Result<()> {
    let (folder, records) = written(&records())?;
    let file = folder.path().join("file.pcap");
    let expected = to_file(&records, &file)?;
    let packets = expected["packets"].as_u64().context("no packets")?;
    ensure!(
        expected["records"] == FLOWS && expected["refused"] == 0,
        "{expected}"
    );
    let expected_frames = frames(&file)?;
    ensure!(
        expected_frames.len() as u64 == packets,
        "the file has {} frames",
        expected_frames.len()
    );
    let namespace = cable()?;
    for way in ["ring", "sendmmsg"] {
        let before = namespace.received_packets("in")?;
        let file = folder.path().join(way);
        let report = captured(&namespace, packets, &file, || {
            let more = ["--send-by", way, "--speed", "max"];
            to_cable(&namespace, &records, &more)
        })?;
        for name in ["records", "packets", "bytes", "frame_bytes", "is_whole"] {
            ensure!(
                report[name] == expected[name],
                "{name} of {report}, not of {expected}"
            );
        }
        ensure!(report["sent_by"] == way, "{report}");
        let received = namespace.received_packets("in")? - before;
        ensure!(
            received == packets,
            "{received} packets of {packets} came by {way}"
        );
        let arrived = frames(&file)?;
        ensure!(
            arrived.len() == expected_frames.len(),
            "{} frames",
            arrived.len()
        );
        for (number, ((_, came), (_, should))) in arrived.iter().zip(&expected_frames).enumerate() {
            ensure!(
                came == should,
                "frame {number} is another by {way}:\n{came:x?}\n{should:x?}"
            );
        }
    }
    Ok(())
}

fn via_a_neighbour() -> Result<()> {
    const PACKETS: u64 = 7;
    let network = Network::direct()?;
    let hosts = [
        ("192.0.2.9", network.right_v4.to_string()),
        ("2001:db8::9", network.right_v6.to_string()),
    ];
    for (from, host) in hosts {
        let (_folder, records) = written(&format!(
            "1500000000,1500000000,{from},{host},4000,4000,6,0,2,{PACKETS},{}\n",
            PACKETS * 100
        ))?;
        // TCP counts only what was sent to the host's own Ethernet address.
        let before = kernels_count(&network.right, "Tcp:", "InSegs")?;
        let netto = daemon::binary();
        let mut command = network.left.command(&netto.to_string_lossy());
        command.args(["synth", &records, "--json", "--to", "lan", "--via", &host]);
        let report = synth(&mut command)?;
        ensure!(report["packets"] == PACKETS, "{report}");
        child::eventually(|| {
            let came = kernels_count(&network.right, "Tcp:", "InSegs")? - before;
            ensure!(came == PACKETS, "{came} of {PACKETS} came to {host}");
            Ok(())
        })?;
    }
    Ok(())
}

fn checksums() -> Result<()> {
    let (folder, records) = written(&records())?;
    let file = folder.path().join("file.pcap");
    let report = to_file(&records, &file)?;
    let mut tcpdump = Command::new("tcpdump");
    let text = child::run(
        tcpdump
            .args(["-n", "-t", "-vv", "-Z", "root", "-r"])
            .arg(&file),
    )?;
    for complaint in ["bad", "incorrect", "wrong", "invalid", "[|"] {
        let line = text.lines().find(|line| line.contains(complaint));
        ensure!(line.is_none(), "tcpdump says: {line:?}");
    }
    for (sign, kinds) in [("(correct)", 3), ("udp sum ok", 1), ("icmp6 sum ok", 1)] {
        let count = text.matches(sign).count() as u64;
        ensure!(
            count >= kinds * FLOWS / 8,
            "{count} times {sign} in {report}"
        );
    }
    Ok(())
}

/// tshark calculates checksums and follows connections; what it says of the packets is what the
/// records say.
fn dissected() -> Result<()> {
    const CHECKSUMS: [&str; 7] = ["ip", "tcp", "udp", "icmp", "icmpv6", "igmp", "sctp"];
    const EXPECTED: [&str; 2] = [
        "Connection reset (RST)",
        "This frame initiates the connection closing",
    ];
    let (folder, records) = written(&records())?;
    let file = folder.path().join("file.pcap");
    let file = file.to_string_lossy();
    for vlan in [&[][..], &["--vlan", "7"]] {
        let words = ["synth", &records, "--json", "--pcap", &file];
        let report = synth(daemon::command(&words).args(vlan))?;
        let mut tshark = child::mortal("tshark");
        tshark.args(["-n", "-r", &file, "-z", "expert,note", "-T", "fields"]);
        for name in CHECKSUMS {
            tshark.args(["-e", &format!("{name}.checksum.status")]);
        }
        tshark.args(["-e", "vlan.id", "-o", "sctp.checksum:crc-32c"]);
        for name in ["ip", "tcp", "udp"] {
            tshark.args(["-o", &format!("{name}.check_checksum:TRUE")]);
        }
        let text = child::run(&mut tshark)?;
        let packets = report["packets"].as_u64().context("no packets")?;
        let mut good = [0; CHECKSUMS.len()];
        let (mut frames, mut tagged) = (0, 0);
        for line in text.lines() {
            if let [sums @ .., vlan] = &line.split('\t').collect::<Vec<_>>()[..]
                && sums.len() == CHECKSUMS.len()
            {
                frames += 1;
                tagged += u64::from(*vlan == "7");
                for (name, (sum, good)) in CHECKSUMS.iter().zip(sums.iter().zip(&mut good)) {
                    ensure!(
                        matches!(*sum, "" | "1"),
                        "{name}'s sum of frame {frames}: {line}"
                    );
                    *good += u64::from(*sum == "1");
                }
                continue;
            }
            // The table of what it finds remarkable: how often, which group, which protocol, what.
            let is_row = line
                .trim_start()
                .starts_with(|first: char| first.is_ascii_digit());
            let is_expected = EXPECTED.iter().any(|ending| line.ends_with(ending));
            ensure!(!is_row || is_expected, "tshark says: {line}");
        }
        ensure!(frames == packets, "{frames} frames of {packets}");
        ensure!(
            tagged == if vlan.is_empty() { 0 } else { packets },
            "{tagged} in the VLAN"
        );
        let least = FLOWS / 8;
        ensure!(
            good.iter().all(|count| *count >= least),
            "right: {good:?} of {CHECKSUMS:?}"
        );
    }
    Ok(())
}

fn times() -> Result<()> {
    let (folder, records) = written(&records())?;
    let file = folder.path().join("file.pcap");
    let options = ["--speed", "2x", "--limit-pps", "50000"];
    let words = [
        "synth",
        &records,
        "--json",
        "--pcap",
        &file.to_string_lossy(),
    ];
    let report = synth(daemon::command(&words).args(MACS).args(options))?;
    let packets = report["packets"].as_u64().context("no packets")?;
    let expected = frames(&file)?;
    let namespace = cable()?;
    let file = folder.path().join("arrived.pcap");
    let report = captured(&namespace, packets, &file, || {
        to_cable(&namespace, &records, &options)
    })?;
    let arrived = frames(&file)?;
    let (first, last) = (expected[0].0, expected[expected.len() - 1].0);
    let seconds = report["seconds"].as_f64().context("no seconds")?;
    ensure!(
        seconds >= (last - first) as f64 / 1e9,
        "{seconds} s are too short"
    );
    // How late packets are depends on who else runs here; that none is early does not. The first
    // packet may be late itself, which the report bounds, and who captures may be interrupted.
    const CLOCKS_NS: u64 = 20_000_000;
    let late_ns = report["lateness"]["max_ns"]
        .as_u64()
        .context("no lateness")?;
    for ((came_ns, _), (due_ns, _)) in arrived.iter().zip(&expected) {
        let (after, due) = (came_ns - arrived[0].0, due_ns - first);
        ensure!(
            after + late_ns + CLOCKS_NS >= due,
            "a packet is {} ns early",
            due - after
        );
    }
    Ok(())
}

fn refused() -> Result<()> {
    let (_folder, records) = written(&records())?;
    let namespace = cable()?;
    let netto = daemon::binary();
    // In a namespace of processes of its own, netto's is the first one's network.
    let mut command = namespace.command("unshare");
    command
        .args(["--pid", "--fork", "--kill-child", "--mount-proc"])
        .arg(&netto);
    command.args(["synth", &records, "--to", "out", "--speed", "max"]);
    let error = child::run(&mut command)
        .err()
        .context("it was not refused")?;
    ensure!(error.to_string().contains("--yes-really"), "{error:#}");
    ensure!(namespace.received_packets("in")? == 0, "packets were sent");
    child::run(command.arg("--yes-really")).map(drop)
}

fn interrupted() -> Result<()> {
    // A packet at once, and another in an hour.
    let hour = "1500000000,1500003600,10.1.1.1,10.1.1.2,4000,4000,17,0,0,2,200\n";
    let (_folder, records) = written(hour)?;
    let namespace = cable()?;
    let netto = daemon::binary();
    let mut command = namespace.command(&netto.to_string_lossy());
    command.args(["synth", &records, "--json", "--to", "out"]);
    let mut sender = Owned::start(&mut command)?;
    child::eventually(|| {
        ensure!(namespace.received_packets("in")? == 1, "no packet came");
        Ok(())
    })?;
    sender.signal("INT")?;
    let status = sender.wait()?;
    ensure!(status.success(), "{status}: {}", sender.stderr());
    let report: Value = serde_json::from_str(&sender.stdout())?;
    ensure!(
        report["packets"] == 1 && report["is_whole"] == false,
        "{report}"
    );
    Ok(())
}

/// How late a thread is that waits for each of the times at which so many packets a second are due,
/// and does nothing else, as `netto synth` says it.
fn bare_timer(per_second: u32) -> Value {
    let gap = Duration::from_secs(1) / per_second;
    let begun = Instant::now();
    let mut late_ns: Vec<u128> = (0..10 * per_second)
        .map(|number| {
            let due = gap * number;
            while begun.elapsed() < due {
                std::hint::spin_loop();
            }
            (begun.elapsed() - due).as_nanos()
        })
        .collect();
    late_ns.sort_unstable();
    let of = |share: usize| late_ns[(late_ns.len() - 1) * share / 1000] as u64;
    serde_json::json!({ "p50_ns": of(500), "p99_ns": of(990), "max_ns": of(1000) })
}

/// Prints rates and lateness of short packets to a receiver that drops them in XDP; wrong is only
/// what does not depend on the host: that all packets are there, by each way of sending.
fn rates() -> Result<()> {
    const ROUNDS: usize = 3;
    let mut text = String::new();
    for flow in 0..50_000_u64 {
        let packets = 1 + flow % 39;
        let (start, end) = (flow * 100, flow * 100 + 900_000);
        let _ = writeln!(
            text,
            "{}.{:06},{}.{:06},10.1.{}.{},192.0.2.1,{},4000,17,0,0,{packets},{}",
            1_500_000_000 + start / 1_000_000,
            start % 1_000_000,
            1_500_000_000 + end / 1_000_000,
            end % 1_000_000,
            flow % 251,
            1 + flow % 241,
            1024 + flow % 60_000,
            packets * 46
        );
    }
    let (folder, records) = written(&text)?;
    let file = folder.path().join("file.pcap");
    let expected = to_file(&records, &file)?;
    let file = file.to_string_lossy();
    let network = Network::direct()?;
    let _drop = traffic::agent(&network.right, &["attach", "xdp-drop", "lan"])?;
    let netto = daemon::binary();
    for _ in 0..ROUNDS {
        let words = format!("--topspeed --preload-pcap --intf1=lan {file}");
        let printed = network.left.run("tcpreplay", &words)?;
        let rate = printed.lines().find(|line| line.contains("Rated"));
        println!(
            "tcpreplay: {}",
            rate.context("tcpreplay has no rate")?.trim()
        );
        println!("a bare timer, 100 kHz: lateness {}", bare_timer(100_000));
        for (name, options) in [
            ("ring, max", "--speed max --send-by ring"),
            ("sendmmsg, max", "--speed max --send-by sendmmsg"),
            ("ring, paced, 10 Mpps", "--speed max --limit-pps 10000000"),
            ("ring, paced, 100 kpps", "--speed max --limit-pps 100000"),
        ] {
            let mut command = network.left.command(&netto.to_string_lossy());
            command.args(["synth", &records, "--json", "--to", "lan"]);
            let report = synth(command.args(options.split(' ')))?;
            let (packets, seconds) = (report["packets"].as_f64(), report["seconds"].as_f64());
            let (packets, seconds) = (packets.context("packets")?, seconds.context("seconds")?);
            println!(
                "{name}: {:.0} packets/s, lateness {}",
                packets / seconds,
                report["lateness"]
            );
            for count in ["packets", "bytes"] {
                ensure!(
                    report[count] == expected[count],
                    "{name}: {report}, not {expected}"
                );
            }
        }
    }
    Ok(())
}
