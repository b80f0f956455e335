//! Packets of all kinds, whole and damaged, are what another reader makes of them.

use netto_fuzz::packets::check;
use proptest::collection::vec;
use proptest::prelude::*;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// What follows IP: its number, and bytes that may be too few.
fn payload() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let protocol = prop_oneof![
        4 => prop::sample::select(vec![6_u8, 17, 132, 136, 1, 2, 58, 47]),
        1 => any::<u8>(),
    ];
    (protocol, 0..40_usize, any::<[u8; 40]>()).prop_map(|(protocol, length, mut bytes)| {
        if protocol == 6 {
            // A length of TCP's header that can be.
            bytes[12] = 0x50 | bytes[12] & 0x30;
        }
        (protocol, bytes[..length].to_vec())
    })
}

fn ipv4((protocol, payload): (u8, Vec<u8>), options: u8, fragment: u16) -> Vec<u8> {
    let header = 20 + 4 * usize::from(options);
    let total = (header + payload.len()) as u16;
    let mut packet = vec![0x45 + options, 0x28];
    packet.extend([total, 7, fragment].map(u16::to_be_bytes).concat());
    packet.extend([61, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    packet.resize(header, 1);
    packet.extend(payload);
    packet
}

/// Headers of extensions from the last to the first, each with eight or sixteen bytes.
fn ipv6((mut next, mut payload): (u8, Vec<u8>), extensions: Vec<(u8, bool, u16)>) -> Vec<u8> {
    for (kind, is_long, fragment) in extensions {
        let units = match (kind, is_long) {
            (44, _) | (_, false) => 0,
            (51, true) => 2,
            _ => 1,
        };
        let mut header = vec![next, units];
        header.extend(fragment.to_be_bytes());
        header.resize(if units == 0 { 8 } else { 16 }, 9);
        header.extend(payload);
        (next, payload) = (kind, header);
    }
    let mut packet = vec![0x62, 0x80, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, 61]);
    packet.extend([0x20; 16]);
    packet.extend([0x21; 16]);
    packet.extend(payload);
    packet
}

/// None, first, later and last fragments.
fn fragments() -> impl Strategy<Value = u16> {
    prop::sample::select(vec![0_u16, 0x4000, 0x2000, 0x2005, 5])
}

fn ip() -> impl Strategy<Value = (u16, Vec<u8>)> {
    let four = (payload(), 0..=10_u8, fragments())
        .prop_map(|(payload, options, fragment)| (IPV4, ipv4(payload, options, fragment)));
    let kind = prop::sample::select(vec![0_u8, 43, 44, 44, 51, 60, 135, 139, 140]);
    let of_six = prop::sample::select(vec![0_u16, 1, 9, 8, 0x100]);
    let six = (payload(), vec((kind, any::<bool>(), of_six), 0..10))
        .prop_map(|(payload, extensions)| (IPV6, ipv6(payload, extensions)));
    prop_oneof![four, six]
}

fn frame(tags: Vec<(u16, u16)>, (ethertype, packet): (u16, Vec<u8>)) -> Vec<u8> {
    let mut frame = vec![2; 12];
    for (kind, number) in tags {
        frame.extend([kind, number].map(u16::to_be_bytes).concat());
    }
    frame.extend(ethertype.to_be_bytes());
    frame.extend(packet);
    frame
}

fn frames() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop::sample::select(vec![0x8100_u16, 0x88a8, 0x9100]);
    (vec((kind, any::<u16>()), 0..4), ip()).prop_map(|(tags, packet)| frame(tags, packet))
}

/// Frames, and frames in tunnels: GRE of IP, GRE of Ethernet, VXLAN.
fn all_frames() -> impl Strategy<Value = Vec<u8>> {
    let flags = prop::sample::select(vec![0_u16, 0x8000, 0x2000, 0x1000, 0xb000, 0x4000, 1]);
    let gre = |flags: u16, ethertype: u16, inner: Vec<u8>| {
        let mut header = [flags, ethertype].map(u16::to_be_bytes).concat();
        header.resize(4 + 4 * (flags & 0xb000).count_ones() as usize, 3);
        header.extend(inner);
        (47, header)
    };
    let of_ip = (flags.clone(), ip()).prop_map(move |(flags, (kind, ip))| gre(flags, kind, ip));
    let of_frame = (flags, frames()).prop_map(move |(flags, frame)| gre(flags, 0x6558, frame));
    let vxlan = (frames(), any::<bool>()).prop_map(|(frame, has_number)| {
        let mut header = [50_000_u16, 4_789, 0, 0].map(u16::to_be_bytes).concat();
        header.extend([if has_number { 8 } else { 0 }, 0, 0, 0, 0, 0, 7, 0]);
        header.extend(frame);
        (17, header)
    });
    let tunnel =
        (prop_oneof![of_ip, of_frame, vxlan], any::<bool>()).prop_map(|(inner, is_six)| {
            let packet = if is_six {
                (IPV6, ipv6(inner, vec![(60, false, 0)]))
            } else {
                (IPV4, ipv4(inner, 1, 0))
            };
            frame(Vec::new(), packet)
        });
    prop_oneof![frames(), tunnel]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4_000) })]

    #[test]
    fn whole_packets_are_what_etherparse_reads(frame in all_frames()) {
        check(&frame);
    }

    #[test]
    fn damaged_packets_are_what_etherparse_reads(
        mut frame in all_frames(),
        changes in vec((0..120_usize, any::<u8>()), 0..4),
        cut in prop::option::of(0..120_usize),
        padding in 0..9_usize,
    ) {
        for (at, value) in changes {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        frame.resize(frame.len() + padding, 0);
        frame.truncate(cut.unwrap_or(usize::MAX));
        check(&frame);
    }
}
