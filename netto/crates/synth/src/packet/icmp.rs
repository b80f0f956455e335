//! ICMP and ICMPv6: echoes that are numbered, errors that quote a packet, neighbours that are
//! asked for. Checksums are the caller's.

use super::{Packet, Sum, TTL, UDP_BYTES, V4_BYTES, V6_BYTES, put};
use crate::record::{Addresses, protocol};

/// Bytes of the header.
pub const BYTES: usize = 8;

fn write_header(packet: &Packet, icmp: &mut [u8], is_echo: bool) {
    put(icmp, 0, packet.destination_port.to_be_bytes());
    if is_echo {
        put(icmp, 4, packet.identity.to_be_bytes());
        put(icmp, 6, (packet.index as u16).to_be_bytes());
    }
}

/// The ports of a quoted datagram that never was: discard.
fn write_quoted_udp(udp: &mut [u8]) {
    put(udp, 0, 9_u16.to_be_bytes());
    put(udp, 2, 9_u16.to_be_bytes());
    put(udp, 4, (UDP_BYTES as u16).to_be_bytes());
}

pub(super) fn write_v4(packet: &Packet, icmp: &mut [u8]) {
    let [kind, _] = packet.destination_port.to_be_bytes();
    write_header(packet, icmp, matches!(kind, 0 | 8 | 13 | 14));
    let Addresses::V4 {
        source,
        destination,
    } = packet.addresses
    else {
        return;
    };
    // Unreachable, quench, redirect, time exceeded, parameter problem.
    if !matches!(kind, 3 | 4 | 5 | 11 | 12) || icmp.len() < BYTES + V4_BYTES + UDP_BYTES {
        return;
    }
    let quoted = &mut icmp[BYTES..];
    quoted[0] = 0x45;
    put(quoted, 2, ((V4_BYTES + UDP_BYTES) as u16).to_be_bytes());
    quoted[8] = TTL;
    quoted[9] = protocol::UDP;
    put(quoted, 12, destination.octets());
    put(quoted, 16, source.octets());
    let sum = Sum::default().bytes(&quoted[..V4_BYTES]).finish();
    put(quoted, 10, sum);
    write_quoted_udp(&mut quoted[V4_BYTES..]);
}

pub(super) fn write_v6(packet: &Packet, icmp: &mut [u8]) {
    let [kind, _] = packet.destination_port.to_be_bytes();
    write_header(packet, icmp, matches!(kind, 128 | 129));
    let Addresses::V6 {
        source,
        destination,
    } = packet.addresses
    else {
        return;
    };
    match kind {
        // Errors.
        1..=4 if icmp.len() >= BYTES + V6_BYTES + UDP_BYTES => {
            let quoted = &mut icmp[BYTES..];
            quoted[0] = 0x60;
            put(quoted, 4, (UDP_BYTES as u16).to_be_bytes());
            quoted[6] = protocol::UDP;
            quoted[7] = TTL;
            put(quoted, 8, destination.octets());
            put(quoted, 24, source.octets());
            write_quoted_udp(&mut quoted[V6_BYTES..]);
        }
        // Who has this address; I have it.
        135 if icmp.len() >= BYTES + 16 => put(icmp, BYTES, destination.octets()),
        136 if icmp.len() >= BYTES + 16 => put(icmp, BYTES, source.octets()),
        _ => {}
    }
}
