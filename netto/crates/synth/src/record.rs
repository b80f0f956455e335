//! A record of a flow: what a collector knew of packets that are gone. Owns the type and its
//! vocabulary of protocols, and not how records are read.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Numbers of protocols, as in the IP header.
pub mod protocol {
    /// ICMP.
    pub const ICMP: u8 = 1;
    /// IGMP.
    pub const IGMP: u8 = 2;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// GRE.
    pub const GRE: u8 = 47;
    /// ESP.
    pub const ESP: u8 = 50;
    /// AH.
    pub const AH: u8 = 51;
    /// ICMPv6.
    pub const ICMPV6: u8 = 58;
    /// OSPF.
    pub const OSPF: u8 = 89;
    /// SCTP.
    pub const SCTP: u8 = 132;
}

/// Source and destination, of one family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Addresses {
    /// IPv4.
    V4 {
        /// Who sends.
        source: Ipv4Addr,
        /// Who is to receive.
        destination: Ipv4Addr,
    },
    /// IPv6.
    V6 {
        /// Who sends.
        source: Ipv6Addr,
        /// Who is to receive.
        destination: Ipv6Addr,
    },
}

/// One flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowRecord {
    /// Time of the first packet, nanoseconds since 1970.
    pub start_ns: u64,
    /// Time of the last packet, nanoseconds since 1970.
    pub end_ns: u64,
    /// Source and destination.
    pub addresses: Addresses,
    /// Source port, 0 where the protocol has none.
    pub source_port: u16,
    /// Destination port; for ICMP, ICMPv6 and IGMP, type × 256 + code.
    pub destination_port: u16,
    /// Protocol above IP.
    pub protocol: u8,
    /// ToS, or the traffic class of IPv6.
    pub tos: u8,
    /// All TCP flags seen.
    pub tcp_flags: u8,
    /// Number of packets.
    pub packets: u64,
    /// Bytes of all packets, IP header included, Ethernet excluded.
    pub bytes: u64,
    /// Whether packets and bytes are known by samples only.
    pub is_estimate: bool,
    /// VLAN, if any.
    pub vlan: Option<u16>,
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Addresses::V4 {
                source,
                destination,
            } => write!(f, "{source} to {destination}"),
            Addresses::V6 {
                source,
                destination,
            } => write!(f, "{source} to {destination}"),
        }
    }
}
