//! Every system call that sends or receives, on every kind of socket: the raw
//! material of the tests that count. What goes through io_uring is in `uring`.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, PipeReader, PipeWriter, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::fcntl::{SpliceFFlags, splice};
use nix::sys::sendfile::sendfile64;
use nix::sys::socket::{self, MsgFlags, MultiHeaders};
use nix::sys::uio;
use nix::unistd;
use socket2::SockRef;

/// Bytes of one small message.
pub const SMALL: usize = 64;
/// Size of a page, which the kernel passes on whole when splicing.
pub const PAGE: usize = 4096;
/// Messages in one call of sendmmsg and recvmmsg.
const BATCH: usize = 5;

/// The kind of two connected sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketKind {
    Tcp4,
    Tcp6,
    Udp4,
    Udp6,
    UnixStream,
    UnixDatagram,
}

impl SocketKind {
    /// Kinds that are networking.
    pub const INTERNET: [SocketKind; 4] = [
        SocketKind::Tcp4,
        SocketKind::Tcp6,
        SocketKind::Udp4,
        SocketKind::Udp6,
    ];
    /// Kinds that stay on the host.
    pub const LOCAL: [SocketKind; 2] = [SocketKind::UnixStream, SocketKind::UnixDatagram];

    fn is_stream(self) -> bool {
        matches!(
            self,
            SocketKind::Tcp4 | SocketKind::Tcp6 | SocketKind::UnixStream
        )
    }
}

/// Two connected sockets of this process.
pub struct Pair {
    /// Sends.
    pub near: OwnedFd,
    /// Receives, and never waits for longer than a second.
    pub far: OwnedFd,
}

impl Pair {
    /// A new pair, on loopback where it has addresses.
    pub fn new(kind: SocketKind) -> Result<Self> {
        let v4 = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
        let (near, far): (OwnedFd, OwnedFd) = match kind {
            SocketKind::Tcp4 => tcp(v4)?,
            SocketKind::Tcp6 => tcp(v6)?,
            SocketKind::Udp4 => udp(v4)?,
            SocketKind::Udp6 => udp(v6)?,
            SocketKind::UnixStream => {
                let (near, far) = std::os::unix::net::UnixStream::pair()?;
                (near.into(), far.into())
            }
            SocketKind::UnixDatagram => {
                let (near, far) = std::os::unix::net::UnixDatagram::pair()?;
                (near.into(), far.into())
            }
        };
        SockRef::from(&far).set_read_timeout(Some(Duration::from_secs(1)))?;
        Ok(Pair { near, far })
    }
}

fn tcp(at: SocketAddr) -> Result<(OwnedFd, OwnedFd)> {
    let listener = TcpListener::bind(at)?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    near.set_nodelay(true)?;
    let (far, _) = listener.accept()?;
    Ok((near.into(), far.into()))
}

fn udp(at: SocketAddr) -> Result<(OwnedFd, OwnedFd)> {
    let (near, far) = (UdpSocket::bind(at)?, UdpSocket::bind(at)?);
    near.connect(far.local_addr()?)?;
    Ok((near.into(), far.into()))
}

/// One system call by which data is sent or received.
pub struct SystemCall {
    /// The system call.
    pub name: &'static str,
    /// Messages that one call carries.
    pub messages: u64,
    /// Bytes that it carries.
    pub bytes: usize,
    /// Whether it is for streams only.
    pub streams_only: bool,
    /// Makes one call on a socket and gives the bytes it says it carried.
    pub call: fn(&OwnedFd, &Scratch) -> nix::Result<usize>,
}

impl SystemCall {
    /// Whether it can be used on such sockets.
    pub fn fits(&self, kind: SocketKind) -> bool {
        kind.is_stream() || !self.streams_only
    }

    /// Makes one call.
    pub fn make(&self, socket: &OwnedFd, scratch: &Scratch) -> Result<()> {
        let bytes = (self.call)(socket, scratch).with_context(|| self.name.to_owned())?;
        ensure!(
            bytes == self.bytes,
            "{} carried {bytes} bytes, not {}",
            self.name,
            self.bytes
        );
        Ok(())
    }
}

const fn way(name: &'static str, call: fn(&OwnedFd, &Scratch) -> nix::Result<usize>) -> SystemCall {
    SystemCall {
        name,
        messages: 1,
        bytes: SMALL,
        streams_only: false,
        call,
    }
}

/// Every way of sending.
pub const SEND: &[SystemCall] = &[
    way("write", write),
    way("writev", writev),
    way("send", send),
    way("sendto", sendto),
    way("sendmsg", sendmsg),
    SystemCall {
        messages: BATCH as u64,
        bytes: BATCH * SMALL,
        ..way("sendmmsg", sendmmsg)
    },
    SystemCall {
        bytes: PAGE,
        streams_only: true,
        ..way("sendfile", sendfile)
    },
    SystemCall {
        bytes: PAGE,
        streams_only: true,
        ..way("splice", splice_in)
    },
];

/// Every way of receiving.
pub const RECEIVE: &[SystemCall] = &[
    way("read", read),
    way("readv", readv),
    way("recv", recv),
    way("recvfrom", recvfrom),
    way("recvmsg", recvmsg),
    SystemCall {
        messages: BATCH as u64,
        bytes: BATCH * SMALL,
        ..way("recvmmsg", recvmmsg)
    },
    SystemCall {
        streams_only: true,
        ..way("splice", splice_out)
    },
];

