//! A situation for each rule of advice, and its mended twin, on the real kernel: the rule holds, ends
//! once what it says was done, and no more is gained than it had said.
//!
//! Loads are paced, so that both do the same work. What changes the whole machine is for guests only.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::advice::{command, ended, idle_cpus, is_bounded, type_here, wait_for};
use crate::child::{self, Owned};
use crate::daemon::Daemon;
use crate::flows::{agent, needs_two_cpus, steer};
use crate::groups::Group;
use crate::lab::{self, Namespace, Network, Wire};
use crate::trial::tests;
use crate::{advice, guest, hostile, stall, traffic};

tests! {
    advised::rps_without_need_is_told_until_it_is_off ["ip"];
    advised::a_backlog_that_drops_is_told_until_it_is_longer ["ip"];
    advised::a_budget_that_ends_softirqs_is_told_until_it_is_larger ["ip"];
    advised::a_reader_without_its_cpu_is_told_until_it_has_another ["ip"];
    advised::tracking_without_need_is_told_until_it_is_off ["ip", "nft"];
    advised::long_lists_of_rules_are_told_until_they_are_a_set ["ip", "nft"];
    advised::small_writes_are_told_until_they_are_large ["ip"];
    advised::copies_are_told_until_files_are_sent ["ip"];
    advised::frames_that_are_not_merged_are_told_until_they_are_one_messages ["ip", "ethtool"];
    advised::segments_by_cpus_are_told_until_the_device_cuts ["ip", "ethtool"];
    advised::checksums_by_cpus_are_told_until_the_device_computes ["ip", "ethtool"];
    advised::a_card_without_gro_is_told_until_it_is_on ["ip", "ethtool"];
    advised::full_receive_buffers_are_told_until_they_are_read ["ip"];
    advised::memory_pressure_is_told_until_it_is_read ["ip"];
    advised::timers_that_pace_are_told_until_there_are_none ["ip", "tc"];
    advised::polls_for_nothing_are_told_until_the_reader_sleeps ["ip", "ethtool"];
    advised::threads_that_look_for_requests_are_told_until_they_sleep;
    advised::an_owner_who_pays_is_told_until_it_has_another_cpu ["ip"];
    advised::what_netto_costs_is_told_until_its_budget_is_small ["ip"];
    advised::what_hardware_could_do_is_told_until_it_is_not_done ["ip", "nft"];
}

const PORT: u16 = 6001;
/// The CPU that sends, and the one to which packets are steered.
const SENDS: u32 = 0;
const RECEIVES: u32 = 1;
/// Rules that no packet matches.
const RULES: u16 = 2_000;
/// Address of the host's end of a wire, for what the host itself sends or receives.
const AT: &str = "10.77.9.2";
/// Part of a stated gain that mending takes at least, where most of it goes.
const LEAST_GAINED: f64 = 0.25;

/// This machine's number, or that of an emulated one, which is some twenty times slower.
fn here_or_in_guests(here: &'static str, guests: &'static str) -> &'static str {
    if guest::is_one() { guests } else { here }
}

/// An error until a daemon keeps to its budget.
fn settled(daemon: &Daemon) -> Result<()> {
    ensure!(daemon.sequence()? >= SETTLED, "it has only begun");
    Ok(())
}

/// A rule holds, ends when it is mended, and no more is gained than it had said.
fn is_mended<T>(daemon: &Daemon, rule: &str, mend: impl FnOnce(&Value) -> Result<T>) -> Result<()> {
    gain(daemon, rule, mend).map(drop)
}

/// The same where most of what is named goes: without this a bound of all CPUs would hold, too.
fn most_is_gained<T>(
    daemon: &Daemon,
    rule: &str,
    mend: impl FnOnce(&Value) -> Result<T>,
) -> Result<()> {
    let (advice, gained) = gain(daemon, rule, mend)?;
    let stated = advice["gain_cpus"].as_f64().context("no gain is stated")?;
    ensure!(
        gained >= LEAST_GAINED * stated,
        "{gained:.2} CPUs were gained, of {stated:.2}"
    );
    Ok(())
}

