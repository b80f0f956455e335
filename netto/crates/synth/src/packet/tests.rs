//! Frames as another reader of packets sees them.

use etherparse::{NetSlice, SlicedPacket, TransportSlice, VlanSlice};
use proptest::prelude::*;

use super::*;

const LINK: Link = Link {
    source: [2, 0, 0, 0, 0, 1],
    destination: [2, 0, 0, 0, 0, 2],
    vlan: None,
};

fn v4() -> Addresses {
    Addresses::V4 {
        source: [192, 0, 2, 1].into(),
        destination: [198, 51, 100, 2].into(),
    }
}

fn v6() -> Addresses {
    Addresses::V6 {
        source: 0x2001_0db8_0000_0000_0000_0000_0000_0001_u128.into(),
        destination: 0x2001_0db8_0000_0000_0000_0000_0000_0002_u128.into(),
    }
}

fn packet(addresses: Addresses, protocol: u8, bytes: u16) -> Packet {
    Packet {
        addresses,
        source_port: 40_000,
        destination_port: 0x0800,
        protocol,
        tos: 0xb8,
        vlan: None,
        bytes,
        index: 5,
        identity: 77,
        sequence: 0x0102_0304,
        acknowledgement: 0x0506_0708,
        tcp_flags: 0x18,
    }
}

fn frame(packet: &Packet, link: &Link) -> Vec<u8> {
    let mut buffer = vec![0; LINK_BYTES + 2000];
    // What was written there before must not shine through.
    buffer[..HEADROOM].fill(0xee);
    let length = packet.write(link, &mut buffer);
    buffer.truncate(length);
    buffer
}

/// The checksum of what includes its own checksum is zero.
fn is_zero(sum: Sum) -> bool {
    sum.finish() == [0, 0]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn headers_are_read_back_and_checksums_hold(
        is_v6 in any::<bool>(),
        protocol in prop::sample::select(vec![1_u8, 2, 6, 17, 47, 50, 58, 132, 253]),
        more in 0..1400_u16,
        ports in any::<(u16, u16)>(),
        numbers in any::<(u32, u32, u8, u8)>(),
        vlan in prop::option::of(1..4095_u16),
    ) {
        let (sequence, acknowledgement, tcp_flags, tos) = numbers;
        let addresses = if is_v6 { v6() } else { v4() };
        let mut packet = Packet {
            source_port: ports.0,
            destination_port: ports.1,
            sequence,
            acknowledgement,
            tcp_flags,
            tos,
            vlan,
            ..packet(addresses, protocol, 0)
        };
        let record = FlowRecord {
            start_ns: 0,
            end_ns: 0,
            addresses,
            source_port: ports.0,
            destination_port: ports.1,
            protocol,
            tos,
            tcp_flags,
            packets: 1,
            bytes: 0,
            is_estimate: false,
            vlan,
        };
        let Ok(header_bytes) = header_bytes(&record) else {
            prop_assert!(protocol == 58 && !is_v6 || is_v6 && protocol < 3);
            return Ok(());
        };
        packet.bytes = header_bytes + more;
        let frame = frame(&packet, &LINK);
        let link_bytes = if vlan.is_some() { 18 } else { 14 };
        prop_assert_eq!(frame.len(), link_bytes + usize::from(packet.bytes));
        let read = SlicedPacket::from_ethernet(&frame).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let read_vlan = match read.vlan() {
            Some(VlanSlice::SingleVlan(slice)) => Some(slice.vlan_identifier().value()),
            _ => None,
        };
        prop_assert_eq!(read_vlan, vlan);
        let above = &frame[link_bytes + if is_v6 { 40 } else { 20 }..];
        match read.net {
            Some(NetSlice::Ipv4(ip)) => {
                let header = ip.header().to_header();
                prop_assert_eq!(header.header_checksum, header.calc_header_checksum());
                prop_assert_eq!(header.total_len, packet.bytes);
                prop_assert_eq!(frame[link_bytes + 1], tos);
                let found = Addresses::V4 { source: header.source.into(), destination: header.destination.into() };
                prop_assert_eq!(found, addresses);
            }
            Some(NetSlice::Ipv6(ip)) => {
                let header = ip.header().to_header();
                prop_assert_eq!(header.payload_length + 40, packet.bytes);
                prop_assert_eq!(header.traffic_class, tos);
                let found = Addresses::V6 { source: header.source.into(), destination: header.destination.into() };
                prop_assert_eq!(found, addresses);
            }
            other => return Err(TestCaseError::fail(format!("{other:?}"))),
        }
        match (protocol, read.transport) {
            (6, Some(TransportSlice::Tcp(tcp))) => {
                prop_assert!(is_zero(packet.pseudo(above.len()).bytes(above)));
                prop_assert_eq!((tcp.source_port(), tcp.destination_port()), ports);
                prop_assert_eq!(tcp.sequence_number(), sequence);
                prop_assert_eq!(above[13], tcp_flags);
                let acknowledged = if tcp.ack() { acknowledgement } else { 0 };
                prop_assert_eq!(tcp.acknowledgment_number(), acknowledged);
            }
            (17, Some(TransportSlice::Udp(udp))) => {
                prop_assert!(is_zero(packet.pseudo(above.len()).bytes(above)));
                prop_assert_eq!((udp.source_port(), udp.destination_port()), ports);
                prop_assert_eq!(usize::from(udp.length()), above.len());
                prop_assert_ne!(udp.checksum(), 0);
            }
            (6 | 17, other) => return Err(TestCaseError::fail(format!("{other:?}"))),
            (1 | 2, _) => {
                prop_assert!(is_zero(Sum::default().bytes(above)));
                prop_assert_eq!(&above[..2], &ports.1.to_be_bytes());
            }
            (58, _) => {
                prop_assert!(is_zero(packet.pseudo(above.len()).bytes(above)));
                prop_assert_eq!(&above[..2], &ports.1.to_be_bytes());
            }
            (132, _) => {
                let mut zeroed = above.to_vec();
                zeroed[8..12].fill(0);
                prop_assert_eq!(&above[8..12], &crc32c(&zeroed));
            }
            _ => {}
        }
    }
}

#[test]
fn an_error_quotes_a_valid_packet_of_the_other_direction() {
    let unreachable = Packet {
        destination_port: 0x0303,
        ..packet(v4(), 1, 20 + 8 + 28)
    };
    let frame = frame(&unreachable, &LINK);
    let quoted = &frame[14 + 20 + 8..];
    assert!(is_zero(Sum::default().bytes(&quoted[..20])));
    assert_eq!(&quoted[12..16], &[198, 51, 100, 2]);
    let too_short = Packet {
        bytes: 20 + 8 + 27,
        ..unreachable
    };
    assert!(
        self::frame(&too_short, &LINK)[14 + 20 + 8..]
            .iter()
            .all(|&byte| byte == 0)
    );
}

#[test]
fn the_records_vlan_goes_before_the_given_one() {
    let tagged = Packet {
        vlan: Some(7),
        ..packet(v6(), 17, 60)
    };
    let link = Link {
        vlan: Some(9),
        ..LINK
    };
    assert_eq!(frame(&tagged, &link)[12..18], [0x81, 0, 0, 7, 0x86, 0xdd]);
    let plain = packet(v6(), 17, 60);
    assert_eq!(frame(&plain, &link)[12..18], [0x81, 0, 0, 9, 0x86, 0xdd]);
    assert_eq!(frame(&plain, &LINK)[12..14], [0x86, 0xdd]);
}