/// Buffers of calls.
pub struct Scratch {
    file: File,
    pipe_out: PipeReader,
    pipe_in: PipeWriter,
}

impl Scratch {
    /// A file of one page and an empty pipe.
    pub fn new() -> Result<Self> {
        let mut file = tempfile::tempfile()?;
        file.write_all(&[0x55; PAGE])?;
        let (pipe_out, pipe_in) = io::pipe()?;
        Ok(Scratch {
            file,
            pipe_out,
            pipe_in,
        })
    }
}

const DATA: [u8; SMALL] = [0x55; SMALL];
/// A closed connection is an error, and ends no process.
const QUIETLY: MsgFlags = MsgFlags::MSG_NOSIGNAL;
const PLAINLY: MsgFlags = MsgFlags::empty();

fn write(socket: &OwnedFd, _: &Scratch) -> nix::Result<usize> {
    unistd::write(socket, &DATA)
}

fn writev(socket: &OwnedFd, _: &Scratch) -> nix::Result<usize> {
    let (a, b) = DATA.split_at(SMALL / 2);
    uio::writev(socket, &[IoSlice::new(a), IoSlice::new(b)])
}

fn send(socket: &OwnedFd, _: &Scratch) -> nix::Result<usize> {
    socket::send(socket.as_raw_fd(), &DATA, QUIETLY)
}

/// The sockets are connected: `()` is no address.
fn sendto(socket: &OwnedFd, _: &Scratch) -> nix::Result<usize> {
    socket::sendto(socket.as_raw_fd(), &DATA, &(), QUIETLY)
}

fn sendmsg(socket: &OwnedFd, _: &Scratch) -> nix::Result<usize> {
    let data = [IoSlice::new(&DATA)];
    socket::sendmsg::<()>(socket.as_raw_fd(), &data, &[], QUIETLY, None)
}

fn sendmmsg(socket: &OwnedFd, _: &Scratch) -> nix::Result<usize> {
    let data = [[IoSlice::new(&DATA)]; BATCH];
    let mut messages = MultiHeaders::<()>::preallocate(BATCH, None);
    let (socket, to) = (socket.as_raw_fd(), [None; BATCH]);
    let sent = socket::sendmmsg(socket, &mut messages, &data, to, [], QUIETLY)?;
    Ok(sent.map(|message| message.bytes).sum())
}

fn sendfile(socket: &OwnedFd, scratch: &Scratch) -> nix::Result<usize> {
    sendfile64(socket, &scratch.file, Some(&mut 0), PAGE)
}

/// From a page in a pipe to the socket.
fn splice_in(socket: &OwnedFd, scratch: &Scratch) -> nix::Result<usize> {
    unistd::write(&scratch.pipe_in, &[0x55; PAGE])?;
    let plainly = SpliceFFlags::empty();
    splice(&scratch.pipe_out, None, socket, None, PAGE, plainly)
}

fn read(socket: &OwnedFd, _: &Scratch) -> nix::Result<usize> {
    unistd::read(socket, &mut [0; SMALL])
}

fn readv(socket: &OwnedFd, _: &Scratch) -> nix::Result<usize> {
    let mut data = [0; SMALL];
    let (a, b) = data.split_at_mut(SMALL / 2);
    uio::readv(socket, &mut [IoSliceMut::new(a), IoSliceMut::new(b)])
}

fn recv(socket: &OwnedFd, _: &Scratch) -> nix::Result<usize> {
    socket::recv(socket.as_raw_fd(), &mut [0; SMALL], PLAINLY)
}

fn recvfrom(socket: &OwnedFd, _: &Scratch) -> nix::Result<usize> {
    let received = socket::recvfrom::<()>(socket.as_raw_fd(), &mut [0; SMALL])?;
    Ok(received.0)
}

fn recvmsg(socket: &OwnedFd, _: &Scratch) -> nix::Result<usize> {
    let mut data = [0; SMALL];
    let mut data = [IoSliceMut::new(&mut data)];
    let received = socket::recvmsg::<()>(socket.as_raw_fd(), &mut data, None, PLAINLY)?;
    Ok(received.bytes)
}

fn recvmmsg(socket: &OwnedFd, _: &Scratch) -> nix::Result<usize> {
    let mut data = [[0; SMALL]; BATCH];
    let mut data = data.each_mut().map(|part| [IoSliceMut::new(part)]);
    let mut messages = MultiHeaders::<()>::preallocate(BATCH, None);
    let socket = socket.as_raw_fd();
    let received = socket::recvmmsg(socket, &mut messages, &mut data, PLAINLY, None)?;
    Ok(received.map(|message| message.bytes).sum())
}

/// From the socket into a pipe, which is emptied again.
fn splice_out(socket: &OwnedFd, scratch: &Scratch) -> nix::Result<usize> {
    let plainly = SpliceFFlags::empty();
    splice(socket, None, &scratch.pipe_in, None, SMALL, plainly)?;
    unistd::read(&scratch.pipe_out, &mut [0; SMALL])
}
