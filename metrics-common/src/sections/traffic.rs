//! The work of networking: packets of each CPU and interface, the host's protocols, messages of
//! sockets.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use self::interfaces::InterfacesWire;
pub use self::interfaces::{Interface, InterfaceCounts, Interfaces, LOOPBACK, MOST_INTERFACES};
pub use self::work::{Work, WorkCount};
use self::work::{WorkWire, add_known};
use super::columns::{Columns, Rows};
use super::recorded::{Quantity, Recorded, Unit};
use super::section::Section;
use crate::info::Info;
use crate::named;
use crate::packed::{self, Damaged, MOST_ROWS, Packed};
use crate::rounding::Carry;

mod interfaces;
mod work;

named! {
    /// The kernel's counts of each CPU's receive path (`/proc/net/softnet_stat`).
    SoftnetCount:
    Packets "packets" "Packets" "Packets that the CPU took up the stack, those that GRO has merged as one (`__netif_receive_skb_core`).";
    Dropped "dropped" "Backlog drops" "Packets that found the CPU's backlog full (`net.core.netdev_max_backlog`).";
    Squeezed "squeezed" "Budget exhausted" "RX softirqs that ended with packets left over (`net.core.netdev_budget`, `netdev_budget_usecs`).";
    ReceivedRps "received_rps" "Woken by RPS" "Times that another CPU handed it packets by RPS.";
    FlowLimited "flow_limited" "Flow limit" "Packets dropped because their flow alone filled the backlog (`net.core.flow_limit_cpu_bitmap`).";
}

named! {
    /// The kernel's counts of protocols in the host's own network namespace (`/proc/net/snmp`,
    /// `snmp6` and `netstat`).
    ProtocolCount:
    TcpSegmentsIn "tcp_segments_in" "TCP segments in" "TCP segments received.";
    TcpSegmentsOut "tcp_segments_out" "TCP segments out" "TCP segments sent, without those that were sent again.";
    TcpRetransmits "tcp_retransmits" "TCP segments sent again" "TCP segments sent again.";
    TcpOutOfOrder "tcp_out_of_order" "TCP out of order" "TCP segments that came before those that go in front of them.";
    TcpListenOverflows "tcp_listen_overflows" "Accept queue full" "Connections that found the accept queue of a listening socket full.";
    TcpListenDrops "tcp_listen_drops" "Listen drops" "Connections that a listening socket dropped, for that or any other reason.";
    UdpDatagramsIn "udp_datagrams_in" "UDP datagrams in" "UDP datagrams delivered to sockets.";
    UdpDatagramsOut "udp_datagrams_out" "UDP datagrams out" "UDP datagrams sent.";
    UdpReceiveBufferErrors "udp_receive_buffer_errors" "UDP receive buffer full" "UDP datagrams dropped because the socket's receive buffer was full.";
    TcpPruned "tcp_pruned" "TCP receive buffer full" "Times that a socket's receive buffer was full, and TCP made room in it.";
    TcpCollapsed "tcp_collapsed" "TCP collapsed" "TCP packets in receive queues that were copied together to make room.";
    TcpPruneDrops "tcp_prune_drops" "TCP prune drops" "TCP packets dropped because that did not make room enough.";
    TcpMemoryPressures "tcp_memory_pressures" "TCP memory pressure" "Times that all of TCP's buffers came under memory pressure (`net.ipv4.tcp_mem`).";
    UdpMemoryErrors "udp_memory_errors" "UDP memory errors" "UDP datagrams dropped because all of UDP's buffers had no memory left (`net.ipv4.udp_mem`).";
}

/// The work in an interval. Counts are of the interval; unreadable ones are absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Traffic {
    /// What the kernel counts of each CPU's receive path; a count that is not known is absent.
    #[serde(serialize_with = "softnet_by_name")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "softnet_schema"))]
    pub softnet: Rows<u64>,
    /// Of the host's own network namespace; absent if not known in this interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interfaces: Option<Interfaces>,
    /// What TCP and UDP count in the host's own network namespace; what is not known is absent.
    #[serde(serialize_with = "protocols_by_name")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "protocols_schema"))]
    pub protocols: Vec<Option<u64>>,
    /// What probes count of sockets for networking, in every network namespace, and of NAPI, on all
    /// CPUs together; what this kernel does not show is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
}

impl Traffic {
    /// A count of each CPU; `None` if unknown.
    pub fn softnet_of(&self, count: SoftnetCount) -> Option<&[u64]> {
        self.softnet.get(count as usize)?.as_deref()
    }

    /// A count of all CPUs; `None` if unknown.
    pub fn softnet_total(&self, count: SoftnetCount) -> Option<u64> {
        let row = self.softnet_of(count)?;
        Some(row.iter().fold(0, |sum, count| sum.saturating_add(*count)))
    }

