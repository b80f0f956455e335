//! Flows: who talks to whom, counted for each packet of some interfaces.

use std::cmp::Reverse;
use std::fmt;
use std::net::IpAddr;

use netto_estimate::Figure;
use serde::{Deserialize, Serialize};

pub use self::cpu::{Evidence, SampledTime, SampledTimes};
pub use self::services::service;
use super::columns::Columns;
use super::recorded::Recorded;
use super::section::Section;
use crate::packed::Damaged;
use crate::sort::sort_by_key;

mod cpu;
mod services;

/// Most conversations listed in a snapshot or a sum; those beyond are summed.
pub const MOST_CONVERSATIONS: usize = 50;

/// Most prefixes listed likewise.
pub const MOST_PREFIXES: usize = 10;

/// The packets of some interfaces by conversation. `packets` is the sum of those of conversations,
/// of `other`, of prefixes, and of those lost; so are bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Flows {
    /// Those with the most bytes, descending.
    pub conversations: Vec<Conversation>,
    /// Conversations that are not listed.
    pub other: Amount,
    /// IP packets that were seen, each exactly once for each interface and direction.
    pub packets: u64,
    /// Their bytes, of IP.
    pub bytes: u64,
    /// Those of them that are in no conversation and in no prefix, because there were too many.
    pub lost_packets: u64,
    /// Their bytes.
    pub lost_bytes: u64,
    /// Frames whose headers are wrong or cut off.
    pub malformed_packets: u64,
    /// Frames that carry no IP packet.
    pub other_packets: u64,
    /// Flows under way at the end of the interval, each direction by itself.
    pub active: u64,
    /// Flows that have ended.
    pub ended: u64,
    /// One in so many packets was sampled for the conversations; totals have all. In a sum, of the
    /// newest interval.
    pub one_in: u64,
    /// Time of the RX softirq on all CPUs, nanoseconds, in intervals in which that is known: the sum
    /// of the conversations' and of `other_cpu_ns`.
    pub rx_softirq_ns: Option<u64>,
    /// That of conversations that are not listed, of prefixes, and of packets that are in neither.
    pub other_cpu_ns: Option<u64>,
    /// Where there were more flows than the table holds: the prefixes with the most packets.
    #[serde(default)]
    pub prefixes: Vec<FlowPrefix>,
    /// Packets of all prefixes, also of those not listed.
    #[serde(default)]
    pub prefix_packets: u64,
    /// Their bytes.
    #[serde(default)]
    pub prefix_bytes: u64,
    /// What samples show of these times, and of sends.
    #[serde(default)]
    pub sampled: SampledTimes,
    /// Names of hosts of conversations, each address once, if they were asked for and are known.
    #[serde(default)]
    pub names: Vec<HostName>,
}

/// The name of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostName {
    /// Its address.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub address: IpAddr,
    /// By reverse DNS: letters, digits, `-`, `_` and `.`.
    pub name: String,
}

/// The begin of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Subnet {
    /// Its first address.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub address: IpAddr,
    /// How many bits all of its addresses share; 0: any address.
    pub bits: u8,
}

/// Packets of flows for which the table had no room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowPrefix {
    /// The interface where they were seen.
    pub interface: String,
    /// Protocol in the IP header.
    pub protocol: u8,
    /// Where they came from.
    pub source: Subnet,
    /// Where they went.
    pub destination: Subnet,
    /// What was seen of them.
    pub amount: Amount,
    /// How many flows they were at least. In a sum, in the interval with the most.
    pub least_flows: u64,
    /// Time of the RX softirq, nanoseconds, which is in `other_cpu_ns`; null where it is not known.
    pub cpu_ns: Option<u64>,
}

/// Packets and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Amount {
    /// Packets on the wire.
    pub packets: u64,
    /// Bytes of IP packets.
    pub bytes: u64,
}

/// An end of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowEnd {
    /// Its address.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub address: IpAddr,
    /// Its port; null if the protocol has none.
    pub port: Option<u16>,
}

impl fmt::Display for FlowEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.address, self.port) {
            (IpAddr::V6(address), Some(port)) => write!(f, "[{address}]:{port}"),
            (address, Some(port)) => write!(f, "{address}:{port}"),
            (address, None) => address.fmt(f),
        }
    }
}

