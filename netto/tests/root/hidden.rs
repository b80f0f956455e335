//! Networking outside the softirqs and the calls that send or receive: in timers, kernel
//! threads, polling, connecting; and what looks like networking and is none.
//!
//! Each test shows its row lit by a load that is made for it, and dark before or without.

use anyhow::{Result, ensure};

use crate::daemon::Daemon;
use crate::lab::{Namespace, Network};
use crate::measure::Cost;
use crate::traffic;
use crate::trial::Test;

pub const TESTS: &[Test] = &[
    Test {
        name: "hidden::pacing_is_networks_hrtimers",
        tools: &["ip"],
        body: pacing,
    },
    Test {
        name: "hidden::threaded_napi_takes_the_softirqs_work",
        tools: &["ip", "ethtool"],
        body: threaded_napi,
    },
    Test {
        name: "hidden::waiting_for_packets_by_busy_polling_is_spinning",
        tools: &["ip", "ethtool"],
        body: busy_polling,
    },
    Test {
        name: "hidden::packets_for_another_cpu_are_xdp_cpumap",
        tools: &["ip"],
        body: cpumap,
    },
    Test {
        name: "hidden::connecting_and_closing_is_connections",
        tools: &["ip"],
        body: || only("connections", "connect-storm"),
    },
    Test {
        name: "hidden::asking_many_sockets_is_socket_polling",
        tools: &["ip"],
        body: || only("socket_poll", "poll-storm"),
    },
    Test {
        name: "hidden::unix_sockets_are_local_and_not_networking",
        tools: &["ip"],
        body: unix,
    },
    Test {
        name: "hidden::a_packet_socket_is_a_tap",
        tools: &["ip"],
        body: tap,
    },
];

/// An event's CPU time as a share of the time of one CPU.
fn share(cost: &Cost, event: &str) -> Result<f64> {
    Ok(cost.event_seconds(event)? / cost.seconds())
}

/// An event has at least this share of one CPU.
fn lit(cost: &Cost, event: &str, at_least: f64) -> Result<()> {
    let share = share(cost, event)?;
    ensure!(
        share >= at_least,
        "{event} took {share:.3} of a CPU, expected {at_least} at least\n{cost}"
    );
    Ok(())
}

/// An event has at most this share of one CPU.
fn dark(cost: &Cost, event: &str, at_most: f64) -> Result<()> {
    let share = share(cost, event)?;
    ensure!(
        share <= at_most,
        "{event} took {share:.3} of a CPU, expected {at_most} at most\n{cost}"
    );
    Ok(())
}

/// An event's time as a share of the RX softirq's.
fn beside_softirq(cost: &Cost, event: &str) -> Result<f64> {
    Ok(cost.event_seconds(event)? / cost.event_seconds("rx_softirq")?)
}

/// BBR sends by the clock where other senders wait for acknowledgements: its timers
/// took 0.4 to 1.5 times what the RX softirq took, and nothing at all without it.
fn pacing() -> Result<()> {
    let network = Network::direct()?;
    let daemon = Daemon::start(&[])?;
    {
        let _unpaced = traffic::tcp(&network.left, &network.right, network.right_v4)?;
        let ratio = beside_softirq(&daemon.measure_shortly()?, "net_hrtimer")?;
        ensure!(ratio < 0.05, "without pacing, timers took {ratio:.2} of it");
    }
    network
        .left
        .sysctl("net/ipv4/tcp_congestion_control", "bbr")?;
    let _paced = traffic::tcp(&network.left, &network.right, network.right_v4)?;
    let ratio = beside_softirq(&daemon.measure_shortly()?, "net_hrtimer")?;
    ensure!(ratio > 0.15, "with pacing, timers took {ratio:.2} of it");
    Ok(())
}

