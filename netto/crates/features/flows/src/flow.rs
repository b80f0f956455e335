//! A flow: its key, what is counted of it, and how both are read from the words of the programs and
//! the parser (`netto_sys::packet`). Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netto_sys::packet;

use crate::abi;

/// Bits of the direction in a key.
const DIRECTIONS: usize = (1 << (abi::FLOWS_CPU_BIT - abi::FLOWS_DIRECTION_BIT)) - 1;
/// Bits of the form in a key.
const FORMS: usize = 3;
/// Words of a key, which is the begin of a parsed packet.
pub(crate) const KEY_WORDS: usize = packet::FLOW_PACKET_IP_BYTES;

/// Whether packets come or go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Direction {
    /// Received by the interface.
    In,
    /// Sent by it.
    Out,
}

/// What all packets of a flow have in common. The words of the programs, whose bytes are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key([u64; KEY_WORDS]);

/// What is counted of a flow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub packets: u64,
    pub bytes: u64,
    pub first_ns: u64,
    pub last_ns: u64,
    /// All that were seen.
    pub tcp_flags: u64,
    /// A bit for each that was seen.
    pub dscps: u64,
    /// A bit for each that was seen.
    pub ttls: [u64; 4],
    /// CPU time of the RX softirq for packets that are received, or of tasks' sends for those that are
    /// sent, nanoseconds; none if it is not known of all.
    pub cpu_ns: Option<u64>,
}

/// What the parser says of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A packet of a flow.
    Packet(Packet),
    /// No IP packet.
    Other,
    /// A header is wrong or cut off.
    Malformed,
}

/// A parsed packet, in the words of the parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packet(pub [u64; packet::FLOW_PACKET_END]);

fn address(words: [u64; 2]) -> Ipv6Addr {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&words[0].to_ne_bytes());
    bytes[8..].copy_from_slice(&words[1].to_ne_bytes());
    Ipv6Addr::from(bytes)
}

