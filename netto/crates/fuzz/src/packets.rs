//! The parser of packets, held against what etherparse reads of each header of the same bytes.
//!
//! The order of headers and what is too short for a flow are said here a second time; their bytes are
//! read by etherparse, but for those headers that it does not know.

use std::net::{IpAddr, Ipv6Addr};

use etherparse::{
    Ethernet2HeaderSlice, IpAuthHeaderSlice, Ipv4HeaderSlice, Ipv6FragmentHeaderSlice,
    Ipv6HeaderSlice, Ipv6RawExtHeaderSlice, SingleVlanHeaderSlice, SlicedPacket, TcpHeaderSlice,
    TransportSlice, UdpHeaderSlice,
};
use netto_analysis::tagged::FlowEnds;
use netto_sys::packet::{self, Headers, Load, Parsed};

/// The longest packet whose length fits its header's field.
const LONGEST: usize = 0xffff;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const BRIDGED: u16 = 0x6558;
const MOST_EXTENSIONS: usize = 8;
const EXTENSIONS: [u8; 8] = [0, 43, 44, 51, 60, 135, 139, 140];

/// What is read of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    addresses: [IpAddr; 2],
    protocol: u8,
    /// Ports, or type and code in the second.
    numbers: [u16; 2],
    vlans: Vec<u16>,
    /// As the parser has it.
    fragment: usize,
    ip_bytes: u64,
    tcp_flags: u8,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Packet(Seen),
    Other,
    Malformed,
}

/// Why etherparse says nothing of a packet.
#[derive(Debug)]
struct Refused;

/// What is behind link headers.
struct Frame<'a> {
    vlans: Vec<u16>,
    ethertype: u16,
    rest: &'a [u8],
}

/// Panics if a frame is not what etherparse reads, or is another one where bytes are copied.
///
/// # Panics
/// For tests.
pub fn check(frame: &[u8]) {
    if frame.len() > LONGEST {
        return;
    }
    let length = frame.len() as u32;
    let [outer, inner] = [Headers::Outer, Headers::Inner].map(|headers| {
        let [in_place, copied] =
            [Load::InPlace, Load::Copied].map(|load| packet::parse(frame, length, headers, load));
        assert_eq!(in_place, copied, "{headers:?} headers of {frame:02x?}");
        outcome(in_place)
    });
    if let Ok((expected, transport)) = whole(frame) {
        assert_eq!(outer, expected, "{frame:02x?}");
        if let Ok(expected) = within(expected, transport) {
            assert_eq!(inner, expected, "in the tunnel of {frame:02x?}");
        }
    }
    agrees_with_all_of_etherparse(frame, &outer);
    ends_are_those(frame, &outer);
}

/// The parser's words.
fn outcome(parsed: Parsed) -> Outcome {
    let words = match parsed {
        Parsed::Packet(words) => words,
        Parsed::Other => return Outcome::Other,
        Parsed::Malformed => return Outcome::Malformed,
    };
    let address = |at: usize| address([words[at], words[at + 1]]);
    let (talk, place) = (
        words[packet::FLOW_PACKET_TALK],
        words[packet::FLOW_PACKET_PLACE],
    );
    let tags = [place >> 32, place >> 48].map(|tag| tag as u16);
    let is_there = |tag: &u16| usize::from(*tag) & packet::PACKET_VLAN != 0;
    Outcome::Packet(Seen {
        addresses: [packet::FLOW_PACKET_SOURCE, packet::FLOW_PACKET_DESTINATION].map(address),
        protocol: (talk >> 32) as u8,
        numbers: [talk as u16, (talk >> 16) as u16],
        vlans: tags
            .into_iter()
            .filter(is_there)
            .map(|tag| tag & 0xfff)
            .collect(),
        fragment: words[packet::FLOW_PACKET_FRAGMENT] as usize,
        ip_bytes: words[packet::FLOW_PACKET_IP_BYTES],
        tcp_flags: words[packet::FLOW_PACKET_TCP_FLAGS] as u8,
    })
}

fn address(words: [u64; 2]) -> IpAddr {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&words[0].to_ne_bytes());
    bytes[8..].copy_from_slice(&words[1].to_ne_bytes());
    Ipv6Addr::from(bytes).to_canonical()
}

/// What a frame is, and what is behind the headers of IP.
fn whole(frame: &[u8]) -> Result<(Outcome, &[u8]), Refused> {
    match link(frame) {
        Some(frame) => ip(frame),
        None => Ok((Outcome::Malformed, &[])),
    }
}

