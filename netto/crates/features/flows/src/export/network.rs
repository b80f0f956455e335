//! Connections to collectors.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::Ready;
use super::target::Host;

/// Collectors that use UDP forget templates, or were not there when they came.
const ANNOUNCED_EVERY: Duration = Duration::from_secs(60);
/// So many messages are sent at once, and then none for a while: receivers have small buffers.
const BURST: u32 = 16;
const BETWEEN_BURSTS: Duration = Duration::from_millis(1);
/// How long a collector may take to answer, or to make room.
const PATIENCE: Duration = Duration::from_secs(5);

/// The addresses of a collector.
///
/// # Errors
/// Its name is not known.
pub(super) fn resolve(host: &Host) -> anyhow::Result<Vec<SocketAddr>> {
    let found = (host.name.as_str(), host.port).to_socket_addrs();
    let found = found.map(Vec::from_iter).and_then(|found| match found[..] {
        [] => Err(ErrorKind::AddrNotAvailable.into()),
        _ => Ok(found),
    });
    found.with_context(|| format!("--flows-export: no address is known for {}", host.name))
}

/// A collector that receives datagrams.
#[derive(Debug)]
pub(super) struct UdpSink {
    collector: SocketAddr,
    socket: Option<UdpSocket>,
    announced: Instant,
    /// Messages of this burst.
    burst: u32,
}

impl UdpSink {
    pub(super) fn new(collector: SocketAddr) -> UdpSink {
        UdpSink {
            collector,
            socket: None,
            announced: Instant::now(),
            burst: 0,
        }
    }

    fn connect(&self) -> io::Result<UdpSocket> {
        let any = match self.collector {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(self.collector)?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(socket)
    }

    pub(super) fn prepare(&mut self) -> io::Result<Ready> {
        if self.socket.is_none() {
            self.socket = Some(self.connect()?);
            self.announced = Instant::now();
            return Ok(Ready::Anew);
        }
        if self.announced.elapsed() < ANNOUNCED_EVERY {
            return Ok(Ready::GoesOn);
        }
        self.announced = Instant::now();
        Ok(Ready::Announces)
    }

    pub(super) fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let socket = self.socket.as_ref().ok_or(ErrorKind::NotConnected)?;
        self.burst += 1;
        if self.burst == BURST {
            self.burst = 0;
            std::thread::sleep(BETWEEN_BURSTS);
        }
        match socket.send(message) {
            Ok(_) => Ok(()),
            // The answer to an earlier one: this one was not sent yet, and that one is lost.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                socket.send(message)?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }
}

/// A collector that takes connections.
#[derive(Debug)]
pub(super) struct TcpSink {
    addresses: Vec<SocketAddr>,
    stream: Option<TcpStream>,
}

impl TcpSink {
    pub(super) fn new(addresses: Vec<SocketAddr>) -> TcpSink {
        TcpSink {
            addresses,
            stream: None,
        }
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let mut failure = io::Error::from(ErrorKind::AddrNotAvailable);
        for address in &self.addresses {
            match TcpStream::connect_timeout(address, PATIENCE) {
                Ok(stream) => {
                    stream.set_write_timeout(Some(PATIENCE))?;
                    return Ok(stream);
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Connects, unless it is connected to a collector that is still there.
    pub(super) fn prepare(&mut self) -> io::Result<Ready> {
        if self.stream.as_mut().is_some_and(is_open) {
            return Ok(Ready::GoesOn);
        }
        self.stream = None;
        self.stream = Some(self.connect()?);
        Ok(Ready::Anew)
    }

    /// Sends a whole message, or ends the connection.
    pub(super) fn send(&mut self, message: &[u8]) -> io::Result<()> {
        let stream = self.stream.as_mut().ok_or(ErrorKind::NotConnected)?;
        let sent = stream.write_all(message);
        if sent.is_err() {
            self.stream = None;
        }
        match sent {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(io::Error::new(
                ErrorKind::TimedOut,
                "it takes nothing any more",
            )),
            sent => sent,
        }
    }
}

/// Whether the other end has not closed the connection. Collectors send nothing.
fn is_open(stream: &mut TcpStream) -> bool {
    let mut answer = [0; 64];
    let is_open = stream.set_nonblocking(true).is_ok()
        && match stream.read(&mut answer) {
            Ok(bytes) => bytes > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
    is_open && stream.set_nonblocking(false).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_of_datagrams_gets_templates_again_once_a_minute() {
        let collector = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut sink = UdpSink::new(collector.local_addr().unwrap());
        assert_eq!(sink.prepare().unwrap(), Ready::Anew);
        assert_eq!(sink.prepare().unwrap(), Ready::GoesOn);
        sink.announced = Instant::now().checked_sub(ANNOUNCED_EVERY).unwrap();
        assert_eq!(sink.prepare().unwrap(), Ready::Announces);
        assert_eq!(sink.prepare().unwrap(), Ready::GoesOn);
    }
}
