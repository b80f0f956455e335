//! Frames, byte by byte. Every packet has a zero payload, so that a checksum is that of its
//! headers, however long the packet is.

mod checksum;
mod icmp;

use checksum::{Sum, crc32c};

use crate::record::{Addresses, FlowRecord, protocol};

/// Bytes of a frame that can be other than zero.
pub const HEADROOM: usize = 128;
/// Bytes of the longest header that precedes IP.
pub const LINK_BYTES: usize = ETHERNET_BYTES + VLAN_BYTES;

const ETHERNET_BYTES: usize = 14;
const VLAN_BYTES: usize = 4;
const V4_BYTES: usize = 20;
const V6_BYTES: usize = 40;
const TCP_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const GRE_BYTES: usize = 4;
const SCTP_BYTES: usize = 12;
const SCTP_CHUNK_BYTES: usize = 4;
const SCTP_DATA_BYTES: usize = 16;
const TTL: u8 = 64;
const DONT_FRAGMENT: u16 = 0x4000;
/// IEEE's number for local experiments.
const EXPERIMENT: u16 = 0x88b5;

/// TCP flags.
pub mod flag {
    /// The last.
    pub const FIN: u8 = 1;
    /// The first.
    pub const SYN: u8 = 2;
    /// Broken off.
    pub const RST: u8 = 4;
    /// The acknowledgement is valid.
    pub const ACK: u8 = 16;
}

/// What precedes IP.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    /// The sender's hardware address.
    pub source: [u8; 6],
    /// The receiver's hardware address.
    pub destination: [u8; 6],
    /// VLAN of packets whose record has none.
    pub vlan: Option<u16>,
}

/// One packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Source and destination.
    pub addresses: Addresses,
    /// Source port.
    pub source_port: u16,
    /// Destination port, or type and code.
    pub destination_port: u16,
    /// Protocol above IP.
    pub protocol: u8,
    /// ToS or traffic class.
    pub tos: u8,
    /// VLAN of the record.
    pub vlan: Option<u16>,
    /// Bytes, IP header included.
    pub bytes: u16,
    /// Number of the packet in its flow, as far as protocols count.
    pub index: u32,
    /// A number that tells the flow from others.
    pub identity: u16,
    /// TCP's sequence number.
    pub sequence: u32,
    /// TCP's acknowledgement, meant if its flag is set.
    pub acknowledgement: u32,
    /// TCP's flags.
    pub tcp_flags: u8,
}

/// Why no packet can be made for a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unmakeable {
    /// Numbers that are headers of IPv6 itself.
    #[error("protocol {0} is an extension header of IPv6, which has no payload of its own")]
    ExtensionHeader(u8),
    /// Protocols that belong to the other version of IP.
    #[error("protocol {0} is none of the record's version of IP")]
    OtherVersion(u8),
}

/// Bytes of the headers of a record's packets: no packet is shorter.
///
/// # Errors
/// The protocol is none above IP.
pub fn header_bytes(record: &FlowRecord) -> Result<u16, Unmakeable> {
    let is_v6 = matches!(record.addresses, Addresses::V6 { .. });
    if is_v6 && matches!(record.protocol, 0 | 43 | 44 | 60) {
        return Err(Unmakeable::ExtensionHeader(record.protocol));
    }
    let of_v4 = matches!(record.protocol, protocol::ICMP | protocol::IGMP);
    if of_v4 && is_v6 || record.protocol == protocol::ICMPV6 && !is_v6 {
        return Err(Unmakeable::OtherVersion(record.protocol));
    }
    let ip = if is_v6 { V6_BYTES } else { V4_BYTES };
    let above = match record.protocol {
        protocol::TCP => TCP_BYTES,
        protocol::UDP => UDP_BYTES,
        protocol::ICMP | protocol::IGMP | protocol::ICMPV6 => icmp::BYTES,
        protocol::GRE => GRE_BYTES,
        protocol::SCTP => SCTP_BYTES,
        _ => 0,
    };
    Ok((ip + above) as u16)
}

fn put<const N: usize>(frame: &mut [u8], at: usize, bytes: [u8; N]) {
    frame[at..at + N].copy_from_slice(&bytes);
}

impl Packet {
    /// Writes the frame into the begin of the buffer, and gives its length.
    ///
    /// Of the buffer only the first [`HEADROOM`] bytes may be other than zero: the payload behind
    /// them is not written.
    ///
    /// # Panics
    /// The buffer is shorter than the packet and [`LINK_BYTES`].
    pub fn write(&self, link: &Link, frame: &mut [u8]) -> usize {
        let vlan = self.vlan.or(link.vlan);
        let link_bytes = ETHERNET_BYTES + if vlan.is_some() { VLAN_BYTES } else { 0 };
        let length = link_bytes + usize::from(self.bytes);
        let frame = &mut frame[..length];
        let begin = length.min(HEADROOM);
        frame[..begin].fill(0);
        put(frame, 0, link.destination);
        put(frame, 6, link.source);
        let ether_type: u16 = match self.addresses {
            Addresses::V4 { .. } => 0x0800,
            Addresses::V6 { .. } => 0x86dd,
        };
        if let Some(vlan) = vlan {
            put(frame, 12, 0x8100_u16.to_be_bytes());
            put(frame, 14, vlan.to_be_bytes());
        }
        put(frame, link_bytes - 2, ether_type.to_be_bytes());
        // Zeros behind the headroom add nothing to a sum, only their number does.
        let ip = &mut frame[link_bytes..];
        let filled = begin - link_bytes;
        match self.addresses {
            Addresses::V4 { .. } => self.write_v4(ip),
            Addresses::V6 { .. } => self.write_v6(ip),
        }
        self.write_above(ip, filled);
        length
    }

