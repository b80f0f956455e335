//! Whose a TCP connection of this host is: asks the kernel (`sock_diag`, exact lookup) for the user
//! of the socket at its other end.
//!
//! The kernel answers at once, to everybody, and takes no lock of network configuration.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// `struct inet_diag_req_v2`.
const REQUEST_BYTES: usize = 56;
/// Place of `idiag_uid` in `struct inet_diag_msg`; `idiag_inode` follows.
const USER: usize = HEADER_BYTES + 64;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const TCP_ESTABLISHED: u8 = 1;
/// Upper bound for a kernel that does not answer.
const LONGEST: Duration = Duration::from_millis(100);

/// The user whose process holds the socket at `peer`, connected to `local` on this host.
///
/// # Errors
/// If the kernel knows no such socket, or it is closed.
pub fn user_of(local: SocketAddr, peer: SocketAddr) -> io::Result<u32> {
    let domain = Domain::from(libc::AF_NETLINK);
    let protocol = Protocol::from(libc::NETLINK_SOCK_DIAG);
    let mut socket = Socket::new(domain, Type::RAW, Some(protocol))?;
    socket.set_read_timeout(Some(LONGEST))?;
    socket.write_all(&request(local, peer))?;
    let mut answer = [0; 512];
    let length = socket.read(&mut answer)?;
    user_in(&answer[..length]).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// The question for the socket at `peer`.
fn request(local: SocketAddr, peer: SocketAddr) -> Vec<u8> {
    let (local, peer) = (canonical(local), canonical(peer));
    let family = if peer.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let mut bytes = ((HEADER_BYTES + REQUEST_BYTES) as u32)
        .to_ne_bytes()
        .to_vec();
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence number and port: one question, one answer.
    bytes.extend([0; 8]);
    bytes.extend([family as u8, libc::IPPROTO_TCP as u8, 0, 0]);
    bytes.extend((1_u32 << TCP_ESTABLISHED).to_ne_bytes());
    bytes.extend(peer.port().to_be_bytes());
    bytes.extend(local.port().to_be_bytes());
    for address in [peer.ip(), local.ip()] {
        match address {
            IpAddr::V4(address) => {
                bytes.extend(address.octets());
                bytes.extend([0; 12]);
            }
            IpAddr::V6(address) => bytes.extend(address.octets()),
        }
    }
    // Any interface, any cookie.
    bytes.extend([0; 4]);
    bytes.extend([0xff; 8]);
    bytes
}

/// An IPv4 socket is known by its IPv4 address, however the other end is bound.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// The user in an answer that describes an open socket.
fn user_in(answer: &[u8]) -> Option<u32> {
    let number = |at: usize| Some(u32::from_ne_bytes(*answer.get(at..)?.first_chunk()?));
    let kind = u16::from_ne_bytes(*answer.get(4..)?.first_chunk()?);
    let (user, inode) = (number(USER)?, number(USER + 4)?);
    let is_open = answer.get(HEADER_BYTES + 1) == Some(&TCP_ESTABLISHED) && inode != 0;
    // A closed socket belongs to nobody, for which the kernel writes 0.
    (kind == SOCK_DIAG_BY_FAMILY && is_open).then_some(user)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn both_ends_of_a_connection_on_loopback_are_this_users() {
        let uid = std::fs::metadata("/proc/self").unwrap().uid();
        for (listens, connects) in [
            ("127.0.0.1:0", "127.0.0.1"),
            ("[::1]:0", "::1"),
            ("[::]:0", "127.0.0.1"),
        ] {
            let listener = TcpListener::bind(listens).unwrap();
            let port = listener.local_addr().unwrap().port();
            let client = TcpStream::connect((connects, port)).unwrap();
            let (stream, peer) = listener.accept().unwrap();
            let local = stream.local_addr().unwrap();
            assert_eq!(user_of(local, peer).unwrap(), uid, "{listens}");
            drop(client);
            let closed = user_of(local, peer).unwrap_err();
            assert_eq!(closed.kind(), io::ErrorKind::NotFound);
        }
    }

    #[test]
    fn an_answer_that_is_short_or_of_a_closed_socket_names_nobody() {
        let mut answer = vec![0; USER + 8];
        answer[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        answer[HEADER_BYTES + 1] = TCP_ESTABLISHED;
        answer[USER] = 7;
        assert_eq!(user_in(&answer), None, "no inode");
        answer[USER + 4] = 1;
        assert_eq!(user_in(&answer), Some(7));
        assert!((0..answer.len()).all(|length| user_in(&answer[..length]).is_none()));
    }
}
