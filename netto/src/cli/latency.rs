//! Options of measuring latencies inside the stack.

use clap::{Args, ValueEnum};

use netto_analysis::latency::{Grouping, points};

use super::values::{in_range, understood};

/// What latencies are measured, of which packets.
#[derive(Debug, Clone, Default, Args)]
pub struct LatencyArgs {
    /// Measure how long after its arrival a packet is at which point of the stack [default: false]
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        env = "NETTO_LATENCY",
        hide_env = true
    )]
    pub latency: Option<bool>,
    /// Points at which latencies are measured, such as ip-start,tcp-socket-read [default: all that
    /// there are]
    #[arg(
        long,
        value_name = "POINT",
        value_delimiter = ',',
        value_parser = understood(|name| points(&[name.to_owned()])),
        env = "NETTO_LATENCY_POINTS",
        hide_env = true
    )]
    pub latency_points: Vec<String>,
    /// Look at one in so many packets, the same at all points: cost follows [default: 1]
    #[arg(
        long,
        value_name = "COUNT",
        value_parser = in_range(1..=1_000_000_u64, "packets"),
        env = "NETTO_LATENCY_ONE_IN",
        hide_env = true
    )]
    pub latency_one_in: Option<u64>,
    /// Count segments that waited for an earlier one, too, when they are read [default: false]
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        env = "NETTO_LATENCY_INCLUDE_HOL",
        hide_env = true
    )]
    pub latency_include_hol: Option<bool>,
    /// Only packets that came in at these interfaces: names, or numbers for those of other
    /// namespaces
    #[arg(
        long,
        value_name = "INTERFACE",
        value_delimiter = ',',
        env = "NETTO_LATENCY_INTERFACES",
        hide_env = true
    )]
    pub latency_interfaces: Vec<String>,
    /// Only packets in these network namespaces: names of `ip netns`, paths, or inode numbers
    #[arg(
        long,
        value_name = "NAMESPACE",
        value_delimiter = ',',
        env = "NETTO_LATENCY_NETNS",
        hide_env = true
    )]
    pub latency_netns: Vec<String>,
    /// Only packets for sockets of these control groups: paths below the hierarchy, or numbers
    #[arg(
        long,
        value_name = "PATH",
        value_delimiter = ',',
        env = "NETTO_LATENCY_CGROUPS",
        hide_env = true
    )]
    pub latency_cgroups: Vec<String>,
    /// Only packets that these processes read
    #[arg(
        long,
        value_name = "PID",
        value_delimiter = ',',
        env = "NETTO_LATENCY_PIDS",
        hide_env = true
    )]
    pub latency_pids: Vec<u32>,
    /// Only packets for sockets with one of these ports, on either side
    #[arg(
        long,
        value_name = "PORT",
        value_delimiter = ',',
        env = "NETTO_LATENCY_PORTS",
        hide_env = true
    )]
    pub latency_ports: Vec<u16>,
    /// Only packets for sockets with so many in their queue [default: 0]
    #[arg(
        long,
        value_name = "COUNT",
        env = "NETTO_LATENCY_MIN_QUEUE",
        hide_env = true
    )]
    pub latency_min_queue: Option<u32>,
    /// Tell packets apart: none, by interface, or by owner (the socket's control group)
    /// [default: none]
    #[arg(
        long,
        value_name = "WHAT",
        hide_possible_values = true,
        env = "NETTO_LATENCY_GROUP",
        hide_env = true
    )]
    pub latency_group: Option<GroupName>,
}

/// By what packets are told apart, as the user writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GroupName {
    /// By nothing
    None,
    /// The interface that they came in at
    Interface,
    /// The control group of their socket
    Owner,
}

impl From<GroupName> for Grouping {
    fn from(name: GroupName) -> Self {
        match name {
            GroupName::None => Grouping::None,
            GroupName::Interface => Grouping::Interface,
            GroupName::Owner => Grouping::Owner,
        }
    }
}