impl Key {
    /// The key in the bytes of the table, and the CPU of the entry.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<(Key, u32)> {
        let mut key: [u64; KEY_WORDS] = words(bytes)?;
        let cpu = key[packet::FLOW_PACKET_TALK] >> abi::FLOWS_CPU_BIT;
        key[packet::FLOW_PACKET_TALK] &= (1 << abi::FLOWS_CPU_BIT) - 1;
        Some((Key(key), cpu as u32))
    }

    fn talk(&self, shift: u32) -> u64 {
        self.0[packet::FLOW_PACKET_TALK] >> shift
    }

    fn place(&self, shift: u32) -> u64 {
        self.0[packet::FLOW_PACKET_PLACE] >> shift
    }

    fn address(&self, at: usize) -> IpAddr {
        let address = address([self.0[at], self.0[at + 1]]);
        let mapped: Option<Ipv4Addr> = address.to_ipv4_mapped();
        match (self.version(), mapped) {
            (4, Some(address)) => address.into(),
            _ => address.into(),
        }
    }

    /// Version of IP.
    fn version(&self) -> u8 {
        self.talk(40) as u8 & packet::PACKET_VERSIONS as u8
    }

    /// How many bits of its source and of its destination it has, if it is of all flows between
    /// prefixes.
    pub(crate) fn prefix_bits(&self) -> Option<[u8; 2]> {
        let (prefix, whole) = match self.version() {
            4 => (24, 32),
            _ => (48, 128),
        };
        match self.talk(abi::FLOWS_FORM_BIT as u32) as usize & FORMS {
            abi::FLOWS_OF_ENDS => Some([prefix, whole]),
            abi::FLOWS_OF_DESTINATION => Some([0, whole]),
            abi::FLOWS_OF_SOURCE => Some([prefix, 0]),
            _ => None,
        }
    }

    pub(crate) fn source(&self) -> IpAddr {
        self.address(packet::FLOW_PACKET_SOURCE)
    }

    pub(crate) fn destination(&self) -> IpAddr {
        self.address(packet::FLOW_PACKET_DESTINATION)
    }

    pub(crate) fn protocol(&self) -> u8 {
        self.talk(32) as u8
    }

    /// Whether its ports are the type and code of a message.
    pub(crate) fn has_type(&self) -> bool {
        matches!(self.protocol(), 1 | 2 | 58)
    }

    fn has_ports(&self) -> bool {
        matches!(self.protocol(), 6 | 17 | 132 | 136)
    }

    /// Source and destination port, where the protocol has ports.
    pub(crate) fn ports(&self) -> Option<[u16; 2]> {
        let ports = [self.talk(0) as u16, self.talk(16) as u16];
        self.has_ports().then_some(ports)
    }

    /// Type and code, where the protocol has them.
    pub(crate) fn type_and_code(&self) -> Option<[u8; 2]> {
        let both = (self.talk(16) as u16).to_be_bytes();
        self.has_type().then_some(both)
    }

    /// None of packets from a file.
    pub(crate) fn direction(&self) -> Option<Direction> {
        match self.talk(abi::FLOWS_DIRECTION_BIT as u32) as usize & DIRECTIONS {
            abi::FLOWS_IN => Some(Direction::In),
            abi::FLOWS_OUT => Some(Direction::Out),
            _ => None,
        }
    }

    /// The same of packets that an interface receives or sends.
    #[cfg(test)]
    pub(crate) fn seen(mut self, direction: Direction) -> Key {
        let number = match direction {
            Direction::In => abi::FLOWS_IN,
            Direction::Out => abi::FLOWS_OUT,
        };
        self.0[packet::FLOW_PACKET_TALK] |= (number as u64) << abi::FLOWS_DIRECTION_BIT;
        self
    }

    /// The same as the programs make it of all flows between prefixes with so many bits.
    #[cfg(test)]
    pub(crate) fn aggregated(mut self, bits: [u8; 2]) -> Key {
        let form = match bits {
            [0, _] => abi::FLOWS_OF_DESTINATION,
            [_, 0] => abi::FLOWS_OF_SOURCE,
            _ => abi::FLOWS_OF_ENDS,
        };
        let talk = &mut self.0[packet::FLOW_PACKET_TALK];
        *talk = *talk >> 32 << 32 | (form as u64) << abi::FLOWS_FORM_BIT;
        for (at, bits) in [packet::FLOW_PACKET_SOURCE, packet::FLOW_PACKET_DESTINATION]
            .into_iter()
            .zip(bits)
        {
            let mut octets = address([self.0[at], self.0[at + 1]]).octets();
            if self.version() == 4 {
                octets[12 + usize::from(bits / 8)..].fill(0);
            } else {
                octets[usize::from(bits / 8)..].fill(0);
            }
            let (words, _) = octets.as_chunks::<8>();
            self.0[at] = u64::from_ne_bytes(words[0]);
            self.0[at + 1] = u64::from_ne_bytes(words[1]);
        }
        self
    }

    /// 0 of packets from a file.
    pub(crate) fn interface(&self) -> u32 {
        self.place(0) as u32
    }

    /// VLAN tags, the outer one first.
    pub(crate) fn vlans(&self) -> impl Iterator<Item = u16> + use<> {
        let tags = [self.place(32) as u16, self.place(48) as u16];
        let tags = tags.map(usize::from).into_iter();
        tags.filter(|tag| tag & packet::PACKET_VLAN != 0)
            .map(|tag| (tag & (packet::PACKET_VLAN - 1)) as u16)
    }
}