    fn write_v4(&self, ip: &mut [u8]) {
        let Addresses::V4 {
            source,
            destination,
        } = self.addresses
        else {
            return;
        };
        ip[0] = 0x45;
        ip[1] = self.tos;
        put(ip, 2, self.bytes.to_be_bytes());
        put(ip, 6, DONT_FRAGMENT.to_be_bytes());
        // What concerns groups stays in its network.
        ip[8] = if self.protocol == protocol::IGMP {
            1
        } else {
            TTL
        };
        ip[9] = self.protocol;
        put(ip, 12, source.octets());
        put(ip, 16, destination.octets());
        let sum = Sum::default().bytes(&ip[..V4_BYTES]).finish();
        put(ip, 10, sum);
    }

    fn write_v6(&self, ip: &mut [u8]) {
        let Addresses::V6 {
            source,
            destination,
        } = self.addresses
        else {
            return;
        };
        put(
            ip,
            0,
            (0x6000_0000 | u32::from(self.tos) << 20).to_be_bytes(),
        );
        put(ip, 4, (self.bytes - V6_BYTES as u16).to_be_bytes());
        ip[6] = self.protocol;
        // Neighbours take nothing that a router has passed on.
        ip[7] = if self.protocol == protocol::ICMPV6 {
            255
        } else {
            TTL
        };
        put(ip, 8, source.octets());
        put(ip, 24, destination.octets());
    }

    /// The header above IP, of which only so many bytes of the packet may be other than zero.
    fn write_above(&self, ip: &mut [u8], filled: usize) {
        let is_v6 = matches!(self.addresses, Addresses::V6 { .. });
        let at = if is_v6 { V6_BYTES } else { V4_BYTES };
        let above = &mut ip[at..];
        let filled = filled - at;
        match self.protocol {
            protocol::TCP => {
                put(above, 0, self.source_port.to_be_bytes());
                put(above, 2, self.destination_port.to_be_bytes());
                put(above, 4, self.sequence.to_be_bytes());
                if self.tcp_flags & flag::ACK != 0 {
                    put(above, 8, self.acknowledgement.to_be_bytes());
                }
                above[12] = (TCP_BYTES as u8 / 4) << 4;
                above[13] = self.tcp_flags;
                put(above, 14, u16::MAX.to_be_bytes());
                let sum = self.pseudo(above.len()).bytes(&above[..filled]).finish();
                put(above, 16, sum);
            }
            protocol::UDP => {
                let length = above.len() as u16;
                put(above, 0, self.source_port.to_be_bytes());
                put(above, 2, self.destination_port.to_be_bytes());
                put(above, 4, length.to_be_bytes());
                // Zero would mean that there is no checksum.
                let sum = match self.pseudo(above.len()).bytes(&above[..filled]).finish() {
                    [0, 0] => [0xff, 0xff],
                    sum => sum,
                };
                put(above, 6, sum);
            }
            protocol::ICMP => {
                icmp::write_v4(self, above);
                let sum = Sum::default().bytes(&above[..filled]).finish();
                put(above, 2, sum);
            }
            protocol::ICMPV6 => {
                icmp::write_v6(self, above);
                let sum = self.pseudo(above.len()).bytes(&above[..filled]).finish();
                put(above, 2, sum);
            }
            protocol::IGMP => {
                put(above, 0, self.destination_port.to_be_bytes());
                if let Addresses::V4 { destination, .. } = self.addresses
                    && destination.is_multicast()
                {
                    put(above, 4, destination.octets());
                }
                let sum = Sum::default().bytes(&above[..filled]).finish();
                put(above, 2, sum);
            }
            protocol::GRE => put(above, 2, EXPERIMENT.to_be_bytes()),
            protocol::SCTP => self.write_sctp(above),
            _ => {}
        }
    }

    /// One chunk: data if there is room for a byte of it, else padding.
    fn write_sctp(&self, above: &mut [u8]) {
        put(above, 0, self.source_port.to_be_bytes());
        put(above, 2, self.destination_port.to_be_bytes());
        put(above, 4, u32::from(self.identity).to_be_bytes());
        let room = above.len() - SCTP_BYTES;
        let chunk = &mut above[SCTP_BYTES..];
        if room > SCTP_DATA_BYTES {
            // Type 0, the first and last piece of its message.
            put(chunk, 0, [0, 3]);
            put(chunk, 4, self.index.to_be_bytes());
            put(chunk, 10, (self.index as u16).to_be_bytes());
        } else if room >= SCTP_CHUNK_BYTES {
            put(chunk, 0, [0x84, 0]);
        }
        if room >= SCTP_CHUNK_BYTES {
            put(chunk, 2, (room as u16).to_be_bytes());
        }
        let crc = crc32c(above);
        put(above, 8, crc);
    }

    /// The sum of the pseudo header.
    fn pseudo(&self, length: usize) -> Sum {
        let sum = Sum::default()
            .number(length as u32)
            .number(self.protocol.into());
        match self.addresses {
            Addresses::V4 {
                source,
                destination,
            } => sum.bytes(&source.octets()).bytes(&destination.octets()),
            Addresses::V6 {
                source,
                destination,
            } => sum.bytes(&source.octets()).bytes(&destination.octets()),
        }
    }
}

#[cfg(test)]
mod tests;
