//! Encodes the request for TCP's sockets and decodes the answer (`sock_diag(7)`, `inet_diag_req_v2`,
//! `inet_diag_msg` and `tcp_info` in the kernel). Only knows their layouts, and trusts no length in
//! them. `netto_sys::sock_diag` sends and receives.

use std::net::IpAddr;

use crate::netlink::{
    Attributes, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR, frame, framed, word,
};

/// Size of `struct inet_diag_req_v2`, and of `struct inet_diag_msg`.
const REQUEST_BYTES: usize = 56;
const SOCKET_BYTES: usize = 72;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_INFO: u16 = 2;
const IPPROTO_TCP: u8 = 6;
const TCP_ESTABLISHED: u8 = 1;
const TCP_LISTEN: u8 = 10;
const AF_INET: u8 = 2;
/// Places in `struct tcp_info`; later kernels have more of it.
const INFO_RTT: usize = 68;
const INFO_RETRANSMITTED: usize = 100;
const INFO_SENT_SEGMENTS: usize = 136;

/// The request for all sockets of a family (`AF_INET` or `AF_INET6`) that are connected or listen.
pub fn request(family: u8, sequence: u32) -> Vec<u8> {
    let mut body = vec![family, IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1), 0];
    let states: u32 = (1 << TCP_ESTABLISHED) | (1 << TCP_LISTEN);
    body.extend(states.to_ne_bytes());
    body.resize(REQUEST_BYTES, 0);
    let flags = NLM_F_REQUEST | NLM_F_DUMP;
    framed(SOCK_DIAG_BY_FAMILY, flags, sequence, &body)
}

/// A TCP socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpSocket {
    /// Whether it waits for connections.
    pub is_listening: bool,
    /// Whether both ends are of this host: loopback, or the same address.
    pub is_local: bool,
    /// The kernel's number of it, which no other socket gets.
    pub cookie: u64,
    /// Bytes received and not read; connections to be accepted, if it listens.
    pub rx_queue: u32,
    /// Bytes sent and not acknowledged; the limit of those connections, if it listens.
    pub tx_queue: u32,
    /// Its smoothed round-trip time, microseconds.
    pub rtt_us: Option<u32>,
    /// Segments that it sent.
    pub sent_segments: u64,
    /// Segments that it sent again.
    pub retransmitted: u64,
}

/// What a datagram of an answer holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// Its sockets.
    pub sockets: Vec<TcpSocket>,
    /// Whether the answer ends with it.
    pub is_last: bool,
    /// A refusal with this errno.
    pub refused: Option<i32>,
}

/// The bytes end too early, or lengths contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the kernel's answer about sockets is damaged")]
pub struct Damaged;

/// The messages of a datagram that answer the request with this sequence number.
///
/// # Errors
/// If it is damaged.
pub fn decode(mut bytes: &[u8], sequence: u32) -> Result<Part, Damaged> {
    let mut part = Part::default();
    while !bytes.is_empty() {
        let (message, after) = frame(bytes).ok_or(Damaged)?;
        bytes = after;
        if message.sequence != sequence {
            continue;
        }
        match message.kind {
            NLMSG_DONE => part.is_last = true,
            NLMSG_ERROR => {
                let number = word(message.body, 0).ok_or(Damaged)? as i32;
                part.refused = Some(number.wrapping_neg());
            }
            SOCK_DIAG_BY_FAMILY => part.sockets.push(socket(message.body).ok_or(Damaged)?),
            _ => {}
        }
    }
    Ok(part)
}

