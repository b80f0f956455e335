//! The work that was done: packets of CPUs and interfaces, packets that were dropped and why, and
//! what a packet costs. What the tests send themselves is known to the packet.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::daemon::{Daemon, Shared};
use crate::lab::{Network, Wire, kernel_at_least};
use crate::lab_itself::needs_kernel;
use crate::measure::{self, Sample};
use crate::trial::{NotOnThisKernel, tests};
use crate::{burn, child, http, traffic};

tests! {
    packets::those_over_a_veth_are_counted_by_cpu_and_interface ["ip"] = counted;
    packets::those_for_a_closed_port_are_drops_without_a_socket ["ip"] = dropped;
    packets::one_costs_so_much_more_as_a_program_burns_for_it ["ip"] = burnt;
    packets::an_interface_of_any_name_comes_and_goes ["ip"] = odd_name;
}

/// Packets that a test sends.
const PACKETS: u64 = 3_000;
/// Packets of others meanwhile: fewer than are sent, which would be counted twice.
pub const OTHERS: f64 = 1_500.0;

/// Where nobody listens, beyond the host's device.
fn closed(wire: &Wire) -> String {
    SocketAddr::new(wire.nobody, 9).to_string()
}

fn metrics(daemon: &Daemon) -> Result<Vec<Sample>> {
    measure::parse(&http::get_ok(daemon.at, "/metrics")?.body)
}