/// The flows between two ends, in both directions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Conversation {
    /// The interface where it was seen.
    pub interface: String,
    /// Numbers of its VLAN tags, the outer one first.
    pub vlans: Vec<u16>,
    /// Protocol in the IP header.
    pub protocol: u8,
    /// The first sent the first packet that was seen.
    pub ends: [FlowEnd; 2],
    /// What the first end sent.
    pub sent: Amount,
    /// What it received.
    pub received: Amount,
    /// Packets that were sampled for it: what its figures rest on.
    pub sampled_packets: u64,
    /// The variance of its packets: those that came as one were sampled as one. Null in what an
    /// older netto has written, and in a sum that contains it.
    #[serde(default)]
    pub packets_variance: Option<u64>,
    /// Time of the RX softirq, nanoseconds: what samples show, and what of a CPU's time they do not
    /// shared among the packets that it received; null where that time is not known.
    pub cpu_ns: Option<u64>,
    /// What samples show of it, and of its sends.
    #[serde(default)]
    pub sampled: SampledTime,
}

/// What conversations are sorted by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FlowSort {
    /// Bytes.
    #[default]
    Bytes,
    /// Packets.
    Packets,
    /// CPU time.
    Cpu,
}

impl Amount {
    /// Adds more.
    pub fn add(&mut self, more: Amount) {
        self.packets = self.packets.saturating_add(more.packets);
        self.bytes = self.bytes.saturating_add(more.bytes);
    }
}

/// In the usual way, such as `203.0.113.0/24`; one address stands by itself.
impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = if self.address.is_ipv4() { 32 } else { 128 };
        if self.bits == whole {
            write!(f, "{}", self.address)
        } else {
            write!(f, "{}/{}", self.address, self.bits)
        }
    }
}

impl FlowPrefix {
    fn is_same(&self, other: &FlowPrefix) -> bool {
        [self.source, self.destination] == [other.source, other.destination]
            && self.protocol == other.protocol
            && self.interface == other.interface
    }

    /// Adds packets of the same prefix.
    pub fn add(&mut self, later: &FlowPrefix) {
        self.amount.add(later.amount);
        self.least_flows = self.least_flows.max(later.least_flows);
        self.cpu_ns = sum_of_known(self.cpu_ns, later.cpu_ns);
    }
}

impl Conversation {
    /// Both directions.
    pub fn amount(&self) -> Amount {
        let mut both = self.sent;
        both.add(self.received);
        both
    }

    /// Half of the 95 % interval of its packets and of what follows from them, as a share of them;
    /// `None` if all of its packets were counted, or the variance is unknown.
    pub fn margin_ratio(&self) -> Option<f64> {
        let figure = Figure {
            value: self.amount().packets as f64,
            variance: self.packets_variance? as f64,
            ..Figure::default()
        };
        let (low, high) = figure.interval(0.0);
        (figure.variance > 0.0).then(|| (high - low) / 2.0 / figure.value.max(1.0))
    }

    /// Name of the service at either end, if its port is well known.
    pub fn service(&self) -> Option<&'static str> {
        service_of(self.protocol, self.ends)
    }

    /// Whether both are between the same ends; whichever began.
    fn is_same(&self, other: &Conversation) -> bool {
        let [first, second] = other.ends;
        (self.ends == other.ends || self.ends == [second, first])
            && self.protocol == other.protocol
            && self.vlans == other.vlans
            && self.interface == other.interface
    }

    fn add(&mut self, later: &Conversation) {
        let (sent, received) = if self.ends == later.ends {
            (later.sent, later.received)
        } else {
            (later.received, later.sent)
        };
        self.sent.add(sent);
        self.received.add(received);
        self.sampled_packets = self.sampled_packets.saturating_add(later.sampled_packets);
        self.packets_variance = (self.packets_variance.zip(later.packets_variance))
            .map(|(sum, more)| sum.saturating_add(more));
        self.cpu_ns = sum_of_known(self.cpu_ns, later.cpu_ns);
        self.sampled.add(later.sampled);
    }

    /// CPU time of what it received and sent, nanoseconds.
    pub fn all_cpu_ns(&self) -> Option<u64> {
        sum_of_known(self.cpu_ns, self.sampled.sent_ns)
    }

    fn size(&self, sort: FlowSort) -> u64 {
        match sort {
            FlowSort::Bytes => self.amount().bytes,
            FlowSort::Packets => self.amount().packets,
            FlowSort::Cpu => self.all_cpu_ns().unwrap_or(0),
        }
    }
}

