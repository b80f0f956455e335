//! What the parser makes of frames: keys, sizes and marks; and of what is cut off, wrong or by chance.

use std::net::IpAddr;

use proptest::prelude::*;

use super::{Headers, parse_capture};
use crate::flow::{Fragment, Frame, Packet};
use crate::frames::{
    TOS, TTL, V4, V6, ethernet, extension, fragment, gre, ipv4, ipv6, tcp, vxlan, with_ports,
};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const PORTS: [u16; 2] = [40_000, 443];

fn parse(captured: &[u8], frame_bytes: u32) -> Frame {
    super::parse(captured, frame_bytes, Headers::Outer)
}

fn within(captured: &[u8], frame_bytes: u32) -> Frame {
    super::parse(captured, frame_bytes, Headers::Inner)
}

fn packet(frame: &[u8]) -> Packet {
    match parse(frame, frame.len() as u32) {
        Frame::Packet(packet) => packet,
        other => panic!("{other:?}: {frame:02x?}"),
    }
}

/// One frame of each kind with the number of bytes of its headers.
fn frames() -> Vec<(&'static str, Vec<u8>, usize)> {
    let data = [0xaa; 9];
    let udp = with_ports(PORTS, 8, &data);
    let icmp = with_ports([0x0800, 0], 8, &data);
    let gre = [&[0, 0, 8, 0][..], &data].concat();
    let hops = extension(43, 8, &extension(60, 24, &extension(17, 16, &udp)));
    let authenticated = [&[17, 4][..], &[0; 22], &udp].concat();
    let frame = |tags: &[_], ether_type, packet: &[u8]| ethernet(tags, ether_type, packet);
    let one = [(0x8100, 5)];
    let two = [(0x88a8, 100), (0x8100, 0)];
    vec![
        ("udp", frame(&[], IPV4, &ipv4(0, 0, 17, &udp)), 42),
        (
            "tcp",
            frame(&[], IPV4, &ipv4(0, 0, 6, &tcp(PORTS, 0x12, 3, &data))),
            66,
        ),
        ("options", frame(&[], IPV4, &ipv4(10, 0, 17, &udp)), 82),
        ("icmp", frame(&[], IPV4, &ipv4(0, 0, 1, &icmp)), 42),
        ("igmp", frame(&[], IPV4, &ipv4(1, 0, 2, &icmp)), 46),
        (
            "sctp",
            frame(&[], IPV4, &ipv4(0, 0, 132, &with_ports(PORTS, 12, &data))),
            46,
        ),
        ("gre", frame(&[], IPV4, &ipv4(0, 0, 47, &gre)), 38),
        ("vlan", frame(&one, IPV4, &ipv4(0, 0, 17, &udp)), 46),
        ("qinq", frame(&two, IPV6, &ipv6(17, &udp)), 70),
        ("udp6", frame(&[], IPV6, &ipv6(17, &udp)), 62),
        (
            "tcp6",
            frame(&[], IPV6, &ipv6(6, &tcp(PORTS, 0x10, 0, &data))),
            74,
        ),
        ("icmp6", frame(&[], IPV6, &ipv6(58, &icmp)), 62),
        ("extensions", frame(&[], IPV6, &ipv6(0, &hops)), 110),
        (
            "authenticated",
            frame(&[], IPV6, &ipv6(51, &authenticated)),
            86,
        ),
        (
            "fragment6",
            frame(&[], IPV6, &ipv6(44, &fragment(17, 1, &udp))),
            70,
        ),
        (
            "later6",
            frame(&[], IPV6, &ipv6(44, &fragment(17, 8, &data))),
            62,
        ),
        ("later", frame(&[], IPV4, &ipv4(0, 1, 17, &data)), 34),
    ]
}

