//! Asks the kernel for TCP's sockets (`sock_diag(7)`), in batches: of many sockets, only so many are
//! looked at, with a pause after some.
//!
//! The kernel walks through its tables of sockets: call this only on a thread that may take its time.

use std::io::{Read, Write};
use std::time::Duration;

use anyhow::{Context, bail};
use netto_analysis::sock_diag::{TcpSocket, decode, request};
use socket2::{Domain, Protocol, Socket, Type};

/// Largest datagram; those of the kernel have at most 32 KiB.
const DATAGRAM_BYTES: usize = 64 << 10;
/// Timeout of an answer.
const LONGEST: Duration = Duration::from_secs(10);
/// Datagrams after which there is a pause.
const BATCH: usize = 16;
const PAUSE: Duration = Duration::from_millis(1);

/// TCP's sockets of this thread's network namespace that are connected or listen: at most `most` of
/// each family.
///
/// # Errors
/// The kernel's refusal.
pub fn tcp_sockets(most: usize) -> anyhow::Result<Vec<TcpSocket>> {
    let mut all = Vec::new();
    for (at, family) in [libc::AF_INET, libc::AF_INET6].into_iter().enumerate() {
        list(family as u8, at as u32 + 1, most, &mut all)?;
    }
    Ok(all)
}

/// On a socket of its own: an answer that is not read to its end goes with it.
fn list(family: u8, sequence: u32, most: usize, all: &mut Vec<TcpSocket>) -> anyhow::Result<()> {
    let mut socket = Socket::new(
        Domain::from(libc::AF_NETLINK),
        Type::RAW,
        Some(Protocol::from(libc::NETLINK_SOCK_DIAG)),
    )
    .context("the kernel refuses to tell of its sockets")?;
    socket.set_read_timeout(Some(LONGEST))?;
    socket
        .write_all(&request(family, sequence))
        .context("cannot ask the kernel for its sockets")?;
    let mut buffer = vec![0; DATAGRAM_BYTES];
    let limit = all.len().saturating_add(most);
    for datagram in 1.. {
        let length = socket
            .read(&mut buffer)
            .context("the kernel does not answer about its sockets")?;
        let part = decode(&buffer[..length], sequence)?;
        match part.refused {
            // A kernel without IPv6.
            Some(libc::ENOENT) => return Ok(()),
            Some(number) => bail!("the kernel refuses to list its sockets (error {number})"),
            None => all.extend(part.sockets),
        }
        if part.is_last || all.len() >= limit {
            break;
        }
        if datagram % BATCH == 0 {
            std::thread::sleep(PAUSE);
        }
    }
    all.truncate(limit);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_listening_socket_and_its_connections_are_among_them() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _waits = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let all = tcp_sockets(100_000).unwrap();
        assert!(
            all.iter()
                .any(|socket| socket.is_listening && socket.rx_queue == 1)
        );
        assert!(
            all.iter()
                .any(|socket| socket.is_local && socket.rtt_us.is_some())
        );
        assert!(tcp_sockets(1).unwrap().len() <= 2);
    }
}