/// Name of the service at either end, the second before the first, if its port is well known.
pub fn service_of(protocol: u8, ends: [FlowEnd; 2]) -> Option<&'static str> {
    let [from, to] = ends.map(|end| end.port);
    let mut ports = [to, from].into_iter().flatten();
    ports.find_map(|port| service(protocol, port))
}

impl Flows {
    /// Sorts conversations, the largest first, and sums those beyond this number.
    pub fn keep(&mut self, most: usize, sort: FlowSort) {
        sort_by_key(&mut self.conversations, |conversation| {
            (
                Reverse(conversation.size(sort)),
                Reverse(conversation.amount().bytes),
                conversation.ends,
            )
        });
        let most = most.min(self.conversations.len());
        for conversation in self.conversations.drain(most..) {
            self.other.add(conversation.amount());
            self.other_cpu_ns = sum_of_known(self.other_cpu_ns, conversation.cpu_ns);
        }
        let ends = self
            .conversations
            .iter()
            .flat_map(|conversation| conversation.ends);
        self.names
            .retain(|name| ends.clone().any(|end| end.address == name.address));
    }

    /// The name of a host, if it is known.
    pub fn name_of(&self, address: IpAddr) -> Option<&str> {
        let found = self.names.iter().find(|name| name.address == address);
        found.map(|name| name.name.as_str())
    }

    /// Keeps the prefixes with the most packets, in this order.
    pub fn keep_prefixes(&mut self) {
        let size = |prefix: &FlowPrefix| {
            (
                Reverse(prefix.amount.packets),
                prefix.source,
                prefix.destination,
            )
        };
        sort_by_key(&mut self.prefixes, size);
        self.prefixes.truncate(MOST_PREFIXES);
    }
}

fn sum_of_known(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, other) => one.or(other),
    }
}

/// It is written as it is: MessagePack has addresses as bytes.
impl Section for Flows {
    type Wire = Flows;

    fn to_wire(&self) -> Flows {
        self.clone()
    }

    fn from_wire(wire: Flows, _: usize) -> Result<Self, Damaged> {
        let is_long = wire.conversations.len() > MOST_CONVERSATIONS;
        let is_long = is_long || wire.names.len() > 2 * MOST_CONVERSATIONS;
        if is_long || wire.prefixes.len() > MOST_PREFIXES {
            Err(Damaged)
        } else {
            Ok(wire)
        }
    }

    fn add(&mut self, later: &Self, _: &Columns) {
        for more in &later.conversations {
            match self
                .conversations
                .iter_mut()
                .find(|conversation| conversation.is_same(more))
            {
                Some(conversation) => conversation.add(more),
                None => self.conversations.push(more.clone()),
            }
        }
        for more in &later.prefixes {
            match self.prefixes.iter_mut().find(|prefix| prefix.is_same(more)) {
                Some(prefix) => prefix.add(more),
                None => self.prefixes.push(more.clone()),
            }
        }
        self.names
            .retain(|name| later.name_of(name.address).is_none());
        self.names.extend_from_slice(&later.names);
        self.keep_prefixes();
        self.other.add(later.other);
        let plus = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        plus(&mut self.packets, later.packets);
        plus(&mut self.bytes, later.bytes);
        plus(&mut self.prefix_packets, later.prefix_packets);
        plus(&mut self.prefix_bytes, later.prefix_bytes);
        plus(&mut self.lost_packets, later.lost_packets);
        plus(&mut self.lost_bytes, later.lost_bytes);
        plus(&mut self.malformed_packets, later.malformed_packets);
        plus(&mut self.other_packets, later.other_packets);
        plus(&mut self.ended, later.ended);
        self.active = later.active;
        self.one_in = later.one_in;
        self.rx_softirq_ns = sum_of_known(self.rx_softirq_ns, later.rx_softirq_ns);
        self.other_cpu_ns = sum_of_known(self.other_cpu_ns, later.other_cpu_ns);
        self.sampled.add(later.sampled);
        self.keep(MOST_CONVERSATIONS, FlowSort::Bytes);
    }
}

