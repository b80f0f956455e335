//! Encodes and decodes rtnetlink messages about interfaces, their BPF programs, and network
//! namespaces (`rtnetlink(7)`; `rtnl_fill_ifinfo`, `rtnl_fill_statsinfo`, `tcf_fill_node` and
//! `rtnl_net_fill` in the kernel). Only knows their layouts, and trusts no length in them.
//! `netto_sys::netlink` sends and receives.

use std::net::IpAddr;

use metrics_common::InterfaceCounts;

/// Sizes of `struct nlmsghdr`, `ifinfomsg`, `if_stats_msg`, and `rtgenmsg` with its padding.
pub(crate) const HEADER_BYTES: usize = 16;
const LINK_BYTES: usize = 16;
const STATS_BYTES: usize = 12;
const GENERAL_BYTES: usize = 4;
/// Size of `struct tcmsg`.
const FILTER_BYTES: usize = 20;
/// Size of `struct ndmsg`.
const NEIGHBOUR_BYTES: usize = 12;
/// Bytes before an attribute's value.
const ATTRIBUTE_BYTES: usize = 4;

pub(crate) const NLMSG_ERROR: u16 = 2;
pub(crate) const NLMSG_DONE: u16 = 3;
pub(crate) const NLM_F_REQUEST: u16 = 1;
pub(crate) const NLM_F_DUMP: u16 = 0x300;
const NLM_F_DUMP_INTR: u16 = 0x10;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWNEIGH: u16 = 28;
const RTM_GETNEIGH: u16 = 30;
const RTM_NEWQDISC: u16 = 36;
const RTM_GETQDISC: u16 = 38;
const RTM_NEWTFILTER: u16 = 44;
const RTM_GETTFILTER: u16 = 46;
const RTM_NEWNSID: u16 = 88;
const RTM_GETNSID: u16 = 90;
const RTM_NEWSTATS: u16 = 92;
const RTM_GETSTATS: u16 = 94;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_STATS64: u16 = 23;
const IFLA_EXT_MASK: u16 = 29;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_XDP: u16 = 43;
/// Numbers of programs: of the only one, or by mode.
const IFLA_XDP_PROG_IDS: std::ops::RangeInclusive<u16> = 4..=7;
const TCA_OPTIONS: u16 = 2;
const TCA_STATS2: u16 = 7;
const TCA_STATS_QUEUE: u16 = 3;
/// `TC_H_ROOT`: the queueing discipline of an interface itself, which sums up those below it.
const TC_ROOT: u32 = 0xffff_ffff;
const TCA_BPF_ID: u16 = 11;
/// `TC_H_CLSACT` with the filters of what comes in and of what goes out.
const TC_INGRESS: u32 = 0xffff_fff2;
const TC_EGRESS: u32 = 0xffff_fff3;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_STATS_LINK_64: u16 = 1;
/// Leaves out counts for IPv6 and of virtual functions, which are most of an answer.
const RTEXT_FILTER_SKIP_STATS: u32 = 1 << 3;
const NETNSA_NSID: u16 = 1;
const NETNSA_PID: u16 = 2;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// States of a neighbour that has told its hardware address: reachable, stale, delay, probe, permanent.
/// Not noarp, whose address the kernel derives: of groups, and of all hosts.
const NUD_TOLD: u16 = 0x02 | 0x04 | 0x08 | 0x10 | 0x80;
const ARPHRD_LOOPBACK: u16 = 772;
/// The upper bits of an attribute's type are flags.
const NLA_TYPE: u16 = 0x3fff;

/// A request to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// All interfaces.
    Links,
    /// The interface of this number.
    Link(u32),
    /// Only the counts of each interface: much cheaper than [`Request::Links`].
    Counts,
    /// The filters of an interface, for what comes in or for what goes out.
    Filters {
        /// Number of the interface.
        interface: u32,
        /// Whether those for what goes out.
        are_egress: bool,
    },
    /// The queueing disciplines of all interfaces.
    Qdiscs,
    /// The neighbours of all interfaces.
    Neighbours,
    /// The id in this network namespace of the namespace of this process.
    NamespaceOf(u32),
}