/// Packets in tunnels: the frame, the number of bytes of all headers, and the packet as a frame of its
/// own.
fn tunnels() -> Vec<(&'static str, Vec<u8>, usize, Vec<u8>)> {
    let segment = ipv4(1, 0, 6, &tcp(PORTS, 0x12, 1, &[0; 9]));
    let hops = ipv6(0, &extension(17, 16, &with_ports(PORTS, 8, &[0; 5])));
    let (four, six) = (ethernet(&[], IPV4, &segment), ethernet(&[], IPV6, &hops));
    let tagged = ethernet(&[(0x88a8, 4), (0x8100, 5)], IPV6, &hops);
    let later = ipv4(0, 3, 17, &[0; 9]);
    let of_four = |protocol, payload: &[u8]| ethernet(&[], IPV4, &ipv4(0, 0, protocol, payload));
    let of_six = |protocol, payload: &[u8]| {
        let packet = ipv6(60, &extension(protocol, 8, payload));
        ethernet(&[(0x8100, 9)], IPV6, &packet)
    };
    let bridged = 0x6558;
    vec![
        (
            "gre",
            of_four(47, &gre(0, IPV4, &segment)),
            34 + 4 + 24 + 24,
            four.clone(),
        ),
        (
            "gre with all",
            of_four(47, &gre(0xb000, IPV6, &hops)),
            34 + 16 + 40 + 16 + 8,
            six.clone(),
        ),
        (
            "gre over six with a key",
            of_six(47, &gre(0x2000, IPV4, &segment)),
            18 + 48 + 8 + 24 + 24,
            four.clone(),
        ),
        (
            "bridged",
            of_six(47, &gre(0x1000, bridged, &tagged)),
            18 + 48 + 8 + 22 + 40 + 16 + 8,
            tagged.clone(),
        ),
        (
            "vxlan",
            of_four(17, &vxlan(&four)),
            34 + 16 + 14 + 24 + 24,
            four,
        ),
        (
            "vxlan over six",
            of_six(17, &vxlan(&tagged)),
            18 + 48 + 16 + 22 + 40 + 16 + 8,
            tagged,
        ),
        (
            "later",
            of_four(47, &gre(0, IPV4, &later)),
            34 + 4 + 20,
            ethernet(&[], IPV4, &later),
        ),
    ]
}

#[test]
fn a_packet_in_a_tunnel_is_what_it_is_without_if_that_is_asked_for() {
    for (name, frame, headers, alone) in tunnels() {
        let whole = within(&frame, frame.len() as u32);
        assert_eq!(whole, parse(&alone, alone.len() as u32), "{name}");
        let outer = packet(&frame).key();
        assert!([17, 47].contains(&outer.protocol()), "{name}");
        for bytes in 0..frame.len() {
            let ended = within(&frame[..bytes], bytes as u32);
            assert_eq!(ended, Frame::Malformed, "{name}: {bytes} bytes");
            let cut = within(&frame[..bytes], frame.len() as u32);
            let expected = if bytes < headers {
                Frame::Malformed
            } else {
                whole
            };
            assert_eq!(cut, expected, "{name}: {bytes} bytes captured");
        }
    }
    // What that one carries is no packet.
    for (name, frame, _) in frames().into_iter().filter(|case| case.0 != "gre") {
        let whole = parse(&frame, frame.len() as u32);
        assert_eq!(within(&frame, frame.len() as u32), whole, "{name}");
    }
}

#[test]
fn what_is_no_tunnel_or_carries_no_ip_is_a_packet_of_the_outer_headers() {
    let inner = ipv4(0, 0, 17, &with_ports(PORTS, 8, &[]));
    let mut without_number = vxlan(&ethernet(&[], IPV4, &inner));
    without_number[8] = 0;
    let bare = with_ports([50_000, 4_789], 8, &[8; 7]);
    let arp = ethernet(&[], 0x0806, &[0; 28]);
    for (what, protocol, fragment, payload) in [
        ("version 1", 47, 0, gre(1, IPV4, &inner)),
        ("routing", 47, 0, gre(0x4000, IPV4, &inner)),
        ("MPLS", 47, 0, gre(0, 0x8847, &inner)),
        ("ARP in GRE", 47, 0, gre(0, 0x6558, &arp)),
        ("ARP in VXLAN", 17, 0, vxlan(&arp)),
        ("no network number", 17, 0, without_number),
        ("too short", 17, 0, bare),
        ("a first fragment", 47, 0x2000, gre(0, IPV4, &inner)),
        ("IP in IP", 4, 0, inner.clone()),
    ] {
        let frame = ethernet(&[], IPV4, &ipv4(0, fragment, protocol, &payload));
        let whole = parse(&frame, frame.len() as u32);
        assert!(matches!(whole, Frame::Packet(_)), "{what}");
        assert_eq!(within(&frame, frame.len() as u32), whole, "{what}");
    }
    let twice = gre(0, IPV4, &ipv4(0, 0, 47, &gre(0, IPV4, &inner)));
    let frame = ethernet(&[], IPV4, &ipv4(0, 0, 47, &twice));
    let Frame::Packet(packet) = within(&frame, frame.len() as u32) else {
        panic!("one level is passed");
    };
    assert_eq!((packet.key().protocol(), packet.counts(0).bytes), (47, 52));
}

