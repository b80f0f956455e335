//! Options for measuring latencies inside the stack, and the resulting request.

use clap::{Args, FromArgMatches, ValueEnum};
use netto_feature::options::Options;
use netto_feature::values::{in_range, understood};

use crate::request::{Grouping, Request, points};

/// Most names in a filter.
const MOST_NAMES: usize = 128;

/// The options of users.
pub(crate) const OPTIONS: Options = Options {
    arguments: LatencyOptions::augment_args,
    read: |matches, options| {
        let given = LatencyOptions::from_arg_matches(matches).map_err(|error| error.to_string())?;
        let is_on = given.latency.unwrap_or(false);
        let request = given.request()?;
        Ok(if is_on {
            options.with(crate::FEATURE.name, request)
        } else {
            options
        })
    },
    is_reread: true,
};

/// The latencies to measure, and the packets.
#[derive(Debug, Clone, Default, Args)]
struct LatencyOptions {
    /// Measure the time from a packet's arrival to each point of the stack [default: false]
    #[arg(long, value_name = "BOOL")]
    latency: Option<bool>,
    /// Points at which latencies are measured, such as ip-start,tcp-socket-read;
    /// otherwise all
    #[arg(long, value_name = "POINT", value_delimiter = ',', value_parser = understood(|name| points(&[name.to_owned()])))]
    latency_points: Vec<String>,
    /// Measure one packet in this many, the same at all points: reduces the cost [default: 1]
    #[arg(long, value_name = "COUNT", value_parser = in_range(1..=1_000_000_u64, "packets"))]
    latency_one_in: Option<u64>,
    /// Also count segments that waited for an earlier one, when they are read [default: false]
    #[arg(long, value_name = "BOOL")]
    latency_include_hol: Option<bool>,
    /// Only packets received by these interfaces: names, or numbers for those of other namespaces
    #[arg(long, value_name = "INTERFACE", value_delimiter = ',')]
    latency_interfaces: Vec<String>,
    /// Only packets in these network namespaces: names of `ip netns`, paths, or inode numbers
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',')]
    latency_netns: Vec<String>,
    /// Only packets for sockets of these control groups: paths below the hierarchy, or numbers
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    latency_cgroups: Vec<String>,
    /// Only packets read by these processes
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    latency_pids: Vec<u32>,
    /// Only packets for sockets with one of these ports, local or remote
    #[arg(long, value_name = "PORT", value_delimiter = ',')]
    latency_ports: Vec<u16>,
    /// Only packets for sockets with at least this many packets in their queue [default: 0]
    #[arg(long, value_name = "COUNT")]
    latency_min_queue: Option<u32>,
    /// Group packets: none, by interface, or by owner (the socket's control group) [default: none]
    #[arg(long, value_name = "WHAT", hide_possible_values = true)]
    latency_group: Option<GroupName>,
}

/// The grouping of packets, as given by the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GroupName {
    /// No groups
    None,
    /// The receiving interface
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

impl LatencyOptions {
    fn request(self) -> Result<Request, String> {
        let default = Request::default();
        let few = |option: &str, count: usize| {
            if count > MOST_NAMES {
                Err(format!("{option} takes {MOST_NAMES} at most, not {count}"))
            } else {
                Ok(())
            }
        };
        few("--latency-interfaces", self.latency_interfaces.len())?;
        few("--latency-netns", self.latency_netns.len())?;
        few("--latency-cgroups", self.latency_cgroups.len())?;
        few("--latency-pids", self.latency_pids.len())?;
        few("--latency-ports", self.latency_ports.len())?;
        Ok(Request {
            points: points(&self.latency_points)?,
            one_in: self.latency_one_in.unwrap_or(default.one_in),
            includes_hol: self.latency_include_hol.unwrap_or(default.includes_hol),
            interfaces: self.latency_interfaces,
            netns: self.latency_netns,
            cgroups: self.latency_cgroups,
            pids: self.latency_pids,
            ports: self.latency_ports,
            min_queue: self.latency_min_queue.unwrap_or(default.min_queue),
            grouping: self.latency_group.map_or(default.grouping, Into::into),
        })
    }
}