/// What a rule said, and what mending it gained.
fn gain<T>(
    daemon: &Daemon,
    rule: &str,
    mend: impl FnOnce(&Value) -> Result<T>,
) -> Result<(Value, f64)> {
    // The first intervals lack what was measured before all probes were there.
    child::eventually(|| settled(daemon))?;
    let advice = wait_for(daemon, rule)?;
    let before = idle_cpus("cpu")?;
    let _mended = mend(&advice)?;
    child::eventually(|| ended(daemon, rule))?;
    let gained = idle_cpus("cpu")? - before;
    is_bounded(&advice, gained)?;
    Ok((advice, gained))
}

/// netto with few samples: what these cost of a CPU ends with the work on it, and is gained, too.
fn start(options: &[&str]) -> Result<Daemon> {
    let mut all = vec!["--frequency", "200"];
    all.extend(options);
    Daemon::start(&all)
}

/// Packets of many flows at this rate.
fn send_flows(from: &Namespace, to: std::net::IpAddr, per_second: &str) -> Result<Owned> {
    let (to, cpu) = (to.to_string(), SENDS.to_string());
    traffic::agent(from, &["udp-paced-flows", &to, per_second, &cpu])
}

/// A setting of the whole machine, which is as it was when this is dropped.
struct Setting {
    file: PathBuf,
    before: String,
}

impl Setting {
    fn new(path: &str, value: &str) -> Result<Self> {
        let file = Path::new("/proc/sys").join(path);
        let before = std::fs::read_to_string(&file).with_context(|| path.to_owned())?;
        std::fs::write(&file, value).with_context(|| path.to_owned())?;
        Ok(Setting { file, before })
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        // The guest ends with the tests in any case.
        let _ = std::fs::write(&self.file, &self.before);
    }
}

/// Gives the host an address at a wire.
fn address(wire: &Wire) -> Result<()> {
    let words = ["address", "add", &format!("{AT}/24"), "dev", &wire.device];
    child::run(Command::new("ip").args(words)).map(drop)
}

/// Switches an offload of a host's device.
fn offload(device: &str, words: &[&str]) -> Result<()> {
    child::run(Command::new("ethtool").args(["-K", device]).args(words)).map(drop)
}

/// An agent that stays on a CPU.
fn on(at: &Namespace, cpu: u32, words: &[&str]) -> Result<Owned> {
    let cpu = cpu.to_string();
    let words: Vec<&str> = ["on", &cpu]
        .into_iter()
        .chain(words.iter().copied())
        .collect();
    traffic::agent(at, &words)
}

/// Another CPU receives what a wire brings.
fn spread(wire: &Wire) -> Result<()> {
    let mask = 1 << RECEIVES;
    let queue = format!("/sys/class/net/{}/queues/rx-0/rps_cpus", wire.device);
    Ok(std::fs::write(&queue, format!("{mask:x}"))?)
}

fn rps_without_need_is_told_until_it_is_off() -> Result<()> {
    needs_two_cpus()?;
    let wire = Wire::new()?;
    spread(&wire)?;
    let _sender = send_flows(&wire.inside, wire.nobody, here_or_in_guests("5000", "1500"))?;
    let daemon = start(&[])?;
    // How the device is set up is known after the first reading.
    child::eventually(|| {
        let advice = advice::given(&daemon, "rps-without-need")?;
        let evidence = advice["evidence"].as_str().context("no evidence")?;
        let expected = format!("; it is on for {}", wire.device);
        ensure!(evidence.ends_with(&expected), "{evidence}");
        Ok(())
    })?;
    is_mended(&daemon, "rps-without-need", |advice| type_here(advice, 0))
}

/// Bursts of datagrams that another CPU receives, with so many nanoseconds for each there.
fn bursts(network: &Network, count: &str, pause_ms: &str, packet_ns: &str) -> Result<[Owned; 2]> {
    steer(&network.right, "lan")?;
    let burning = traffic::agent(&network.right, &["burn-xdp", "lan", packet_ns])?;
    // To an address that does not answer, because an error would take the place of the next datagram.
    let to = format!("{}:{PORT}", network.nobody_v4);
    let sender = on(&network.left, SENDS, &["udp-bursts", &to, count, pause_ms])?;
    Ok([sender, burning])
}

fn a_backlog_that_drops_is_told_until_it_is_longer() -> Result<()> {
    guest::only()?;
    needs_two_cpus()?;
    let _set = [Setting::new("net/core/netdev_max_backlog", "250")?];
    let network = Network::direct()?;
    // A burst is received before the next, and more than the backlog holds waits meanwhile.
    let _load = bursts(&network, "900", "1500", "2000000")?;
    let daemon = start(&[])?;
    is_mended(&daemon, "backlog-drops", |advice| {
        ensure!(
            command(advice, 0)? == "sysctl -w net.core.netdev_max_backlog=1000",
            "{advice}"
        );
        type_here(advice, 0)
    })
}