fn link(bytes: &[u8]) -> Option<Frame<'_>> {
    let header = Ethernet2HeaderSlice::from_slice(bytes).ok()?;
    let mut frame = Frame {
        vlans: Vec::new(),
        ethertype: header.ether_type().0,
        rest: &bytes[header.slice().len()..],
    };
    while matches!(frame.ethertype, 0x8100 | 0x88a8 | 0x9100) && frame.vlans.len() < 2 {
        let tag = SingleVlanHeaderSlice::from_slice(frame.rest).ok()?;
        frame.vlans.push(tag.vlan_identifier().value());
        frame.ethertype = tag.ether_type().0;
        frame.rest = &frame.rest[tag.slice().len()..];
    }
    Some(frame)
}

fn ip(frame: Frame<'_>) -> Result<(Outcome, &[u8]), Refused> {
    let found = match frame.ethertype {
        IPV4 => ipv4(frame.rest),
        IPV6 => ipv6(frame.rest)?,
        _ => return Ok((Outcome::Other, &[])),
    };
    let seen = found.and_then(|(mut seen, rest)| {
        seen.vlans = frame.vlans;
        transport(&mut seen, rest)?;
        Some((Outcome::Packet(seen), rest))
    });
    Ok(seen.unwrap_or((Outcome::Malformed, &[])))
}

fn ipv4(bytes: &[u8]) -> Option<(Seen, &[u8])> {
    let header = Ipv4HeaderSlice::from_slice(bytes).ok()?;
    let total = usize::from(header.total_len());
    let rest = bytes.get(header.slice().len()..total)?;
    let is_later = header.fragments_offset().value() != 0;
    let seen = Seen {
        addresses: [
            header.source_addr().into(),
            header.destination_addr().into(),
        ],
        protocol: header.protocol().0,
        numbers: [0; 2],
        vlans: Vec::new(),
        fragment: fragment(is_later, header.more_fragments(), 0),
        ip_bytes: total as u64,
        tcp_flags: 0,
    };
    Some((seen, rest))
}

fn fragment(is_later: bool, more: bool, before: usize) -> usize {
    match (is_later, more) {
        (true, _) => packet::PACKET_LATER_FRAGMENT,
        (false, true) => packet::PACKET_FIRST_FRAGMENT,
        (false, false) => before,
    }
}

fn ipv6(bytes: &[u8]) -> Result<Option<(Seen, &[u8])>, Refused> {
    let Ok(header) = Ipv6HeaderSlice::from_slice(bytes) else {
        return Ok(None);
    };
    let (mut next, behind) = (header.next_header().0, &bytes[header.slice().len()..]);
    let length = match usize::from(header.payload_length()) {
        // A jumbogram says its length in these options, which nobody reads here.
        0 if next == 0 => behind.len(),
        length => length,
    };
    let Some(mut rest) = behind.get(..length) else {
        return Ok(None);
    };
    let mut kind = 0;
    let mut extensions = 0;
    while EXTENSIONS.contains(&next) && kind != packet::PACKET_LATER_FRAGMENT {
        if extensions == MOST_EXTENSIONS || rest.len() < 8 {
            return Ok(None);
        }
        extensions += 1;
        let read = match next {
            44 => Ipv6FragmentHeaderSlice::from_slice(rest)
                .ok()
                .map(|header| {
                    let is_later = header.fragment_offset().value() != 0;
                    kind = fragment(is_later, header.more_fragments(), kind);
                    (header.next_header().0, header.slice().len())
                }),
            // Shorter than its smallest form.
            51 if rest[1] == 0 => return Err(Refused),
            51 => IpAuthHeaderSlice::from_slice(rest)
                .ok()
                .map(|header| (header.next_header().0, header.slice().len())),
            _ => Ipv6RawExtHeaderSlice::from_slice(rest)
                .ok()
                .map(|header| (header.next_header().0, header.slice().len())),
        };
        let Some((following, length)) = read else {
            return Ok(None);
        };
        (next, rest) = (following, &rest[length..]);
    }
    let seen = Seen {
        addresses: [
            header.source_addr().into(),
            header.destination_addr().into(),
        ],
        protocol: next,
        numbers: [0; 2],
        vlans: Vec::new(),
        fragment: kind,
        ip_bytes: (header.slice().len() + length) as u64,
        tcp_flags: 0,
    };
    Ok(Some((seen, rest)))
}