fn socket(body: &[u8]) -> Option<TcpSocket> {
    let (fixed, attributes) = body.split_at_checked(SOCKET_BYTES)?;
    let is_listening = fixed[1] == TCP_LISTEN;
    let address = |at: usize| -> Option<IpAddr> {
        Some(match fixed[0] {
            AF_INET => <[u8; 4]>::try_from(fixed.get(at..at + 4)?).ok()?.into(),
            _ => <[u8; 16]>::try_from(fixed.get(at..at + 16)?).ok()?.into(),
        })
    };
    let (source, other) = (address(8)?, address(24)?);
    let mut socket = TcpSocket {
        is_listening,
        is_local: !is_listening && (source == other || source.to_canonical().is_loopback()),
        cookie: u64::from(word(fixed, 44)?) | (u64::from(word(fixed, 48)?) << 32),
        rx_queue: word(fixed, 56)?,
        tx_queue: word(fixed, 60)?,
        ..TcpSocket::default()
    };
    for attribute in Attributes(attributes) {
        let (kind, value) = attribute?;
        if kind == INET_DIAG_INFO && !is_listening {
            socket.rtt_us = word(value, INFO_RTT);
            socket.retransmitted = word(value, INFO_RETRANSMITTED).map_or(0, u64::from);
            socket.sent_segments = word(value, INFO_SENT_SEGMENTS).map_or(0, u64::from);
        }
    }
    Some(socket)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::netlink::HEADER_BYTES;

    /// A message of an answer, as the kernel writes it.
    fn message(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let mut message = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.extend(0_u16.to_ne_bytes());
        message.extend(sequence.to_ne_bytes());
        message.extend([0; 4]);
        message.extend(body);
        message
    }

    fn body(state: u8, other: [u8; 4]) -> Vec<u8> {
        let mut body = vec![0; SOCKET_BYTES];
        (body[0], body[1]) = (AF_INET, state);
        body[8..12].copy_from_slice(&[10, 0, 0, 1]);
        body[24..28].copy_from_slice(&other);
        body[44..48].copy_from_slice(&7_u32.to_ne_bytes());
        body[56..60].copy_from_slice(&3_u32.to_ne_bytes());
        body[60..64].copy_from_slice(&128_u32.to_ne_bytes());
        let mut info = vec![0_u8; 232];
        info[INFO_RTT..INFO_RTT + 4].copy_from_slice(&250_u32.to_ne_bytes());
        info[INFO_RETRANSMITTED] = 2;
        info[INFO_SENT_SEGMENTS] = 99;
        body.extend((4 + info.len() as u16).to_ne_bytes());
        body.extend(INET_DIAG_INFO.to_ne_bytes());
        body.extend(info);
        body
    }

    #[test]
    fn connections_and_listening_sockets_stand_with_what_they_tell() {
        let mut bytes = message(
            SOCK_DIAG_BY_FAMILY,
            5,
            &body(TCP_ESTABLISHED, [10, 0, 0, 2]),
        );
        bytes.extend(message(SOCK_DIAG_BY_FAMILY, 5, &body(TCP_LISTEN, [0; 4])));
        bytes.extend(message(SOCK_DIAG_BY_FAMILY, 4, &body(TCP_LISTEN, [0; 4])));
        let part = decode(&bytes, 5).unwrap();
        let [connection, listening] = part.sockets[..] else {
            panic!("{part:?}");
        };
        assert_eq!((connection.rtt_us, connection.cookie), (Some(250), 7));
        assert_eq!(
            (connection.sent_segments, connection.retransmitted),
            (99, 2)
        );
        assert!(!connection.is_local && !part.is_last);
        assert!(listening.is_listening && listening.rtt_us.is_none());
        assert_eq!((listening.rx_queue, listening.tx_queue), (3, 128));
    }

    #[test]
    fn a_connection_of_the_host_to_itself_is_local_and_the_end_is_told() {
        let mut bytes = message(
            SOCK_DIAG_BY_FAMILY,
            1,
            &body(TCP_ESTABLISHED, [10, 0, 0, 1]),
        );
        bytes.extend(message(NLMSG_DONE, 1, &[0; 4]));
        let part = decode(&bytes, 1).unwrap();
        assert!(part.sockets[0].is_local && part.is_last);
        let refused = message(NLMSG_ERROR, 1, &(-2_i32).to_ne_bytes());
        assert_eq!(decode(&refused, 1).unwrap().refused, Some(2));
        let asked = request(AF_INET, 9);
        assert_eq!(
            (asked.len(), asked[16], asked[17]),
            (72, AF_INET, IPPROTO_TCP)
        );
        assert_eq!(word(&asked, 20), Some(0x402));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), length in 0_u32..300) {
            if let Some(first) = bytes.get_mut(..4) {
                first.copy_from_slice(&length.to_ne_bytes());
            }
            if let Some(kind) = bytes.get_mut(4..6) {
                kind.copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
            }
            let sequence = word(&bytes, 8).unwrap_or(0);
            let _ = decode(&bytes, sequence);
        }
    }
}