/// Nothing of it is kept.
impl Recorded for Flows {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;
    use crate::{Sections, Snapshot};

    fn end(host: u8, port: u16) -> FlowEnd {
        FlowEnd {
            address: IpAddr::from([192, 0, 2, host]),
            port: Some(port),
        }
    }

    fn conversation(port: u16, packets: u64) -> Conversation {
        Conversation {
            interface: "eth0".to_owned(),
            vlans: Vec::new(),
            protocol: 6,
            ends: [end(1, port), end(2, 443)],
            sent: Amount {
                packets,
                bytes: 100 * packets,
            },
            received: Amount::default(),
            sampled_packets: packets,
            packets_variance: Some(0),
            cpu_ns: Some(10 * packets),
            sampled: SampledTime {
                received_ns: Some(6 * packets),
                sent_ns: Some(packets),
                ns_ms: [Some(60 * packets), Some(10 * packets)],
            },
        }
    }

    /// An interval in which one packet was lost, and 7 ns were no conversation's.
    fn flows(conversations: Vec<Conversation>) -> Flows {
        let packets: u64 = conversations
            .iter()
            .map(|conversation| conversation.amount().packets)
            .sum();
        Flows {
            conversations,
            packets: packets + 1,
            bytes: 100 * packets + 60,
            lost_packets: 1,
            lost_bytes: 60,
            one_in: 1,
            rx_softirq_ns: Some(10 * packets + 7),
            other_cpu_ns: Some(7),
            sampled: SampledTimes {
                sends_ns: Some(packets + 3),
                ..SampledTimes::default()
            },
            ..Flows::default()
        }
    }

    fn sums_hold(flows: &Flows) {
        let mut sum = flows.other;
        let mut cpu_ns = flows.other_cpu_ns.unwrap();
        for conversation in &flows.conversations {
            sum.add(conversation.amount());
            cpu_ns += conversation.cpu_ns.unwrap();
        }
        let [packets, bytes] = [flows.prefix_packets, flows.prefix_bytes];
        assert_eq!(sum.packets + packets + flows.lost_packets, flows.packets);
        assert_eq!(sum.bytes + bytes + flows.lost_bytes, flows.bytes);
        assert_eq!(Some(cpu_ns), flows.rx_softirq_ns);
        let sent = flows
            .conversations
            .iter()
            .map(|conversation| conversation.sampled.sent_ns);
        let sent: Option<u64> = sent.sum();
        let other = flows.other_sent_ns().unwrap();
        assert_eq!(Some(sent.unwrap() + other), flows.sampled.sends_ns);
    }

    #[test]
    fn what_is_written_is_read() {
        let mut of_six = conversation(1, 3);
        of_six.ends[0] = FlowEnd {
            address: "2001:db8::1".parse().unwrap(),
            port: None,
        };
        let written = Snapshot {
            sections: Sections {
                flows: Some(Flows {
                    names: vec![name("2001:db8::1", "six.example")],
                    ..flows(vec![conversation(1, 5), of_six])
                }),
                ..Sections::default()
            },
            ..Snapshot::default()
        };
        let read: Snapshot = codec::decode(&codec::encode(&written).unwrap()).unwrap();
        assert_eq!(read, written);
    }