    /// A count of a protocol; `None` if unknown.
    pub fn protocol(&self, count: ProtocolCount) -> Option<u64> {
        *self.protocols.get(count as usize)?
    }
}

#[cfg(feature = "schema")]
fn softnet_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let counts = SoftnetCount::ALL.map(|count| (count.slug(), count.help()));
    crate::schema::by_name::<Vec<u64>>(generator, &counts)
}

#[cfg(feature = "schema")]
fn protocols_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let counts = ProtocolCount::ALL.map(|count| (count.slug(), count.help()));
    crate::schema::by_name::<u64>(generator, &counts)
}

/// Each known count under its name.
fn softnet_by_name<S: Serializer>(rows: &Rows<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    for (count, row) in SoftnetCount::ALL.iter().zip(rows) {
        if let Some(row) = row {
            map.serialize_entry(count.slug(), row)?;
        }
    }
    map.end()
}

/// The same of protocols.
fn protocols_by_name<S: Serializer>(
    values: &[Option<u64>],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    for (count, value) in ProtocolCount::ALL.iter().zip(values) {
        if let Some(value) = value {
            map.serialize_entry(count.slug(), value)?;
        }
    }
    map.end()
}

/// [`Traffic`] on the wire.
#[derive(Debug, Serialize, Deserialize)]
pub struct TrafficWire {
    softnet: Packed,
    interfaces: Option<InterfacesWire>,
    protocols: Vec<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    work: Option<WorkWire>,
}

impl Section for Traffic {
    type Wire = TrafficWire;

    fn to_wire(&self) -> TrafficWire {
        TrafficWire {
            softnet: packed::pack(self.softnet.iter().map(Option::as_deref)),
            interfaces: self.interfaces.as_ref().map(InterfacesWire::of),
            protocols: self.protocols.clone(),
            work: self.work.as_ref().map(WorkWire::of),
        }
    }

    fn from_wire(wire: TrafficWire, cpus: usize) -> Result<Self, Damaged> {
        if wire.protocols.len() > MOST_ROWS {
            return Err(Damaged);
        }
        let interfaces = wire.interfaces.map(InterfacesWire::into_interfaces);
        Ok(Traffic {
            softnet: packed::unpack(&wire.softnet, cpus)?,
            interfaces: interfaces.transpose()?,
            protocols: wire.protocols,
            work: wire.work.map(WorkWire::into_work).transpose()?,
        })
    }

    fn round(&mut self, carry: &mut Carry) {
        carry.round_rows("softnet", &mut self.softnet, 1);
        if let Some(work) = &mut self.work {
            carry.round_counts("work", &mut work.counts);
        }
    }

    fn add(&mut self, later: &Self, columns: &Columns) {
        let Traffic {
            softnet,
            interfaces,
            protocols,
            work,
        } = self;
        columns.add_rows(softnet, &later.softnet);
        if let Some(later) = &later.interfaces {
            interfaces.get_or_insert_default().add(later);
        }
        add_known(protocols, &later.protocols);
        if let Some(later) = &later.work {
            work.get_or_insert_default().add(later);
        }
    }
}

/// Series: packets passed up the stack, bytes over the wire in and out, and bytes sent and received
/// by sockets, per second.
impl Recorded for Traffic {
    fn series(_: &Info) -> Vec<Quantity> {
        let quantity = |name: &str, unit| Quantity {
            name: name.to_owned(),
            unit,
        };
        vec![
            quantity("packets", Unit::PerSecond),
            quantity("wire_rx", Unit::BytesPerSecond),
            quantity("wire_tx", Unit::BytesPerSecond),
            quantity("messages_sent", Unit::PerSecond),
            quantity("messages_received", Unit::PerSecond),
            quantity("socket_bytes", Unit::BytesPerSecond),
        ]
    }

    fn value(&self, series: usize, interval_ns: u64) -> Option<f64> {
        let wire = || self.interfaces.as_ref().map(Interfaces::wire);
        let work = |count| {
            let work = self.work.as_ref();
            work.filter(|work| work.counted_ns >= interval_ns)?
                .of(count)
        };
        let count = match series {
            0 => self.softnet_total(SoftnetCount::Packets)?,
            1 => wire()?.rx_bytes,
            2 => wire()?.tx_bytes,
            3 => work(WorkCount::MessagesSent)?,
            4 => work(WorkCount::MessagesReceived)?,
            5 => work(WorkCount::BytesSent)?.saturating_add(work(WorkCount::BytesReceived)?),
            _ => return None,
        };
        Some(count as f64 / interval_ns as f64 * 1e9)
    }
}

#[cfg(test)]
mod tests;
