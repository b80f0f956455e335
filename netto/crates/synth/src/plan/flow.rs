//! One flow under way: a record that can be made, and how far it is.

use super::sizes::{Impossible, Sizes};
use super::times::{Jitter, Times};
use crate::packet::{Packet, Unmakeable, flag, header_bytes};
use crate::random::mix_all;
use crate::record::{Addresses, FlowRecord, protocol};

/// Flags that belong to the first or the last packet.
const ENDS: u8 = flag::SYN | flag::FIN | flag::RST;

/// Why no packets can be made of a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Its protocol.
    #[error(transparent)]
    Unmakeable(#[from] Unmakeable),
    /// Its numbers.
    #[error(transparent)]
    Impossible(#[from] Impossible),
}

/// A flow and its next packet.
#[derive(Debug, Clone, Copy)]
pub struct Flow {
    record: FlowRecord,
    sizes: Sizes,
    header_bytes: u16,
    /// Number of the next packet.
    next: u64,
    sequence: u32,
    acknowledgement: u32,
    identity: u16,
}

impl Flow {
    /// Plans the packets of a record.
    ///
    /// # Errors
    /// It cannot be made of its packets and bytes.
    pub fn new(record: FlowRecord, mtu: u16, seed: u64) -> Result<Self, Refusal> {
        let header_bytes = header_bytes(&record)?;
        let flags = record.tcp_flags;
        // Without other flags, all packets are a first, or a last, that is repeated.
        let has_ends = record.protocol == protocol::TCP && flags & !ENDS != 0;
        let bare = (
            has_ends && flags & flag::SYN != 0,
            has_ends && flags & (flag::FIN | flag::RST) != 0,
        );
        let (bytes, bounds) = (record.bytes, (header_bytes, mtu));
        let packets = if record.is_estimate {
            // What was estimated by samples may be a little more than packets hold.
            possible(record.packets, bytes, bounds)
        } else {
            record.packets
        };
        let sizes = match record.protocol {
            // These are made of words.
            protocol::SCTP | protocol::IGMP => Sizes::in_words(packets, bytes, bounds),
            _ => Sizes::new(packets, bytes, bounds, bare),
        }?;
        let (forth, back) = initial_numbers(&record, seed);
        let has_syn = flags & flag::SYN != 0;
        Ok(Flow {
            record,
            sizes,
            header_bytes,
            next: 0,
            sequence: if has_syn {
                forth
            } else {
                forth.wrapping_add(1)
            },
            acknowledgement: back.wrapping_add(1),
            identity: forth as u16,
        })
    }

    /// Time of the first packet.
    pub fn start_ns(&self) -> u64 {
        self.record.start_ns
    }

    /// Time of the last packet.
    pub fn end_ns(&self) -> u64 {
        self.record.end_ns
    }

    /// Moves the flow to a later start.
    pub fn begin_at(&mut self, start_ns: u64) {
        let duration_ns = self.record.end_ns - self.record.start_ns;
        self.record.start_ns = start_ns;
        self.record.end_ns = start_ns.saturating_add(duration_ns);
    }

    /// Time of the next packet; none when all are made. The number tells flows apart.
    pub fn next_ns(&self, number: u64, jitter: Jitter) -> Option<u64> {
        let times = Times {
            start_ns: self.record.start_ns,
            duration_ns: self.record.end_ns - self.record.start_ns,
            packets: self.sizes.packets(),
        };
        (self.next < times.packets).then(|| times.of(self.next, number, jitter))
    }

    /// The next packet, which must be there.
    pub fn take(&mut self) -> Packet {
        let record = &self.record;
        let index = self.next;
        self.next += 1;
        let bytes = self.sizes.of(index);
        let tcp_flags = match record.protocol {
            protocol::TCP => self.flags_of(index),
            _ => 0,
        };
        let packet = Packet {
            addresses: record.addresses,
            source_port: record.source_port,
            destination_port: record.destination_port,
            protocol: record.protocol,
            tos: record.tos,
            vlan: record.vlan,
            bytes,
            index: index as u32,
            identity: self.identity,
            sequence: self.sequence,
            acknowledgement: self.acknowledgement,
            tcp_flags,
        };
        let data = u32::from(bytes - self.header_bytes);
        let counted = u32::from(tcp_flags & (flag::SYN | flag::FIN) != 0);
        // A repeated SYN or FIN has the number of the first.
        if record.tcp_flags & !ENDS != 0 {
            self.sequence = self.sequence.wrapping_add(data + counted);
        }
        packet
    }

    /// The flags of a packet, which together are the record's.
    fn flags_of(&self, index: u64) -> u8 {
        let all = self.record.tcp_flags;
        let (is_first, is_last) = (index == 0, index + 1 == self.sizes.packets());
        if is_first && is_last {
            return all;
        }
        let middle = match all & !ENDS {
            0 if all & flag::SYN != 0 => flag::SYN,
            0 => all,
            middle => middle,
        };
        if is_first && all & flag::SYN != 0 {
            // Who has the lower port answers; who opens has nothing to acknowledge.
            let answers = self.record.source_port < self.record.destination_port;
            let more = if answers { all & flag::ACK } else { 0 };
            return flag::SYN | more;
        }
        if is_last {
            middle | all & (flag::FIN | flag::RST)
        } else {
            middle
        }
    }
}

/// The number next to `packets` of which packets have these bytes in these bounds.
fn possible(packets: u64, bytes: u64, (least, most): (u16, u16)) -> u64 {
    let most_packets = bytes / u64::from(least);
    packets.min(most_packets).max(bytes.div_ceil(most.into()))
}

/// The first sequence number of a connection in this and in the other direction, which are the
/// same for the record of the other direction.
fn initial_numbers(record: &FlowRecord, seed: u64) -> (u32, u32) {
    let (source, destination) = match record.addresses {
        Addresses::V4 {
            source,
            destination,
        } => (
            u128::from(u32::from(source)),
            u128::from(u32::from(destination)),
        ),
        Addresses::V6 {
            source,
            destination,
        } => (u128::from(source), u128::from(destination)),
    };
    let addresses = |address: u128, port: u16, peer: u128, peer_port: u16| {
        let ports = u64::from(port) << 16 | u64::from(peer_port);
        let halves = |address: u128| [address as u64, (address >> 64) as u64];
        let ([a, b], [c, d]) = (halves(address), halves(peer));
        mix_all(&[seed, u64::from(record.protocol) << 32 | ports, a, b, c, d]) as u32
    };
    let (port, peer_port) = (record.source_port, record.destination_port);
    (
        addresses(source, port, destination, peer_port),
        addresses(destination, peer_port, source, port),
    )
}
