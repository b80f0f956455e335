//! The parts of sends and receives, inside of the system calls.
//!
//! As with the receive softirq, a filter or a queue gets so much to do that its
//! stage must show, and must not without it.

use std::fmt::Write;

use anyhow::Result;

use crate::daemon::Daemon;
use crate::lab::Network;
use crate::traffic;
use crate::trial::tests;

tests! {
    sends::a_bulk_stream_is_mostly_copied ["ip"];
    sends::small_datagrams_are_udp_ip_and_driver ["ip"];
    sends::rules_and_queues_on_the_way_out_show_as_such ["ip", "nft", "tc"];
}

/// Copying was 68 % of a bulk send and 85 % of a bulk receive over loopback; over
/// veth with pacing timers to arm 30 and 60 %.
fn a_bulk_stream_is_mostly_copied() -> Result<()> {
    let network = Network::direct()?;
    let daemon = Daemon::start(&[])?;
    let _traffic = traffic::tcp(&network.left, &network.right, network.right_v4)?;
    let cost = daemon.measure_event("rx_syscall")?;
    cost.dominates("receive_copy")?;
    cost.is_present("receive_copy", 0.25)?;
    cost.is_absent("receive_tls", 0.01)?;
    cost.is_present("send_copy", 0.10)?;
    cost.is_present("send_tcp", 0.02)?;
    cost.is_absent("send_datagram", 0.01)
}

fn small_datagrams_are_udp_ip_and_driver() -> Result<()> {
    let network = Network::direct()?;
    let daemon = Daemon::start(&[])?;
    for to in [network.right_v4, network.right_v6] {
        let _traffic = traffic::udp_blast(&network.left, to)?;
        let cost = daemon.measure_event("tx_syscall")?;
        for (part, at_least) in [
            ("send_datagram", 0.10),
            ("send_driver", 0.03),
            ("send_ip", 0.02),
            ("send_buffers", 0.02),
        ] {
            cost.is_present(part, at_least)?;
        }
        for part in ["send_tcp", "send_netfilter", "send_qdisc", "send_tc"] {
            cost.is_absent(part, 0.01)?;
        }
    }
    Ok(())
}

fn rules_and_queues_on_the_way_out_show_as_such() -> Result<()> {
    let network = Network::direct()?;
    let daemon = Daemon::start(&[])?;
    let _traffic = traffic::udp_blast(&network.left, network.nobody_v4)?;

    let mut rules = String::new();
    for number in 0..250 {
        // Writing to a string cannot fail.
        let _ = writeln!(rules, "ip daddr 10.99.0.{number} drop");
    }
    network.left.nft(&format!(
        "table inet out {{\nchain c {{\ntype filter hook output priority 0; policy accept;\n{rules}}}\n}}\n"
    ))?;
    let cost = daemon.measure_event("tx_syscall")?;
    cost.dominates("send_netfilter")?;
    cost.is_present("send_netfilter", 0.25)?;
    network.left.nft("delete table inet out")?;

    network
        .left
        .run("tc", "qdisc add dev lan root pfifo limit 1000")?;
    let cost = daemon.measure_event("tx_syscall")?;
    // 4.5 % on Linux 6.18: a queue that never fills costs little.
    cost.is_present("send_qdisc", 0.015)?;
    cost.is_absent("send_netfilter", 0.01)?;
    network.left.run("tc", "qdisc delete dev lan root")?;

    network.left.run("tc", "qdisc add dev lan clsact")?;
    let mut orders = String::new();
    for port in 0..500 {
        let _ = writeln!(
            orders,
            "filter add dev lan egress protocol ip prio 1 u32 match ip dport {} 0xffff flowid 1:1",
            10_000 + port
        );
    }
    network.left.feed("tc", &["-batch", "-"], &orders)?;
    let cost = daemon.measure_event("tx_syscall")?;
    cost.dominates("send_tc")?;
    cost.is_present("send_tc", 0.25)?;
    cost.is_absent("send_qdisc", 0.02)
}