fn a_budget_that_ends_softirqs_is_told_until_it_is_larger() -> Result<()> {
    guest::only()?;
    needs_two_cpus()?;
    // An emulated CPU does not get the usual 64 and 300 packets in time.
    let _set = [
        Setting::new("net/core/dev_weight", "4")?,
        Setting::new("net/core/netdev_budget", "4")?,
        Setting::new("net/core/netdev_budget_usecs", "100000")?,
    ];
    let network = Network::direct()?;
    // More than one budget in a burst, and less than two.
    let _load = bursts(&network, "7", "8", "600000")?;
    let daemon = start(&[])?;
    is_mended(&daemon, "budget-exhausted", |advice| {
        let expected = "sysctl -w net.core.netdev_budget=8 net.core.netdev_budget_usecs=200000";
        ensure!(command(advice, 0)? == expected, "{advice}");
        type_here(advice, 0)
    })
}

fn a_reader_without_its_cpu_is_told_until_it_has_another() -> Result<()> {
    needs_two_cpus()?;
    // Full sockets are counted in netto's own network namespace.
    let wire = Wire::new()?;
    address(&wire)?;
    spread(&wire)?;
    let to = format!("{AT}:{PORT}");
    // Softirqs want more than one CPU, and the reader less than one for what they deliver.
    let packet_ns = here_or_in_guests("20000", "250000");
    let work_ns = here_or_in_guests("10000", "100000");
    let rate = here_or_in_guests("60000", "6000");
    let _burning = advice::agent_here(&["burn-xdp", &wire.device, packet_ns])?;
    let cpu = RECEIVES.to_string();
    let reader = advice::agent_here(&["on", &cpu, "modestly", "udp-works", &to, work_ns])?;
    let cpu = SENDS.to_string();
    let _sender = traffic::agent(&wire.inside, &["udp-paced", &to, rate, &cpu])?;
    let daemon = start(&[])?;
    is_mended(&daemon, "reader-starved", |advice| {
        let advised = command(advice, 0)?;
        let typed = advised.replace("PID-OF-THE-READER", &reader.pid().to_string());
        ensure!(typed != advised, "{advised}");
        child::run(Command::new("sh").args(["-c", &typed]))
    })
}

fn tracking_without_need_is_told_until_it_is_off() -> Result<()> {
    let network = Network::direct()?;
    network.right.nft(
        "add table inet tracked; add chain inet tracked input { type filter hook input priority 0; };
         add rule inet tracked input ct state established counter",
    )?;
    let rate = here_or_in_guests("150000", "10000");
    let _sender = send_flows(&network.left, network.right_v4, rate)?;
    let daemon = start(&[])?;
    most_is_gained(&daemon, "conntrack-without-nat", |advice| {
        // The first one looks for rules that need tracking.
        for number in 1..4 {
            network.right.run_script(command(advice, number)?)?;
        }
        Ok(())
    })
}

/// A chain of rules in a namespace, of which no packet to the ports of tests meets one.
fn rules(at: &Namespace, hook: &str) -> Result<()> {
    let mut text = format!(
        "add table inet rules; add chain inet rules long {{ type filter hook {hook} priority 0; }}\n"
    );
    for source in 1..=RULES {
        text.push_str(&format!(
            "add rule inet rules long udp sport {source} drop\n"
        ));
    }
    at.nft(&text)
}

fn long_lists_of_rules_are_told_until_they_are_a_set() -> Result<()> {
    let network = Network::direct()?;
    rules(&network.right, "input")?;
    let rate = here_or_in_guests("10000", "1000");
    let _sender = send_flows(&network.left, network.right_v4, rate)?;
    let daemon = start(&[])?;
    most_is_gained(&daemon, "long-rule-sets", |_| {
        network.right.nft(&format!(
            "flush chain inet rules long; add set inet rules ports {{ type inet_service; flags interval; \
             elements = {{ 1-{RULES} }}; }}; add rule inet rules long udp sport @ports drop"
        ))
    })
}

