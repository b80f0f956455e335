//! Hooks on a packet's way: netfilter, connection tracking, tc, XDP.
//!
//! Each filter is given far more to do than a packet costs otherwise (a hundred
//! rules or more, none of which matches), so that its stage must dominate. Where
//! the filter stands before IP, the packets are for nobody and end right behind it.

use std::fmt::Write;

use anyhow::Result;

use crate::daemon::Daemon;
use crate::lab::Network;
use crate::lab_itself::needs_kernel;
use crate::traffic;
use crate::trial::tests;

tests! {
    filters::prerouting_rules_are_nf_prerouting ["ip", "nft"];
    filters::new_connections_are_conntrack ["ip", "nft"];
    filters::rules_of_a_device_are_nf_ingress ["ip", "nft"];
    filters::classifiers_on_clsact_are_tc_classify ["ip", "tc"];
    filters::a_program_on_tcx_is_tc_classify ["ip"];
    filters::a_program_on_generic_xdp_is_xdp_generic ["ip"];
}

/// Rules or classifiers of a filter: some microseconds for every packet.
const MANY: usize = 400;
/// A stage that costs several times the rest has well over half of the time.
const MOST: f64 = 0.30;

/// Rules that look at the destination of every packet and never match.
pub fn rules() -> String {
    let mut text = String::new();
    for number in 0..MANY {
        // Writing to a string cannot fail.
        let (high, low) = (number / 256, number % 256);
        let _ = writeln!(text, "ip daddr 10.99.{high}.{low} drop");
        let _ = writeln!(text, "ip6 daddr fd99::{number:x} drop");
    }
    text
}

fn prerouting_rules_are_nf_prerouting() -> Result<()> {
    let network = Network::direct()?;
    network.right.nft(&format!(
        "table inet many {{\nchain c {{\ntype filter hook prerouting priority -300; policy accept;\n{}}}\n}}\n",
        rules()
    ))?;
    let daemon = Daemon::start(&[])?;
    for (to, expected, other) in [
        (network.right_v4, "nf_prerouting_v4", "nf_prerouting_v6"),
        (network.right_v6, "nf_prerouting_v6", "nf_prerouting_v4"),
    ] {
        let _traffic = traffic::udp(&network.left, &network.right, to)?;
        let cost = daemon.measure()?;
        cost.dominates(expected)?;
        cost.is_present(expected, MOST)?;
        cost.is_absent(other, 0.02)?;
        cost.is_absent("nf_ingress", 0.02)?;
    }
    Ok(())
}

/// Looking up a known connection was 6–7 %; making a new one for every packet costs a multiple.
fn new_connections_are_conntrack() -> Result<()> {
    let network = Network::direct()?;
    let daemon = Daemon::start(&[])?;
    {
        let _traffic = traffic::udp_flows(&network.left, network.right_v4)?;
        daemon.measure()?.is_absent("conntrack", 0.01)?;
    }
    network.right.nft(
        "table inet tracked {
            chain c { type filter hook prerouting priority 0; policy accept; ct state established counter; }
        }",
    )?;
    let _traffic = traffic::udp_flows(&network.left, network.right_v4)?;
    daemon.measure()?.is_present("conntrack", 0.05)
}

fn rules_of_a_device_are_nf_ingress() -> Result<()> {
    let network = Network::direct()?;
    network.right.nft(&format!(
        "table netdev many {{\nchain c {{\ntype filter hook ingress device lan priority 0; policy accept;\n{}}}\n}}\n",
        rules()
    ))?;
    let daemon = Daemon::start(&[])?;
    let _traffic = traffic::udp_blast(&network.left, network.nobody_v4)?;
    let cost = daemon.measure()?;
    cost.dominates("nf_ingress")?;
    cost.is_present("nf_ingress", MOST)?;
    cost.is_absent("nf_prerouting_v4", 0.02)
}

fn classifiers_on_clsact_are_tc_classify() -> Result<()> {
    let network = Network::direct()?;
    network.right.run("tc", "qdisc add dev lan clsact")?;
    let mut orders = String::new();
    for port in 0..MANY {
        let _ = writeln!(
            orders,
            "filter add dev lan ingress protocol ip prio 1 u32 match ip dport {} 0xffff flowid 1:1",
            10_000 + port
        );
    }
    network.right.feed("tc", &["-batch", "-"], &orders)?;
    let daemon = Daemon::start(&[])?;
    let _traffic = traffic::udp_blast(&network.left, network.nobody_v4)?;
    let cost = daemon.measure()?;
    cost.dominates("tc_classify")?;
    cost.is_present("tc_classify", MOST)
}

/// tcx leaves no function of tc on the stack, only the program itself.
fn a_program_on_tcx_is_tc_classify() -> Result<()> {
    needs_kernel(6, 6, "tcx")?;
    let network = Network::direct()?;
    let _program = traffic::agent(&network.right, &["attach", "tcx", "lan"])?;
    let daemon = Daemon::start(&[])?;
    let _traffic = traffic::udp_blast(&network.left, network.nobody_v4)?;
    let cost = daemon.measure()?;
    cost.dominates("tc_classify")?;
    cost.is_present("tc_classify", MOST)
}

fn a_program_on_generic_xdp_is_xdp_generic() -> Result<()> {
    let network = Network::direct()?;
    let _program = traffic::agent(&network.right, &["attach", "xdp-generic", "lan"])?;
    let daemon = Daemon::start(&[])?;
    let _traffic = traffic::udp_blast(&network.left, network.nobody_v4)?;
    let cost = daemon.measure()?;
    cost.dominates("xdp_generic")?;
    cost.is_present("xdp_generic", MOST)?;
    cost.is_absent("tc_classify", 0.02)
}
