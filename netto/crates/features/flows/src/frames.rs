//! Frames for tests, with lengths that are right and checksums that nobody reads.

use std::net::{Ipv4Addr, Ipv6Addr};

pub(crate) const V4: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];
pub(crate) const V6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
];
pub(crate) const TOS: u8 = 0xb8;
pub(crate) const TTL: u8 = 61;

/// An Ethernet frame with these VLAN tags (type and number), the outer one first.
pub(crate) fn ethernet(tags: &[(u16, u16)], ethertype: u16, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for (tag, number) in tags {
        frame.extend(tag.to_be_bytes());
        frame.extend(number.to_be_bytes());
    }
    frame.extend(ethertype.to_be_bytes());
    frame.extend(packet);
    frame
}

/// An IPv4 packet with so many words of options; `fragment` is the field of flags and offset.
pub(crate) fn ipv4(option_words: u8, fragment: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let header = 20 + 4 * usize::from(option_words);
    let total = (header + payload.len()) as u16;
    let mut packet = vec![0x45 + option_words, TOS];
    packet.extend(total.to_be_bytes());
    packet.extend(7_u16.to_be_bytes());
    packet.extend(fragment.to_be_bytes());
    packet.extend([TTL, protocol, 0, 0]);
    packet.extend(V4.iter().flat_map(Ipv4Addr::octets));
    packet.resize(header, 1);
    packet.extend(payload);
    packet
}

/// An IPv6 packet; `next` is the header behind the fixed one.
pub(crate) fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60 | TOS >> 4, TOS << 4, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, TTL]);
    packet.extend(V6.iter().flat_map(Ipv6Addr::octets));
    packet.extend(payload);
    packet
}

/// An extension header of so many bytes, a multiple of eight, before what follows.
pub(crate) fn extension(next: u8, bytes: usize, rest: &[u8]) -> Vec<u8> {
    let mut header = vec![next, (bytes / 8 - 1) as u8];
    header.resize(bytes, 0);
    header.extend(rest);
    header
}

/// The fragment header of IPv6; `fragment` is the field of offset and flag.
pub(crate) fn fragment(next: u8, fragment: u16, rest: &[u8]) -> Vec<u8> {
    let mut header = vec![next, 0];
    header.extend(fragment.to_be_bytes());
    header.extend(9_u32.to_be_bytes());
    header.extend(rest);
    header
}

/// A header that begins with two ports, and a payload.
pub(crate) fn with_ports(ports: [u16; 2], bytes: usize, payload: &[u8]) -> Vec<u8> {
    let mut header = ports.map(u16::to_be_bytes).concat();
    header.resize(bytes, 0);
    header.extend(payload);
    header
}

/// A TCP segment with so many words of options.
pub(crate) fn tcp(ports: [u16; 2], flags: u8, option_words: u8, payload: &[u8]) -> Vec<u8> {
    let header = 20 + 4 * usize::from(option_words);
    let mut segment = with_ports(ports, header, payload);
    segment[12] = (5 + option_words) << 4;
    segment[13] = flags;
    segment
}

/// GRE with a checksum, a key and a sequence number if these bits of its flags say so.
pub(crate) fn gre(flags: u16, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut header = [flags, ethertype].map(u16::to_be_bytes).concat();
    let optional = (flags & 0xb000).count_ones() as usize;
    header.resize(4 + 4 * optional, 3);
    header.extend(payload);
    header
}

/// UDP to VXLAN's port, with a frame.
pub(crate) fn vxlan(frame: &[u8]) -> Vec<u8> {
    let mut header = with_ports([50_000, 4_789], 8, &[8, 0, 0, 0, 0, 0, 7, 0]);
    header.extend(frame);
    header
}