/// The same bytes a second.
fn small_writes_are_told_until_they_are_large() -> Result<()> {
    let network = Network::direct()?;
    let to = format!("{}:{PORT}", network.right_v4);
    let send = |bytes: &str, rate: &str| -> Result<[Owned; 2]> {
        let sink = traffic::agent(&network.right, &["tcp-sink", &to])?;
        let sender = traffic::agent(&network.left, &["tcp-writes", &to, bytes, rate])?;
        Ok([sender, sink])
    };
    let small = send("64", here_or_in_guests("153600", "10240"))?;
    let daemon = start(&[])?;
    most_is_gained(&daemon, "small-writes", |_| {
        drop(small);
        send("65536", here_or_in_guests("150", "10"))
    })
}

fn copies_are_told_until_files_are_sent() -> Result<()> {
    let network = Network::direct()?;
    let to = format!("{}:{PORT}", network.right_v4);
    // More data than caches hold, as if it had not been made just before it is sent.
    let rate = here_or_in_guests("300", "16");
    // The receiver discards without copying, so that all copies are those of sends.
    let send = |how: &str| -> Result<[Owned; 2]> {
        let sink = traffic::agent(&network.right, &["tcp-discards", &to])?;
        Ok([
            traffic::agent(&network.left, &[how, &to, "8388608", rate])?,
            sink,
        ])
    };
    let written = send("tcp-writes")?;
    let daemon = start(&[])?;
    // Between programs of one host, sendfile's work for each page takes most of what copies took.
    is_mended(&daemon, "copy-bound", |_| {
        drop(written);
        send("tcp-files")
    })
}

fn frames_that_are_not_merged_are_told_until_they_are_one_messages() -> Result<()> {
    guest::only()?;
    let wire = Wire::new()?;
    address(&wire)?;
    offload(&wire.device, &["gro", "on"])?;
    wire.inside.run("ethtool", "-K lan tso off gso off")?;
    let to = format!("{AT}:{PORT}");
    let _sink = advice::agent_here(&["tcp-sinks", &to])?;
    // A sender on the same CPU is received packet by packet.
    let timeout = format!("/sys/class/net/{}/gro_flush_timeout", wire.device);
    std::fs::write(timeout, "4000000")?;
    // The same packets: each with the end of a message, which GRO passes on, or one of forty.
    let send = |how: &str| traffic::agent(&wire.inside, &["tcp-records", &to, "50", how]);
    let apart = send("apart")?;
    let daemon = start(&[])?;
    is_mended(&daemon, "gro-merges-nothing", |_| {
        drop(apart);
        send("together")
    })
}

fn segments_by_cpus_are_told_until_the_device_cuts() -> Result<()> {
    let network = Network::direct()?;
    network.left.run("ethtool", "-K lan tso off")?;
    let to = format!("{}:{PORT}", network.right_v4);
    let rate = here_or_in_guests("6000", "200");
    let _sink = traffic::agent(&network.right, &["tcp-sink", &to])?;
    let _sender = traffic::agent(&network.left, &["tcp-writes", &to, "65536", rate])?;
    let daemon = start(&[])?;
    is_mended(&daemon, "software-offloads", |_| {
        network.left.run("ethtool", "-K lan tso on")
    })
}

/// The host sends, so that its advice is about its own device.
fn checksums_by_cpus_are_told_until_the_device_computes() -> Result<()> {
    let wire = Wire::new()?;
    address(&wire)?;
    offload(&wire.device, &["tx", "off"])?;
    let to = format!("{}:{PORT}", lab::WIRE_INSIDE);
    let rate = here_or_in_guests("6000", "200");
    let _sink = traffic::agent(&wire.inside, &["tcp-sink", &to])?;
    let _sender = advice::agent_here(&["tcp-writes", &to, "65536", rate])?;
    let daemon = start(&[])?;
    // How the device is set up is known after the first reading.
    let expected = ["tx", "tso"].map(|name| format!("ethtool -K {} {name} on", wire.device));
    child::eventually(|| {
        let advice = advice::given(&daemon, "software-offloads")?;
        for (number, expected) in expected.iter().enumerate() {
            ensure!(command(&advice, number)? == expected, "{advice}");
        }
        Ok(())
    })?;
    is_mended(&daemon, "software-offloads", |advice| {
        (0..expected.len()).try_for_each(|number| type_here(advice, number))
    })
}