#[test]
fn each_kind_of_frame_has_its_key() {
    for (name, frame, _) in frames() {
        let key = packet(&frame).key();
        let ends = if name.contains('6') || ["qinq", "extensions", "authenticated"].contains(&name)
        {
            V6.map(IpAddr::from)
        } else {
            V4.map(IpAddr::from)
        };
        assert_eq!([key.source(), key.destination()], ends, "{name}");
        let ports = match name {
            "icmp" | "igmp" | "icmp6" | "gre" => None,
            "later" | "later6" => Some([0, 0]),
            _ => Some(PORTS),
        };
        assert_eq!(key.ports(), ports, "{name}");
        let message = ["icmp", "igmp", "icmp6"].contains(&name).then_some([8, 0]);
        assert_eq!(key.type_and_code(), message, "{name}");
        let vlans: &[u16] = match name {
            "vlan" => &[5],
            "qinq" => &[100, 0],
            _ => &[],
        };
        assert_eq!(key.vlans().collect::<Vec<_>>(), vlans, "{name}");
    }
}

#[test]
fn a_packet_has_its_size_and_its_marks_and_padding_does_not_count() {
    let mut frame = ethernet(&[], IPV4, &ipv4(0, 0, 6, &tcp(PORTS, 0x12, 0, &[])));
    frame.resize(60, 0);
    let counts = packet(&frame).counts(5);
    assert_eq!((counts.packets, counts.bytes), (1, 40));
    assert_eq!((counts.first_ns, counts.last_ns), (5, 5));
    assert_eq!(counts.tcp_flags, 0x12);
    assert_eq!(counts.dscps().collect::<Vec<_>>(), [TOS >> 2]);
    assert_eq!(counts.ttl_range(), Some([TTL, TTL]));
    let six = packet(&ethernet(&[], IPV6, &ipv6(17, &with_ports(PORTS, 8, &[])))).counts(0);
    assert_eq!(six.bytes, 48);
    assert_eq!(six.dscps().collect::<Vec<_>>(), [TOS >> 2]);
    assert_eq!(six.ttl_range(), Some([TTL, TTL]));
}

#[test]
fn a_frame_that_ends_anywhere_before_its_packet_does_is_malformed() {
    for (name, frame, _) in frames() {
        for bytes in 0..frame.len() {
            let outcome = parse(&frame[..bytes], bytes as u32);
            assert_eq!(outcome, Frame::Malformed, "{name}: {bytes} bytes");
        }
    }
}

#[test]
fn a_capture_of_all_headers_suffices_and_one_byte_less_does_not() {
    for (name, frame, headers) in frames() {
        let whole = parse(&frame, frame.len() as u32);
        for bytes in 0..frame.len() {
            let cut = parse(&frame[..bytes], frame.len() as u32);
            let expected = if bytes < headers {
                Frame::Malformed
            } else {
                whole
            };
            assert_eq!(cut, expected, "{name}: {bytes} bytes captured");
        }
    }
}

#[test]
fn a_capture_that_ends_behind_the_addresses_has_them_and_port_0_for_what_is_missing() {
    let captured = |frame: &[u8], bytes: usize| {
        parse_capture(&frame[..bytes], frame.len() as u32, Headers::Outer)
    };
    for (what, protocol, payload) in [
        ("tcp", 6, tcp(PORTS, 0x12, 3, &[0; 100])),
        ("udp", 17, with_ports(PORTS, 8, &[0; 100])),
    ] {
        let four = ethernet(&[], IPV4, &ipv4(0, 0, protocol, &payload));
        let six = ethernet(&[], IPV6, &ipv6(protocol, &payload));
        for (frame, headers) in [(four, 34), (six, 54)] {
            let whole = packet(&frame);
            for bytes in 0..headers {
                let (cut, _) = captured(&frame, bytes);
                assert_eq!(cut, Frame::Malformed, "{what}: {bytes} bytes");
            }
            for bytes in headers..frame.len() {
                let (Frame::Packet(cut), is_cut) = captured(&frame, bytes) else {
                    panic!("{what}: {bytes} bytes");
                };
                let transport = if protocol == 6 { 32 } else { 8 };
                assert_eq!(is_cut, bytes < headers + transport, "{what}: {bytes} bytes");
                let (key, whole_key) = (cut.key(), whole.key());
                assert_eq!(
                    (key.source(), key.destination(), key.protocol()),
                    (whole_key.source(), whole_key.destination(), protocol)
                );
                assert_eq!(cut.counts(0).bytes, whole.counts(0).bytes);
                if bytes == headers {
                    assert_eq!(key.ports(), Some([0, 0]), "{what}");
                }
                if bytes >= headers + 4 {
                    assert_eq!(key, whole_key, "{what}: {bytes} bytes");
                }
            }
        }
    }
    let mut wrong = ethernet(&[], IPV4, &ipv4(0, 0, 6, &tcp(PORTS, 0, 0, &[0; 50])));
    wrong[14 + 20 + 12] = 4 << 4;
    let (outcome, is_cut) = captured(&wrong, 60);
    assert_eq!(
        (outcome, is_cut),
        (Frame::Malformed, false),
        "a header of 16 bytes"
    );
}