impl Request {
    /// The message, with this sequence number.
    pub fn encode(self, sequence: u32) -> Vec<u8> {
        let mut body = Vec::with_capacity(LINK_BYTES + 8);
        let (kind, flags) = match self {
            Request::Links | Request::Link(_) => {
                let (index, flags) = match self {
                    Request::Link(index) => (index, 0),
                    _ => (0, NLM_F_DUMP),
                };
                body.resize(LINK_BYTES, 0);
                body[4..8].copy_from_slice(&index.to_ne_bytes());
                push_attribute(&mut body, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
                (RTM_GETLINK, flags)
            }
            Request::Counts => {
                body.resize(STATS_BYTES, 0);
                let filter = 1_u32 << (IFLA_STATS_LINK_64 - 1);
                body[8..12].copy_from_slice(&filter.to_ne_bytes());
                (RTM_GETSTATS, NLM_F_DUMP)
            }
            Request::Filters {
                interface,
                are_egress,
            } => {
                let parent = if are_egress { TC_EGRESS } else { TC_INGRESS };
                body.resize(FILTER_BYTES, 0);
                body[4..8].copy_from_slice(&interface.to_ne_bytes());
                body[12..16].copy_from_slice(&parent.to_ne_bytes());
                (RTM_GETTFILTER, NLM_F_DUMP)
            }
            Request::Qdiscs => {
                body.resize(FILTER_BYTES, 0);
                (RTM_GETQDISC, NLM_F_DUMP)
            }
            Request::Neighbours => {
                body.resize(NEIGHBOUR_BYTES, 0);
                (RTM_GETNEIGH, NLM_F_DUMP)
            }
            Request::NamespaceOf(pid) => {
                body.resize(GENERAL_BYTES, 0);
                push_attribute(&mut body, NETNSA_PID, pid);
                (RTM_GETNSID, 0)
            }
        };
        framed(kind, NLM_F_REQUEST | flags, sequence, &body)
    }
}

fn push_attribute(body: &mut Vec<u8>, kind: u16, value: u32) {
    body.extend(8_u16.to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value.to_ne_bytes());
}

/// An interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    /// Its index in its network namespace, which is never reused.
    pub index: u32,
    /// Its name: any bytes except `/` and blanks.
    pub name: Vec<u8>,
    /// Whether it is a loopback.
    pub is_loopback: bool,
    /// `veth`, `bridge`, `vlan`…; `None` for hardware.
    pub kind: Option<String>,
    /// Its receive queues.
    pub rx_queues: u32,
    /// Its transmit queues.
    pub tx_queues: u32,
    /// Its counts since its creation.
    pub counts: InterfaceCounts,
    /// The id, in this interface's namespace, of the namespace of its peer, such as a veth's other
    /// end; `None` if it is the same.
    pub peer_nsid: Option<i32>,
    /// The numbers of its XDP programs.
    pub xdp_programs: Vec<u32>,
}

/// The queue of an interface's queueing discipline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Qdisc {
    /// Index of the interface.
    pub interface: u32,
    /// Bytes that wait in it.
    pub backlog_bytes: u32,
    /// Packets that it dropped since it is there.
    pub dropped: u32,
}

/// A host on the same network, whose Ethernet address is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// Index of the interface by which it is reached.
    pub interface: u32,
    /// Its address.
    pub address: IpAddr,
    /// Its Ethernet address.
    pub ethernet: [u8; 6],
}

/// A message from the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// An interface.
    Link(Link),
    /// The counts of the interface with this index.
    Counts(u32, InterfaceCounts),
    /// The id of a namespace; `None` if it has none.
    Namespace(Option<i32>),
    /// A filter's BPF program, by its number.
    Filter(u32),
    /// The queueing discipline of an interface.
    Qdisc(Qdisc),
    /// A neighbour.
    Neighbour(Neighbour),
    /// A refusal with this errno.
    Refused(i32),
    /// The end of a list.
    Done,
    /// Any other message.
    Other,
}

/// A message with its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Sequence number of its request.
    pub sequence: u32,
    /// Whether the list changed while the kernel wrote it (`NLM_F_DUMP_INTR`).
    pub is_interrupted: bool,
    /// Its content.
    pub message: Message,
}