/// Cards are told by their entry in sysfs, which a veth has in a tree of the test's own.
fn a_card_without_gro_is_told_until_it_is_on() -> Result<()> {
    let wire = Wire::new()?;
    address(&wire)?;
    let device = &wire.device;
    offload(device, &["gro", "off"])?;
    wire.inside.run("ethtool", "-K lan tso off gso off")?;
    let entry = format!("sys/class/net/{device}/device");
    let tree = hostile::Tree::new(&[&entry])?;
    tree.write(&entry, "")?;
    let to = format!("{AT}:{PORT}");
    let _sink = advice::agent_here(&["tcp-sinks", &to])?;
    let rate = here_or_in_guests("2000", "100");
    let _sender = traffic::agent(&wire.inside, &["tcp-writes", &to, "57920", rate])?;
    let options = tree.options();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let daemon = start(&options)?;
    is_mended(&daemon, "gro-off", |advice| {
        let expected = format!("ethtool -K {device} gro on");
        ensure!(command(advice, 0)? == expected, "{advice}");
        type_here(advice, 0)
    })
}

/// Connections of the host, which has a namespace of its own for their counts.
fn full_receive_buffers_are_told_until_they_are_read() -> Result<()> {
    let wire = Wire::new()?;
    address(&wire)?;
    let to = format!("{AT}:{PORT}");
    let read = |pause_ms: &str| -> Result<[Owned; 2]> {
        let reader = advice::agent_here(&["tcp-late-sinks", &to, "16384", pause_ms])?;
        let rate = here_or_in_guests("20000", "4000");
        let sender = traffic::agent(&wire.inside, &["tcp-many", &to, "16", "60", rate])?;
        Ok([sender, reader])
    };
    let late = read("200")?;
    let daemon = start(&[])?;
    is_mended(&daemon, "receive-buffers-full", |_| {
        drop(late);
        read("0")
    })
}

fn memory_pressure_is_told_until_it_is_read() -> Result<()> {
    guest::only()?;
    // Far beyond the 256 pages by which each CPU may be off.
    let _set = Setting::new("net/ipv4/tcp_mem", "2000 3000 100000")?;
    let network = Network::direct()?;
    let to = format!("{}:{PORT}", network.right_v4);
    let send = |reader: &str| -> Result<[Owned; 2]> {
        let reader = traffic::agent(&network.right, &[reader, &to])?;
        let sender = traffic::agent(&network.left, &["tcp-many", &to, "120", "65536", "50"])?;
        Ok([sender, reader])
    };
    let unread = send("listen")?;
    let advice = wait_for(&start(&[])?, "memory-pressure")?;
    let expected = "sysctl -w net.ipv4.tcp_mem=\"4000 6000 200000\"";
    ensure!(command(&advice, 0)? == expected, "{advice}");
    drop(unread);
    let _read = send("tcp-sinks")?;
    // An emulated machine's set-up is read again after minutes, and by another daemon at once.
    let daemon = start(&[])?;
    child::eventually(|| advice::judged(&daemon, "memory-pressure"))?;
    ended(&daemon, "memory-pressure")
}

/// The host sends at a rate that its sockets ask for; mended by the queue that paces where the kernel
/// has it, else by programs that pause themselves.
fn timers_that_pace_are_told_until_there_are_none() -> Result<()> {
    let wire = Wire::new()?;
    address(&wire)?;
    let to = format!("{}:{PORT}", lab::WIRE_INSIDE);
    let _sink = traffic::agent(&wire.inside, &["tcp-sinks", &to])?;
    let rate = here_or_in_guests("60000000", "2000000");
    let send = |how: &str| advice::agent_here(&["tcp-streams", &to, "8", rate, how]);
    let asking = send("asked")?;
    let daemon = start(&[])?;
    is_mended(&daemon, "pacing-timers", |advice| {
        // The kind of queue for new ones, and the device's.
        let expected = format!("tc qdisc replace dev {} root ", wire.device);
        ensure!(command(advice, 1)?.starts_with(&expected), "{advice}");
        if guest::is_one() {
            (0..2).try_for_each(|number| type_here(advice, number))?;
            return Ok(asking);
        }
        drop(asking);
        send("paused")
    })
}