#[test]
fn fragments_are_known_by_what_they_share() {
    let udp = with_ports(PORTS, 8, &[0; 8]);
    let of_v4 = |flags, payload: &[u8]| packet(&ethernet(&[], IPV4, &ipv4(0, flags, 17, payload)));
    let of_v6 =
        |flags, rest: &[u8]| packet(&ethernet(&[], IPV6, &ipv6(44, &fragment(17, flags, rest))));
    for (first, later, last) in [
        (
            of_v4(0x2000, &udp),
            of_v4(0x2002, &[0; 8]),
            of_v4(4, &[0; 3]),
        ),
        (of_v6(1, &udp), of_v6(17, &[0; 8]), of_v6(32, &[0; 3])),
    ] {
        let (kind, id) = first.fragment().unwrap();
        assert_eq!(kind, Fragment::First);
        assert_eq!(later.fragment(), Some((Fragment::Later, id)));
        assert_eq!(last.fragment(), Some((Fragment::Later, id)));
    }
    assert_eq!(of_v4(0x4000, &udp).fragment(), None);
    assert_eq!(
        of_v6(0, &udp).fragment(),
        None,
        "a whole packet with a fragment header"
    );
}

#[test]
fn wrong_headers_are_malformed() {
    let udp = with_ports(PORTS, 8, &[]);
    let good = ethernet(&[], IPV4, &ipv4(0, 0, 17, &udp));
    for (at, value, what) in [
        (14, 0x65, "version 6 by the type of version 4"),
        (14, 0x44, "a header of 16 bytes"),
        (17, 19, "shorter than its header"),
        (16, 1, "longer than its frame"),
    ] {
        let mut frame = good.clone();
        frame[at] = value;
        assert_eq!(
            parse(&frame, frame.len() as u32),
            Frame::Malformed,
            "{what}"
        );
    }
    let mut short = ethernet(&[], IPV4, &ipv4(0, 0, 6, &tcp(PORTS, 0, 0, &[])));
    short[14 + 20 + 12] = 4 << 4;
    assert_eq!(
        parse(&short, short.len() as u32),
        Frame::Malformed,
        "TCP of 16 bytes"
    );
    let mut many = udp;
    let mut next = 17;
    for _ in 0..9 {
        many = extension(next, 8, &many);
        next = 60;
    }
    let many = ethernet(&[], IPV6, &ipv6(60, &many));
    assert_eq!(
        parse(&many, many.len() as u32),
        Frame::Malformed,
        "nine extensions"
    );
}

#[test]
fn what_is_no_ip_is_other() {
    let arp = ethernet(&[], 0x0806, &[0; 28]);
    assert_eq!(parse(&arp, arp.len() as u32), Frame::Other);
    let three = [(0x88a8, 1), (0x8100, 2), (0x8100, 3)];
    let tags = ethernet(&three, IPV4, &ipv4(0, 0, 47, &[0; 4]));
    assert_eq!(parse(&tags, tags.len() as u32), Frame::Other, "a third tag");
}

proptest! {
    #[test]
    fn no_bytes_are_read_beyond_the_end_whatever_they_are(
        kind in 0..24_usize,
        changes in proptest::collection::vec((0..180_usize, any::<u8>()), 0..6),
        bytes in 0..190_usize,
        more in 0..2_000_u32,
    ) {
        let tunnels = tunnels().into_iter().map(|(_, frame, ..)| frame);
        let mut all = frames().into_iter().map(|(_, frame, _)| frame).chain(tunnels);
        let mut frame = all.nth(kind).unwrap();
        for (at, value) in changes {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        frame.truncate(bytes);
        // A box of exactly these bytes, so that a sanitizer sees a read beyond them.
        let frame = frame.into_boxed_slice();
        let frame_bytes = frame.len() as u32 + more;
        for outcome in [parse(&frame, frame_bytes), within(&frame, frame_bytes)] {
            if let Frame::Packet(packet) = outcome {
                prop_assert!(packet.counts(0).bytes <= u64::from(frame_bytes));
            }
        }
    }
}