impl Counts {
    /// The counts in the bytes of the table.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Counts> {
        let words: [u64; abi::FLOW_END] = words(bytes)?;
        let mut ttls = [0; 4];
        ttls.copy_from_slice(&words[abi::FLOW_TTLS..abi::FLOW_TTLS + 4]);
        Some(Counts {
            packets: words[abi::FLOW_PACKETS],
            bytes: words[abi::FLOW_BYTES],
            first_ns: words[abi::FLOW_FIRST_NS],
            last_ns: words[abi::FLOW_LAST_NS],
            tcp_flags: words[abi::FLOW_TCP_FLAGS],
            dscps: words[abi::FLOW_DSCPS],
            ttls,
            cpu_ns: None,
        })
    }

    /// The sum of the squares of numbers of packets that came as one, in the bytes of the table.
    pub(crate) fn squares(bytes: &[u8]) -> Option<u64> {
        let words: [u64; abi::FLOW_END] = words(bytes)?;
        Some(words[abi::FLOW_SQUARES])
    }

    /// Of how many flows at least the counts of a prefix are, in the bytes of its table.
    pub(crate) fn classes(bytes: &[u8]) -> Option<u64> {
        let words: [u64; abi::FLOW_PREFIX_END] = words(bytes)?;
        let classes = &words[abi::FLOW_PREFIX_CLASSES..];
        Some(
            classes
                .iter()
                .map(|class| u64::from(class.count_ones()))
                .sum(),
        )
    }

    /// Adds later packets of the same flow.
    pub(crate) fn add(&mut self, more: &Counts) {
        self.packets += more.packets;
        self.bytes += more.bytes;
        self.first_ns = self.first_ns.min(more.first_ns);
        self.last_ns = self.last_ns.max(more.last_ns);
        self.tcp_flags |= more.tcp_flags;
        self.dscps |= more.dscps;
        for (ttl, more) in self.ttls.iter_mut().zip(more.ttls) {
            *ttl |= more;
        }
        let both = self.cpu_ns.zip(more.cpu_ns);
        self.cpu_ns = both.map(|(ns, more)| ns + more);
    }

    /// The least and the greatest time to live.
    pub(crate) fn ttl_range(&self) -> Option<[u8; 2]> {
        let seen = |ttl: &u8| self.ttls[usize::from(ttl >> 6)] >> (ttl & 63) & 1 == 1;
        Some([(0..=u8::MAX).find(seen)?, (0..=u8::MAX).rev().find(seen)?])
    }

    /// The DSCPs that were seen.
    pub(crate) fn dscps(&self) -> impl Iterator<Item = u8> + use<> {
        let seen = self.dscps;
        (0..64).filter(move |dscp| seen >> dscp & 1 == 1)
    }
}

impl Packet {
    fn word(&self, at: usize) -> u64 {
        self.0[at]
    }

    pub(crate) fn key(&self) -> Key {
        let mut key = [0; KEY_WORDS];
        key.copy_from_slice(&self.0[..KEY_WORDS]);
        Key(key)
    }

    /// What this packet alone is of its flow.
    pub(crate) fn counts(&self, at_ns: u64) -> Counts {
        let ttl = self.word(packet::FLOW_PACKET_TTL) as u8;
        let mut ttls = [0; 4];
        ttls[usize::from(ttl >> 6)] = 1 << (ttl & 63);
        Counts {
            packets: 1,
            bytes: self.word(packet::FLOW_PACKET_IP_BYTES),
            first_ns: at_ns,
            last_ns: at_ns,
            tcp_flags: self.word(packet::FLOW_PACKET_TCP_FLAGS),
            dscps: 1 << (self.word(packet::FLOW_PACKET_TOS) >> 2 & 63),
            ttls,
            cpu_ns: None,
        }
    }

    /// Which fragment it is, if it is one, and what it shares with the others of its packet.
    pub(crate) fn fragment(&self) -> Option<(Fragment, FragmentId)> {
        let key = self.key();
        let id = FragmentId {
            ends: [key.source(), key.destination()],
            id: self.word(packet::FLOW_PACKET_FRAGMENT_ID),
            place: key.0[packet::FLOW_PACKET_PLACE],
        };
        match self.word(packet::FLOW_PACKET_FRAGMENT) as usize {
            packet::PACKET_FIRST_FRAGMENT => Some((Fragment::First, id)),
            packet::PACKET_LATER_FRAGMENT => Some((Fragment::Later, id)),
            _ => None,
        }
    }

    /// Ports and protocol, which later fragments have from the first.
    pub(crate) fn talk(&self) -> u64 {
        self.word(packet::FLOW_PACKET_TALK)
    }

    /// Sets them.
    pub(crate) fn set_talk(&mut self, talk: u64) {
        self.0[packet::FLOW_PACKET_TALK] = talk;
    }
}

/// Which fragment of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fragment {
    /// It has the ports.
    First,
    /// It has none.
    Later,
}

/// What the fragments of a packet share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FragmentId {
    ends: [IpAddr; 2],
    id: u64,
    place: u64,
}

/// Bytes as words of this host; none if they are too few.
fn words<const WORDS: usize>(bytes: &[u8]) -> Option<[u64; WORDS]> {
    let (chunks, _) = bytes.as_chunks::<8>();
    let chunks = chunks.first_chunk::<WORDS>()?;
    Some(chunks.map(u64::from_ne_bytes))
}
