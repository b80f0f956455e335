//! How the host is set up, as far as advice depends on it. What advice says is found by whoever
//! reads it, from this and the other sections ([`crate::advice`]).

use serde::{Deserialize, Serialize};

use super::columns::Columns;
use super::recorded::Recorded;
use super::section::Section;
use crate::packed::{Damaged, MOST_CPUS};

/// Most interfaces, and most interrupts of each.
pub const MOST_SETUPS: usize = 16;
/// See [`MOST_SETUPS`].
pub const MOST_INTERRUPTS: usize = 64;

/// The host's set-up, as it was read last; a field is absent if it cannot be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Setup {
    /// Interfaces of the host's own network namespace that are up: those that have received most.
    #[cfg_attr(feature = "schema", schemars(length(max = 16)))]
    pub interfaces: Vec<InterfaceSetup>,
    /// `net.core.netdev_budget`: packets of an RX softirq at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<u64>,
    /// `net.core.netdev_budget_usecs`: its length at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_usecs: Option<u64>,
    /// `net.core.netdev_max_backlog`: packets in a CPU's backlog at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_backlog: Option<u64>,
    /// Connections that the kernel tracks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracked_connections: Option<u64>,
    /// Whether the kernel can translate addresses (`nf_nat` is there).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub has_nat: Option<bool>,
    /// `net.ipv4.tcp_congestion_control`: of connections that choose no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    /// `net.core.default_qdisc`: the queueing discipline of new interfaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_qdisc: Option<String>,
    /// `net.ipv4.tcp_rmem`: bytes of a receive buffer, least, at first and most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_rmem: Option<[u64; 3]>,
    /// Memory of all TCP sockets, and `net.ipv4.tcp_mem`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_memory: Option<SocketMemory>,
    /// Memory of all UDP sockets, and `net.ipv4.udp_mem`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_memory: Option<SocketMemory>,
}

/// Memory in the buffers of a protocol's sockets, in pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SocketMemory {
    /// What they hold.
    pub pages: u64,
    /// From where on the protocol is no longer, or comes, under pressure, and the most.
    pub limits: [u64; 3],
}

impl SocketMemory {
    /// What they hold, as a part of where pressure begins.
    pub fn filled(&self) -> f64 {
        self.pages as f64 / self.limits[1].max(1) as f64
    }
}

/// How an interface is set up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterfaceSetup {
    /// Its name.
    pub name: String,
    /// Receive queues.
    pub rx_queues: u32,
    /// CPUs to which receive packet steering (RPS) hands packets of any queue, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rps_cpus: Vec<u32>,
    /// Its interrupts, each with the CPUs that may take it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 64)))]
    pub interrupts: Vec<(u32, Vec<u32>)>,
    /// Whether received packets are merged (GRO).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gro: Option<bool>,
    /// Whether the device cuts TCP's packets (TSO).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tso: Option<bool>,
    /// Whether the device computes checksums of what is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_checksums: Option<bool>,
}

impl Section for Setup {
    type Wire = Setup;

    fn to_wire(&self) -> Setup {
        self.clone()
    }

    fn from_wire(wire: Setup, _: usize) -> Result<Self, Damaged> {
        let is_small = |interface: &InterfaceSetup| {
            let lists = interface.interrupts.iter().map(|(_, cpus)| cpus);
            let mut lists = lists.chain([&interface.rps_cpus]);
            interface.interrupts.len() <= MOST_INTERRUPTS
                && lists.all(|cpus| cpus.len() <= MOST_CPUS)
        };
        let is_bounded =
            wire.interfaces.len() <= MOST_SETUPS && wire.interfaces.iter().all(is_small);
        is_bounded.then_some(wire).ok_or(Damaged)
    }

    fn add(&mut self, later: &Self, _: &Columns) {
        // An interval without it says nothing of it, and it seldom changes.
        if later != self && *later != Setup::default() {
            self.clone_from(later);
        }
    }
}

/// Nothing of it is kept.
impl Recorded for Setup {}