/// Reads the transport's header; none if it is wrong or cut off.
fn transport(seen: &mut Seen, bytes: &[u8]) -> Option<()> {
    if seen.fragment == packet::PACKET_LATER_FRAGMENT {
        return Some(());
    }
    match seen.protocol {
        6 => {
            let header = TcpHeaderSlice::from_slice(bytes).ok()?;
            seen.numbers = [header.source_port(), header.destination_port()];
            seen.tcp_flags = header.slice()[13];
        }
        17 | 136 => {
            let header = UdpHeaderSlice::from_slice(bytes).ok()?;
            seen.numbers = [header.source_port(), header.destination_port()];
        }
        132 => {
            let header = bytes.first_chunk::<12>()?;
            seen.numbers = [u16_at(header, 0)?, u16_at(header, 2)?];
        }
        1 | 2 | 58 => {
            let header = bytes.first_chunk::<8>()?;
            seen.numbers = [0, u16_at(header, 0)?];
        }
        47 => drop(bytes.first_chunk::<4>()?),
        _ => {}
    }
    Some(())
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let number = bytes.get(at..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*number))
}

/// What is within a tunnel, if this is one.
fn within(outer: Outcome, bytes: &[u8]) -> Result<Outcome, Refused> {
    let Outcome::Packet(seen) = &outer else {
        return Ok(outer);
    };
    let tunnel = match (seen.protocol, seen.numbers[1]) {
        _ if seen.fragment != 0 => None,
        (47, _) => gre(bytes),
        (17, 4789) if bytes.len() >= 16 && bytes[8] & 8 != 0 => Some((BRIDGED, 16)),
        _ => None,
    };
    let Some((ethertype, length)) = tunnel else {
        return Ok(outer);
    };
    let Some(rest) = bytes.get(length..) else {
        return Ok(Outcome::Malformed);
    };
    let frame = match ethertype {
        BRIDGED => link(rest),
        _ => Some(Frame {
            vlans: Vec::new(),
            ethertype,
            rest,
        }),
    };
    match frame {
        None => Ok(Outcome::Malformed),
        Some(frame) if matches!(frame.ethertype, IPV4 | IPV6) => ip(frame).map(|packet| packet.0),
        Some(_) => Ok(outer),
    }
}

/// Type and length of a header of GRE, version 0.
fn gre(bytes: &[u8]) -> Option<(u16, usize)> {
    let (flags, ethertype) = (u16_at(bytes, 0)?, u16_at(bytes, 2)?);
    let is_known = flags & 0x4007 == 0 && matches!(ethertype, IPV4 | IPV6 | BRIDGED);
    let optional = (flags & 0xb000).count_ones() as usize;
    is_known.then_some((ethertype, 4 + 4 * optional))
}

/// Where etherparse reads all of a frame, ports are the same.
fn agrees_with_all_of_etherparse(frame: &[u8], outcome: &Outcome) {
    let (Ok(sliced), Outcome::Packet(seen)) = (SlicedPacket::from_ethernet(frame), outcome) else {
        return;
    };
    let (protocol, ports) = match &sliced.transport {
        Some(TransportSlice::Tcp(tcp)) => (6, [tcp.source_port(), tcp.destination_port()]),
        Some(TransportSlice::Udp(udp)) => (17, [udp.source_port(), udp.destination_port()]),
        _ => return,
    };
    // IPv4 with an authentication header is a packet of that protocol.
    if seen.protocol != 51 {
        assert_eq!(
            (seen.protocol, seen.numbers),
            (protocol, ports),
            "{frame:02x?}"
        );
    }
}

/// The ends are those of the packet, and unknown where it has no ports or does not say its protocol.
fn ends_are_those(frame: &[u8], outcome: &Outcome) {
    let Some(Frame {
        ethertype, rest, ..
    }) = link(frame)
    else {
        return;
    };
    let [ends, copied] = [Load::InPlace, Load::Copied]
        .map(|load| packet::ends(rest, rest.len() as u32, ethertype, load));
    assert_eq!(ends, copied, "ends of {frame:02x?}");
    let expected = match outcome {
        Outcome::Packet(seen) => expected_ends(seen),
        _ => None,
    };
    assert_eq!(FlowEnds::from_words(ends), expected, "ends of {frame:02x?}");
}

fn expected_ends(seen: &Seen) -> Option<FlowEnds> {
    let has_ports = matches!(seen.protocol, 6 | 17 | 132 | 136);
    let is_later = seen.fragment == packet::PACKET_LATER_FRAGMENT;
    if is_later && (has_ports || EXTENSIONS.contains(&seen.protocol)) || seen.protocol == 0 {
        return None;
    }
    let end = |at: usize| metrics_common::sections::FlowEnd {
        address: seen.addresses[at],
        port: has_ports.then_some(seen.numbers[at]),
    };
    Some(FlowEnds::new(seen.protocol, [end(0), end(1)]))
}