fn polls_for_nothing_are_told_until_the_reader_sleeps() -> Result<()> {
    needs_two_cpus()?;
    let network = Network::direct()?;
    let right = &network.right;
    right.run("ethtool", "-K lan gro on rx-udp-gro-forwarding on")?;
    let at = format!("{}:{PORT}", network.right_v4);
    let poller = on(right, RECEIVES, &["udp-busy-sink", &at])?;
    let cpu = SENDS.to_string();
    let _sender = traffic::agent(&network.left, &["udp-paced", &at, "1000", &cpu])?;
    let daemon = start(&[])?;
    most_is_gained(&daemon, "spinning", |_| {
        drop(poller);
        on(right, RECEIVES, &["udp-sink", &at])
    })
}

fn threads_that_look_for_requests_are_told_until_they_sleep() -> Result<()> {
    let poller = advice::agent_here(&["uring-idle"])?;
    let daemon = start(&[])?;
    most_is_gained(&daemon, "spinning", |advice| {
        ensure!(command(advice, 0)?.contains("iou-sqp"), "{advice}");
        drop(poller);
        Ok(())
    })
}

fn an_owner_who_pays_is_told_until_it_has_another_cpu() -> Result<()> {
    needs_two_cpus()?;
    let (victims, senders) = (Group::new("victims")?, Group::new("senders")?);
    let network = Network::direct()?;
    steer(&network.right, "lan")?;
    let _burning = traffic::agent(&network.right, &["burn-xdp", "lan", "500000"])?;
    let to = format!("{}:{PORT}", network.right_v4);
    let _sink = agent(&senders, &network.right, SENDS, &["udp-sink", &to])?;
    let cpu = SENDS.to_string();
    let _sender = agent(
        &senders,
        &network.left,
        SENDS,
        &["udp-paced", &to, "400", &cpu],
    )?;
    let spin = |cpu| agent(&victims, &network.left, cpu, &["spin-one"]);
    // What a victim on this CPU misses of its own time.
    let missed = |cpu| -> Result<f64> {
        let mut victim = agent(&victims, &network.left, cpu, &["gaps", "5"])?;
        let seen = stall::seen(&mut victim)?;
        Ok(seen.gaps as f64 / seen.ran as f64)
    };
    let victim = spin(RECEIVES)?;
    let daemon = start(&["--owners", "cgroup"])?;
    let advice = wait_for(&daemon, "owner-pays")?;
    let file = format!("{}/cpuset.cpus", victims.path());
    let advised = command(&advice, 0)?;
    ensure!(advised.ends_with(&file), "{advised}");
    drop(victim);
    let before = missed(RECEIVES)?;
    // Control groups of version 2 may lack `cpuset` here: the same by affinity.
    let victim = spin(SENDS)?;
    child::eventually(|| ended(&daemon, "owner-pays"))?;
    drop(victim);
    is_bounded(&advice, before - missed(SENDS)?)
}

fn what_netto_costs_is_told_until_its_budget_is_small() -> Result<()> {
    let network = Network::direct()?;
    let to = format!("{}:{PORT}", network.right_v4);
    // Paced, so that what netto does not take stays idle.
    let rate = here_or_in_guests("100000", "5000");
    let cpu = SENDS.to_string();
    let _sink = traffic::agent(&network.right, &["udp-sink", &to])?;
    let _sender = traffic::agent(&network.left, &["udp-paced", &to, rate, &cpu])?;
    let daemon = start(&["--latency", "--owners", "process"])?;
    child::eventually(|| settled(&daemon))?;
    let advice = wait_for(&daemon, "own-cost")?;
    ensure!(
        command(&advice, 0)? == "netto run --max-overhead 0.5",
        "{advice}"
    );
    let before = idle_cpus("cpu")?;
    drop(daemon);
    let daemon = start(&["--latency", "--owners", "process", "--max-overhead", "0.5"])?;
    child::eventually(|| {
        settled(&daemon)?;
        ended(&daemon, "own-cost")
    })?;
    is_bounded(&advice, idle_cpus("cpu")? - before)
}

fn what_hardware_could_do_is_told_until_it_is_not_done() -> Result<()> {
    let network = Network::routed()?;
    let router = network.middle.as_ref().context("no router")?;
    rules(router, "forward")?;
    let rate = here_or_in_guests("12000", "1500");
    let _sender = send_flows(&network.left, network.nobody_v4, rate)?;
    let daemon = start(&[])?;
    most_is_gained(&daemon, "for-hardware", |_| {
        router.nft("flush chain inet rules long")
    })
}

/// Intervals until a daemon keeps to its budget.
const SETTLED: u64 = 40;