    fn name(address: &str, name: &str) -> HostName {
        HostName {
            address: address.parse().unwrap(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn a_sum_has_the_newest_names_of_the_hosts_that_it_lists() {
        let mut sum = flows(vec![conversation(1, 5)]);
        sum.names = vec![name("192.0.2.1", "one"), name("192.0.2.2", "old")];
        let mut later = flows(vec![conversation(1, 5), conversation(2, 9)]);
        later.conversations[0].ends[0].address = IpAddr::from([192, 0, 2, 3]);
        later.names = vec![name("192.0.2.2", "new"), name("192.0.2.3", "three")];
        sum.add(&later, &Columns::folded());
        let names = |flows: &Flows| {
            [1, 2, 3].map(|host| flows.name_of(end(host, 1).address).map(str::to_owned))
        };
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(names(&sum), [named("one"), named("new"), named("three")]);
        sum.keep(1, FlowSort::Bytes);
        assert_eq!(names(&sum), [named("one"), named("new"), None]);
    }

    #[test]
    fn intervals_add_up_by_conversation_whoever_began() {
        let mut sum = flows(vec![conversation(1, 5), conversation(2, 4)]);
        let mut answered = conversation(2, 8);
        answered.ends.reverse();
        sum.add(&flows(vec![answered]), &Columns::folded());
        sums_hold(&sum);
        let first = &sum.conversations[0];
        assert_eq!((first.ends[0], first.sent.packets), (end(1, 2), 4));
        assert_eq!((first.received.packets, first.cpu_ns), (8, Some(120)));
        assert_eq!(first.service(), Some("https"));
    }

    #[test]
    fn prefixes_add_up_and_the_largest_stay() {
        let subnet = |host| Subnet {
            address: IpAddr::from([203, 0, host, 0]),
            bits: 24,
        };
        let with = |host: u8, packets| {
            let mut interval = flows(Vec::new());
            interval.prefixes.push(FlowPrefix {
                interface: "eth0".to_owned(),
                protocol: 6,
                source: subnet(host),
                destination: Subnet {
                    bits: 32,
                    ..subnet(113)
                },
                amount: Amount {
                    packets,
                    bytes: 40 * packets,
                },
                least_flows: packets.min(256),
                cpu_ns: None,
            });
            (interval.prefix_packets, interval.prefix_bytes) = (packets, 40 * packets);
            interval.packets += packets;
            interval.bytes += 40 * packets;
            interval
        };
        let mut sum = with(1, 90);
        sum.add(&with(1, 20), &Columns::folded());
        for host in 2..40 {
            sum.add(&with(host, u64::from(host)), &Columns::folded());
        }
        sums_hold(&sum);
        assert_eq!(sum.prefixes.len(), MOST_PREFIXES);
        let first = &sum.prefixes[0];
        assert_eq!((first.amount.packets, first.least_flows), (110, 90));
        assert_eq!(first.source.to_string(), "203.0.1.0/24");
        assert_eq!(first.destination.to_string(), "203.0.113.0");
        let written = Snapshot {
            sections: Sections {
                flows: Some(sum),
                ..Sections::default()
            },
            ..Snapshot::default()
        };
        let read: Snapshot = codec::decode(&codec::encode(&written).unwrap()).unwrap();
        assert_eq!(read, written);
    }

    #[test]
    fn a_sum_of_ever_other_conversations_does_not_grow_for_ever_and_loses_nothing() {
        let mut sum = Flows::default();
        for port in 1..1_000 {
            sum.add(
                &flows(vec![conversation(port, u64::from(port))]),
                &Columns::folded(),
            );
        }
        assert_eq!(sum.conversations.len(), MOST_CONVERSATIONS);
        assert_eq!(sum.conversations[0].ends[0].port, Some(999));
        assert_eq!(sum.lost_packets, 999);
        sums_hold(&sum);
    }

    #[test]
    fn time_that_was_not_known_in_an_interval_is_no_zero_and_what_was_counted_has_no_margin() {
        let unknown = Flows {
            rx_softirq_ns: None,
            other_cpu_ns: None,
            ..Flows::default()
        };
        let mut sum = unknown.clone();
        sum.add(&unknown, &Columns::folded());
        assert_eq!((sum.rx_softirq_ns, sum.other_cpu_ns), (None, None));
        sum.add(&flows(Vec::new()), &Columns::folded());
        assert_eq!(sum.rx_softirq_ns, Some(7));
        let mut conversation = conversation(1, 10_000);
        assert_eq!(conversation.margin_ratio(), None);
        // A hundred of them, one by one.
        (conversation.sampled_packets, conversation.packets_variance) = (100, Some(990_000));
        let margin = conversation.margin_ratio().unwrap();
        assert!((margin - 0.195).abs() < 0.01, "{margin}");
        conversation.packets_variance = None;
        assert_eq!(conversation.margin_ratio(), None);
    }
}