/// The sum of all series of a family with these labels.
pub fn sum(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> f64 {
    let is_meant = |sample: &&Sample| {
        sample.name == name
            && labels
                .iter()
                .all(|(key, value)| sample.label(key) == *value)
    };
    samples
        .iter()
        .filter(is_meant)
        .map(|sample| sample.value)
        .sum()
}

/// An interface in the newest snapshot.
fn interface(snapshot: &Value, name: &str) -> Option<Value> {
    let named = snapshot["traffic"]["interfaces"]["named"].as_array()?;
    named
        .iter()
        .find(|interface| interface["name"] == name)
        .cloned()
}

fn appears(daemon: &Daemon, name: &str) -> Result<Value> {
    child::eventually(|| {
        interface(&daemon.snapshot()?, name).with_context(|| format!("there is no {name}"))
    })
}

fn counted() -> Result<()> {
    let daemon = Shared::take()?;
    let wire = Wire::new()?;
    let shown = appears(&daemon, &wire.device)?;
    ensure!(
        shown["driver"] == "veth" && shown["is_hardware"] == false,
        "{shown}"
    );
    ensure!(shown["rx_queues"].as_u64() > Some(0), "{shown}");
    daemon.settle()?;
    let before = metrics(&daemon)?;
    let count = PACKETS.to_string();
    traffic::agent_to_end(&wire.inside, &["udp-count", &closed(&wire), &count])?;
    daemon.settle()?;
    let after = metrics(&daemon)?;
    let grown = |family: &str, labels: &[(&str, &str)]| {
        sum(&after, family, labels) - sum(&before, family, labels)
    };
    let of_wire = [("interface", wire.device.as_str()), ("direction", "rx")];
    let [cpus, packets, bytes] = [
        grown("netto_received_packets_total", &[]),
        grown("netto_interface_packets_total", &of_wire),
        grown("netto_interface_bytes_total", &of_wire),
    ];
    println!("\n{cpus} on CPUs, {packets} of the interface, {bytes} bytes");
    let sent = PACKETS as f64;
    ensure!(cpus >= sent, "{cpus} packets on all CPUs, of {sent}");
    ensure!(
        packets >= sent && packets <= sent + OTHERS,
        "{packets} packets of the interface, of {sent}"
    );
    // 64 bytes, and the heads of UDP, IPv4 and Ethernet.
    ensure!(bytes >= 106.0 * sent, "{bytes} bytes");
    Ok(())
}

/// Functions that drop a datagram for a closed port: compilers inline one of them.
const RECEIVING: [&str; 2] = ["__udp4_lib_rcv", "udp_rcv"];

fn dropped() -> Result<()> {
    let network = Network::direct()?;
    let daemon = Shared::take()?;
    let drops = daemon
        .info()?
        .instruments
        .into_iter()
        .find(|instrument| instrument.name == "drops");
    let drops = drops.context("no instrument drops")?;
    ensure!(drops.availability.is_available(), "{drops:?}");
    // Since then, drops have reasons.
    if !kernel_at_least(5, 17)? {
        let lack = "this kernel gives no reasons for drops".to_owned();
        return Err(NotOnThisKernel(lack).into());
    }
    let here = |samples: &[Sample]| -> f64 {
        let of = |function| [("reason", "NO_SOCKET"), ("function", function)];
        let functions = RECEIVING.iter().map(|function| of(*function));
        let family = "netto_dropped_packets_total";
        functions.map(|labels| sum(samples, family, &labels)).sum()
    };
    let (to, count) = (format!("{}:9", network.right_v4), PACKETS.to_string());
    // A place has a name some moments after its first drop, in a guest some seconds.
    traffic::agent_to_end(&network.left, &["udp-count", &to, "1"])?;
    child::eventually(|| {
        let samples = metrics(&daemon)?;
        let dropped = samples
            .iter()
            .filter(|sample| sample.name == "netto_dropped_packets_total");
        let labels: Vec<_> = dropped.map(|sample| &sample.labels).collect();
        ensure!(
            here(&samples) >= 1.0,
            "no drop in {RECEIVING:?}, but in {labels:?}"
        );
        Ok(())
    })?;
    daemon.settle()?;
    let before = metrics(&daemon)?;
    traffic::agent_to_end(&network.left, &["udp-count", &to, &count])?;
    daemon.settle()?;
    let after = metrics(&daemon)?;
    let grown = |family: &str, labels: &[(&str, &str)]| {
        sum(&after, family, labels) - sum(&before, family, labels)
    };
    let sent = PACKETS as f64;
    let here = here(&after) - here(&before);
    let all = grown("netto_cpu_dropped_packets_total", &[]);
    let cost = grown("netto_own_cpu_seconds_total", &[("part", "drops")]);
    println!("\n{here} without a socket, {all} in all, of {sent}; they cost {cost:.6} s");
    ensure!(
        here >= sent && here <= sent + OTHERS,
        "{here} drops, of {sent}"
    );
    ensure!(all >= here, "{all} drops on all CPUs");
    ensure!(cost > 0.0, "counting them costs nothing");
    Ok(())
}

/// RX softirq seconds and packets so far.
fn rx(daemon: &Daemon) -> Result<(f64, f64)> {
    let samples = metrics(daemon)?;
    let seconds = sum(
        &samples,
        "netto_cpu_seconds_total",
        &[("event", "rx_softirq")],
    );
    Ok((seconds, sum(&samples, "netto_received_packets_total", &[])))
}

/// The cost of a packet over some seconds, nanoseconds.
fn per_packet(daemon: &Daemon) -> Result<f64> {
    daemon.settle()?;
    let before = rx(daemon)?;
    std::thread::sleep(Duration::from_secs(3));
    let after = rx(daemon)?;
    let packets = after.1 - before.1;
    ensure!(packets > 1_000.0, "{packets} packets");
    Ok((after.0 - before.0) * 1e9 / packets)
}

/// Time of each packet in the burning program.
const BURN_NS: f64 = 10_000.0;

fn burnt() -> Result<()> {
    needs_kernel(6, 6, "tcx")?;
    let network = Network::direct()?;
    let daemon = Daemon::start(&["--user-period", "100"])?;
    let _load = traffic::udp_blast(&network.left, network.nobody_v4)?;
    let without = per_packet(&daemon)?;
    let _program = traffic::agent(&network.right, &["burn", "lan", &BURN_NS.to_string()])?;
    let sums = burn::sums()?;
    let before = burn::read(&sums)?;
    let with = per_packet(&daemon)?;
    let burnt = burn::read(&sums)?.since(before);
    let truth = burnt.time_ns as f64 / burnt.packets as f64;
    let rise = with - without;
    println!("\n{without:.0} ns per packet, {with:.0} with {truth:.0} burnt: {rise:.0} more");
    ensure!(
        (0.9..1.15).contains(&(rise / truth)),
        "a packet costs {rise:.0} ns more, and {truth:.0} are burnt for it"
    );
    let shown = daemon.snapshot()?["efficiency"]["host"]["rx_ns_per_packet"].clone();
    let shown = shown.as_f64().context("the API has no cost per packet")?;
    ensure!(
        (0.5..2.0).contains(&(shown / with)),
        "the API says {shown:.0} ns"
    );
    Ok(())
}

/// Quotes, a backslash, markup and more than ASCII, in fifteen bytes.
const ODD_NAME: &str = "n\"t\\<b>&é;'{}";

fn odd_name() -> Result<()> {
    let mut daemon = Shared::take()?;
    let wire = Wire::named(ODD_NAME)?;
    appears(&daemon, ODD_NAME)?;
    daemon.settle()?;
    traffic::agent_to_end(&wire.inside, &["udp-count", &closed(&wire), "500"])?;
    daemon.settle()?;
    let escaped = ODD_NAME.replace('\\', "\\\\").replace('"', "\\\"");
    let series =
        format!("netto_interface_packets_total{{interface=\"{escaped}\",direction=\"rx\"}} ");
    let value = |daemon: &Daemon| -> Result<f64> {
        let page = http::get_ok(daemon.at, "/metrics")?.body;
        let found = page.lines().find_map(|line| line.strip_prefix(&series));
        Ok(found.context("no series of the interface")?.parse()?)
    };
    let counted = value(&daemon)?;
    ensure!(counted >= 500.0, "{counted} packets");
    drop(wire);
    child::eventually(|| {
        let is_missing = interface(&daemon.snapshot()?, ODD_NAME).is_none();
        ensure!(is_missing, "it is still there");
        Ok(())
    })?;
    daemon.settle()?;
    let after = value(&daemon)?;
    ensure!(
        after >= counted,
        "its counter went back from {counted} to {after}"
    );
    // Another of the same name begins anew, and adds to it.
    let wire = Wire::named(ODD_NAME)?;
    appears(&daemon, ODD_NAME)?;
    daemon.settle()?;
    traffic::agent_to_end(&wire.inside, &["udp-count", &closed(&wire), "300"])?;
    daemon.settle()?;
    let again = value(&daemon)? - after;
    ensure!((300.0..600.0).contains(&again), "{again} packets more");
    daemon.must_live()
}