/// The sender's side stays a softirq, whose device merges nothing; GRO was 29 % before.
fn threaded_napi() -> Result<()> {
    let network = Network::direct()?;
    network.enable_gro()?;
    let daemon = Daemon::start(&[])?;
    let _traffic = traffic::tcp(&network.left, &network.right, network.right_v4)?;
    let before = daemon.measure_shortly()?;
    dark(&before, "napi_thread", DARK)?;
    network.right.set_threaded("lan")?;
    let after = daemon.measure_shortly()?;
    lit(&after, "napi_thread", LIT)?;
    before.lights_up("gro", 0.08)?;
    after.stays_dark("gro", 0.02)
}

/// The sender pauses, so that the receiver has something to wait for.
fn busy_polling() -> Result<()> {
    let network = Network::direct()?;
    network
        .right
        .run("ethtool", "-K lan gro on rx-udp-gro-forwarding on")?;
    let at = format!("{}:5201", network.right_v4);
    let daemon = Daemon::start(&[])?;
    {
        let _sleeper = traffic::agent(&network.right, &["udp-sink", &at])?;
        let _sender = traffic::agent(&network.left, &["udp-drip", &at])?;
        dark(&daemon.measure_shortly()?, "busy_poll_spin", DARK)?;
    }
    let _poller = traffic::agent(&network.right, &["udp-busy-sink", &at])?;
    let _sender = traffic::agent(&network.left, &["udp-drip", &at])?;
    lit(&daemon.measure_shortly()?, "busy_poll_spin", LIT)
}

/// A kernel thread takes the packets through the stack; it took as long as the softirq
/// that handed them over, in which next to nothing is left to deliver.
fn cpumap() -> Result<()> {
    let network = Network::direct()?;
    let daemon = Daemon::start(&[])?;
    let _traffic = traffic::udp(&network.left, &network.right, network.right_v4)?;
    let before = beside_softirq(&daemon.measure_shortly()?, "xdp_cpumap")?;
    ensure!(
        before < 0.02,
        "without the program {before:.2} of the softirq"
    );
    let _program = traffic::agent(&network.right, &["attach", "xdp-cpumap", "lan"])?;
    let cost = daemon.measure_shortly()?;
    let after = beside_softirq(&cost, "xdp_cpumap")?;
    ensure!(after > 0.2, "with it {after:.2} of the softirq\n{cost}");
    cost.stays_dark("local_delivery_v4", 0.15)
}

/// A load within a process makes this row the largest of those that are seen in tasks only.
fn only(event: &str, agent: &str) -> Result<()> {
    let namespace = Namespace::new()?;
    let daemon = Daemon::start(&[])?;
    let _load = traffic::agent(&namespace, &[agent])?;
    let cost = daemon.measure_shortly()?;
    lit(&cost, event, LIT)?;
    for other in ["connections", "socket_poll", "napi_thread", "local_ipc"] {
        if other != event {
            dark(&cost, other, DARK)?;
        }
    }
    Ok(())
}

/// Where calls are not hooked, the socket layer's own instructions, before it hands over
/// to a protocol, look the same for all families: a tenth of each direction.
fn unix() -> Result<()> {
    let namespace = Namespace::new()?;
    let daemon = Daemon::start(&[])?;
    let _load = traffic::agent(&namespace, &["unix-blast"])?;
    let cost = daemon.measure_shortly()?;
    lit(&cost, "local_ipc", LIT)?;
    dark(&cost, "connections", DARK)?;
    let local = share(&cost, "local_ipc")?;
    for networking in ["tx_syscall", "rx_syscall"] {
        dark(&cost, networking, DARK + 0.25 * local)?;
    }
    Ok(())
}

fn tap() -> Result<()> {
    let network = Network::direct()?;
    let daemon = Daemon::start(&[])?;
    let _traffic = traffic::udp_blast(&network.left, network.nobody_v4)?;
    daemon.measure()?.stays_dark("taps", 0.01)?;
    let _tap = traffic::agent(&network.right, &["tap"])?;
    daemon.measure()?.lights_up("taps", 0.05)
}

/// A row that its load lights has a multiple of this.
const LIT: f64 = 0.06;
/// What other programs of the machine may spend on a row meanwhile.
const DARK: f64 = 0.03;