/// The bytes end too early, or lengths contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its answer about interfaces is damaged")]
pub struct Damaged;

/// The messages of a datagram, up to the first damaged one.
pub fn messages(received: &[u8]) -> impl Iterator<Item = Result<Received, Damaged>> {
    let mut rest = received;
    std::iter::from_fn(move || {
        let bytes = std::mem::take(&mut rest);
        if bytes.is_empty() {
            return None;
        }
        let read = || {
            let (frame, after) = frame(bytes)?;
            let received = Received {
                sequence: frame.sequence,
                is_interrupted: frame.flags & NLM_F_DUMP_INTR != 0,
                message: message(frame.kind, frame.body)?,
            };
            Some((received, after))
        };
        let (received, after) = match read() {
            Some(read) => read,
            None => return Some(Err(Damaged)),
        };
        rest = after;
        Some(Ok(received))
    })
}

fn message(kind: u16, body: &[u8]) -> Option<Message> {
    Some(match kind {
        NLMSG_ERROR => Message::Refused((word(body, 0)? as i32).wrapping_neg()),
        NLMSG_DONE => Message::Done,
        RTM_NEWLINK => Message::Link(link(body)?),
        RTM_NEWSTATS => {
            let mut all = Attributes(body.get(STATS_BYTES..)?).flatten();
            let (_, value) = all.find(|(kind, _)| *kind == IFLA_STATS_LINK_64)?;
            Message::Counts(word(body, 4)?, counts(value)?)
        }
        RTM_NEWTFILTER => {
            // Filters of other kinds have other options.
            let program = || {
                let all = Attributes(body.get(FILTER_BYTES..)?);
                let (_, options) = all.flatten().find(|(kind, _)| *kind == TCA_OPTIONS)?;
                let mut options = Attributes(options).flatten();
                let (_, value) = options.find(|(kind, _)| *kind == TCA_BPF_ID)?;
                word(value, 0)
            };
            program().map_or(Message::Other, Message::Filter)
        }
        RTM_NEWQDISC => qdisc(body)?.map_or(Message::Other, Message::Qdisc),
        RTM_NEWNEIGH => neighbour(body)?.map_or(Message::Other, Message::Neighbour),
        RTM_NEWNSID => {
            let mut all = Attributes(body.get(GENERAL_BYTES..)?).flatten();
            let (_, value) = all.find(|(kind, _)| *kind == NETNSA_NSID)?;
            Message::Namespace(assigned(word(value, 0)?))
        }
        _ => Message::Other,
    })
}

/// `Some(None)` if it is within another one, or does not count.
fn qdisc(body: &[u8]) -> Option<Option<Qdisc>> {
    let (interface, parent) = (word(body, 4)?, word(body, 12)?);
    let attributes = body.get(FILTER_BYTES..)?;
    let queue = || {
        let all = Attributes(attributes).flatten();
        let (_, counts) = all.into_iter().find(|(kind, _)| *kind == TCA_STATS2)?;
        let mut counts = Attributes(counts).flatten();
        let (_, queue) = counts.find(|(kind, _)| *kind == TCA_STATS_QUEUE)?;
        Some(Qdisc {
            interface,
            backlog_bytes: word(queue, 4)?,
            dropped: word(queue, 8)?,
        })
    };
    Some(queue().filter(|_| parent == TC_ROOT))
}

/// `Some(None)` if its address is not known, or is not one of Ethernet.
fn neighbour(body: &[u8]) -> Option<Option<Neighbour>> {
    let (interface, state) = (word(body, 4)?, half(body, 8)?);
    let (mut address, mut ethernet) = (None, None);
    for attribute in Attributes(body.get(NEIGHBOUR_BYTES..)?) {
        match attribute? {
            (NDA_DST, value) => address = ip_address(value),
            (NDA_LLADDR, value) => ethernet = value.try_into().ok(),
            _ => {}
        }
    }
    let known = address.zip(ethernet).filter(|_| state & NUD_TOLD != 0);
    Some(known.map(|(address, ethernet)| Neighbour {
        interface,
        address,
        ethernet,
    }))
}

fn ip_address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}

fn link(body: &[u8]) -> Option<Link> {
    let mut link = Link {
        index: word(body, 4)?,
        is_loopback: half(body, 2)? == ARPHRD_LOOPBACK,
        ..Link::default()
    };
    for attribute in Attributes(body.get(LINK_BYTES..)?) {
        let (kind, value) = attribute?;
        match kind {
            IFLA_IFNAME => link.name = text(value).to_vec(),
            IFLA_NUM_TX_QUEUES => link.tx_queues = word(value, 0)?,
            IFLA_NUM_RX_QUEUES => link.rx_queues = word(value, 0)?,
            IFLA_STATS64 => link.counts = counts(value)?,
            IFLA_LINK_NETNSID => link.peer_nsid = assigned(word(value, 0)?),
            IFLA_XDP => {
                for attribute in Attributes(value) {
                    let (kind, value) = attribute?;
                    if IFLA_XDP_PROG_IDS.contains(&kind) {
                        link.xdp_programs.push(word(value, 0)?);
                    }
                }
                link.xdp_programs.sort_unstable();
                link.xdp_programs.dedup();
            }
            IFLA_LINKINFO => {
                for attribute in Attributes(value) {
                    let (kind, value) = attribute?;
                    if kind == IFLA_INFO_KIND {
                        link.kind = Some(String::from_utf8_lossy(text(value)).into_owned());
                    }
                }
            }
            _ => {}
        }
    }
    (!link.name.is_empty()).then_some(link)
}

/// The first words of `struct rtnl_link_stats64`; newer kernels append more.
fn counts(value: &[u8]) -> Option<InterfaceCounts> {
    let long = |place: usize| {
        let bytes = value.get(8 * place..)?.first_chunk()?;
        Some(u64::from_ne_bytes(*bytes))
    };
    Some(InterfaceCounts {
        rx_packets: long(0)?,
        tx_packets: long(1)?,
        rx_bytes: long(2)?,
        tx_bytes: long(3)?,
        rx_errors: long(4)?,
        tx_errors: long(5)?,
        rx_dropped: long(6)?,
        tx_dropped: long(7)?,
        rx_missed: long(15)?,
    })
}

/// A namespace without an id is reported as −1.
fn assigned(nsid: u32) -> Option<i32> {
    i32::try_from(nsid).ok()
}

/// Types and values, ending with `None` at the first damaged one.
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = Option<(u16, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let bytes = std::mem::take(&mut self.0);
        let length = usize::from(half(bytes, 0).unwrap_or(0));
        let attribute = bytes.get(..length);
        let Some(attribute) = attribute.filter(|bytes| bytes.len() >= ATTRIBUTE_BYTES) else {
            return Some(None);
        };
        self.0 = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        let kind = half(attribute, 2).unwrap_or(0) & NLA_TYPE;
        Some(Some((kind, &attribute[ATTRIBUTE_BYTES..])))
    }
}

/// A message by its header.
pub(crate) struct Frame<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    pub(crate) body: &'a [u8],
}

/// The first message of a datagram, and what follows it.
pub(crate) fn frame(bytes: &[u8]) -> Option<(Frame<'_>, &[u8])> {
    let length = word(bytes, 0)? as usize;
    let (header, body) = bytes.get(..length)?.split_at_checked(HEADER_BYTES)?;
    let frame = Frame {
        kind: half(header, 4)?,
        flags: half(header, 6)?,
        sequence: word(header, 8)?,
        body,
    };
    let after = bytes.get(length.next_multiple_of(4)..);
    Some((frame, after.unwrap_or_default()))
}

/// A message with its header.
pub(crate) fn framed(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let length = HEADER_BYTES + body.len();
    let mut message = Vec::with_capacity(length);
    message.extend((length as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    message.extend(0_u32.to_ne_bytes());
    message.extend(body);
    message
}

/// A text without its terminating zero.
fn text(value: &[u8]) -> &[u8] {
    let end = value.iter().position(|byte| *byte == 0);
    &value[..end.unwrap_or(value.len())]
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(crate) fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests;
