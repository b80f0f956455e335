//! Every system call that sends or receives, on every kind of socket: the raw
//! material of the tests that count. What goes through io_uring is in `uring`.

use std::io::{self, Read, Write};
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use anyhow::{Context, Result, ensure};

/// Bytes of one small message.
pub const SMALL: usize = 64;
/// Bytes of a page: what the kernel passes on whole when it splices.
pub const PAGE: usize = 4096;
/// Messages in one call of sendmmsg and recvmmsg.
const BATCH: usize = 5;

/// What two connected sockets are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Tcp4,
    Tcp6,
    Udp4,
    Udp6,
    UnixStream,
    UnixDatagram,
}

impl Kind {
    /// Those that are networking.
    pub const INTERNET: [Kind; 4] = [Kind::Tcp4, Kind::Tcp6, Kind::Udp4, Kind::Udp6];
    /// Those that stay on the host.
    pub const LOCAL: [Kind; 2] = [Kind::UnixStream, Kind::UnixDatagram];

    fn is_stream(self) -> bool {
        matches!(self, Kind::Tcp4 | Kind::Tcp6 | Kind::UnixStream)
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
    pub fn new(kind: Kind) -> Result<Self> {
        let v4 = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
        let (near, far): (OwnedFd, OwnedFd) = match kind {
            Kind::Tcp4 => tcp(v4)?,
            Kind::Tcp6 => tcp(v6)?,
            Kind::Udp4 => udp(v4)?,
            Kind::Udp6 => udp(v6)?,
            Kind::UnixStream => {
                let (near, far) = std::os::unix::net::UnixStream::pair()?;
                (near.into(), far.into())
            }
            Kind::UnixDatagram => {
                let (near, far) = std::os::unix::net::UnixDatagram::pair()?;
                (near.into(), far.into())
            }
        };
        let limit = libc::timeval {
            tv_sec: 1,
            tv_usec: 0,
        };
        set_option(&far, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &limit)?;
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

/// Sets a socket option to a value of the kernel's own type.
pub fn set_option<T>(socket: &OwnedFd, level: i32, name: i32, value: &T) -> Result<()> {
    // SAFETY: the pointer and the length are those of `value`, which the kernel only reads.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as u32,
        )
    };
    ensure!(
        result == 0,
        "setsockopt {level} {name}: {}",
        io::Error::last_os_error()
    );
    Ok(())
}

/// One system call by which data is sent or received.
pub struct Way {
    /// The system call.
    pub name: &'static str,
    /// Messages that one call carries.
    pub messages: u64,
    /// Bytes that it carries.
    pub bytes: usize,
    /// Whether it is for streams only.
    pub streams_only: bool,
    /// Makes one call on a socket and gives the bytes it says it carried.
    pub call: fn(RawFd, &Scratch) -> Result<usize>,
}

impl Way {
    /// Whether it can be used on such sockets.
    pub fn fits(&self, kind: Kind) -> bool {
        kind.is_stream() || !self.streams_only
    }

    /// Makes one call.
    pub fn make(&self, socket: RawFd, scratch: &Scratch) -> Result<()> {
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

const fn way(name: &'static str, call: fn(RawFd, &Scratch) -> Result<usize>) -> Way {
    Way {
        name,
        messages: 1,
        bytes: SMALL,
        streams_only: false,
        call,
    }
}

/// Every way of sending.
pub const SEND: &[Way] = &[
    way("write", write),
    way("writev", writev),
    way("send", send),
    way("sendto", sendto),
    way("sendmsg", sendmsg),
    Way {
        messages: BATCH as u64,
        bytes: BATCH * SMALL,
        ..way("sendmmsg", sendmmsg)
    },
    Way {
        bytes: PAGE,
        streams_only: true,
        ..way("sendfile", sendfile)
    },
    Way {
        bytes: PAGE,
        streams_only: true,
        ..way("splice", splice_in)
    },
];

/// Every way of receiving.
pub const RECEIVE: &[Way] = &[
    way("read", read),
    way("readv", readv),
    way("recv", recv),
    way("recvfrom", recvfrom),
    way("recvmsg", recvmsg),
    Way {
        messages: BATCH as u64,
        bytes: BATCH * SMALL,
        ..way("recvmmsg", recvmmsg)
    },
    Way {
        streams_only: true,
        ..way("splice", splice_out)
    },
];

/// What calls need beside the socket.
pub struct Scratch {
    file: std::fs::File,
    pipe_out: std::fs::File,
    pipe_in: std::fs::File,
}

impl Scratch {
    /// A file of one page and an empty pipe.
    pub fn new() -> Result<Self> {
        let mut file = tempfile::tempfile()?;
        file.write_all(&[0x55; PAGE])?;
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two descriptors into the array, or fails.
        let result = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
        ensure!(result == 0, "pipe2: {}", io::Error::last_os_error());
        // SAFETY: the two descriptors are new, and owned by nobody else.
        let [pipe_out, pipe_in] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) }.into());
        Ok(Scratch {
            file,
            pipe_out,
            pipe_in,
        })
    }
}

fn counted(result: isize) -> Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error().into())
}

const DATA: [u8; SMALL] = [0x55; SMALL];

fn write(socket: RawFd, _: &Scratch) -> Result<usize> {
    // SAFETY: the kernel reads as many bytes as the array has.
    counted(unsafe { libc::write(socket, DATA.as_ptr().cast(), SMALL) })
}

fn writev(socket: RawFd, _: &Scratch) -> Result<usize> {
    let halves = [io_vector(&DATA[..SMALL / 2]), io_vector(&DATA[SMALL / 2..])];
    // SAFETY: both parts lie within DATA, which the kernel only reads.
    counted(unsafe { libc::writev(socket, halves.as_ptr(), 2) })
}

fn send(socket: RawFd, _: &Scratch) -> Result<usize> {
    // SAFETY: the kernel reads as many bytes as the array has.
    counted(unsafe { libc::send(socket, DATA.as_ptr().cast(), SMALL, libc::MSG_NOSIGNAL) })
}

fn sendto(socket: RawFd, _: &Scratch) -> Result<usize> {
    // SAFETY: the sockets are connected: no address is given, none is read.
    counted(unsafe {
        libc::sendto(
            socket,
            DATA.as_ptr().cast(),
            SMALL,
            libc::MSG_NOSIGNAL,
            std::ptr::null(),
            0,
        )
    })
}

fn sendmsg(socket: RawFd, _: &Scratch) -> Result<usize> {
    let mut vector = io_vector(&DATA);
    let message = message(&mut vector);
    // SAFETY: the message points to one vector, that to DATA; both live and are only read.
    counted(unsafe { libc::sendmsg(socket, &raw const message, libc::MSG_NOSIGNAL) })
}

fn sendmmsg(socket: RawFd, _: &Scratch) -> Result<usize> {
    let mut vectors = [io_vector(&DATA); BATCH];
    let mut messages = batch(&mut vectors);
    // SAFETY: every message points to a vector of its own, each to DATA, which is only read.
    let sent = counted(unsafe {
        libc::sendmmsg(
            socket,
            messages.as_mut_ptr(),
            BATCH as u32,
            libc::MSG_NOSIGNAL,
        )
    } as isize)?;
    Ok(total_of(&messages[..sent]))
}

fn sendfile(socket: RawFd, scratch: &Scratch) -> Result<usize> {
    let mut offset = 0;
    // SAFETY: the kernel reads and writes `offset`, and no other memory of ours.
    counted(unsafe { libc::sendfile(socket, scratch.file.as_raw_fd(), &raw mut offset, PAGE) })
}

/// From a page in a pipe to the socket.
fn splice_in(socket: RawFd, scratch: &Scratch) -> Result<usize> {
    (&scratch.pipe_in).write_all(&[0x55; PAGE])?;
    splice(scratch.pipe_out.as_raw_fd(), socket, PAGE)
}

fn read(socket: RawFd, _: &Scratch) -> Result<usize> {
    let mut data = [0_u8; SMALL];
    // SAFETY: the kernel writes no more bytes than the array has.
    counted(unsafe { libc::read(socket, data.as_mut_ptr().cast(), SMALL) })
}

fn readv(socket: RawFd, _: &Scratch) -> Result<usize> {
    let mut data = [0_u8; SMALL];
    let (a, b) = data.split_at_mut(SMALL / 2);
    let halves = [io_vector_mut(a), io_vector_mut(b)];
    // SAFETY: both parts lie within `data`, which is ours alone.
    counted(unsafe { libc::readv(socket, halves.as_ptr(), 2) })
}

fn recv(socket: RawFd, _: &Scratch) -> Result<usize> {
    let mut data = [0_u8; SMALL];
    // SAFETY: the kernel writes no more bytes than the array has.
    counted(unsafe { libc::recv(socket, data.as_mut_ptr().cast(), SMALL, 0) })
}

fn recvfrom(socket: RawFd, _: &Scratch) -> Result<usize> {
    let mut data = [0_u8; SMALL];
    // SAFETY: the kernel writes no more bytes than the array has, and no address.
    counted(unsafe {
        libc::recvfrom(
            socket,
            data.as_mut_ptr().cast(),
            SMALL,
            0,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    })
}

fn recvmsg(socket: RawFd, _: &Scratch) -> Result<usize> {
    let mut data = [0_u8; SMALL];
    let mut vector = io_vector_mut(&mut data);
    let mut message = message(&mut vector);
    // SAFETY: the message points to one vector, that to `data`; both are ours and live.
    counted(unsafe { libc::recvmsg(socket, &raw mut message, 0) })
}

fn recvmmsg(socket: RawFd, _: &Scratch) -> Result<usize> {
    let mut data = [[0_u8; SMALL]; BATCH];
    let mut vectors = data.each_mut().map(|part| io_vector_mut(part));
    let mut messages = batch(&mut vectors);
    // SAFETY: every message points to a vector and a buffer of its own; all live.
    let received = counted(unsafe {
        libc::recvmmsg(
            socket,
            messages.as_mut_ptr(),
            BATCH as u32,
            0,
            std::ptr::null_mut(),
        )
    } as isize)?;
    Ok(total_of(&messages[..received]))
}

/// From the socket into a pipe, which is emptied again.
fn splice_out(socket: RawFd, scratch: &Scratch) -> Result<usize> {
    let bytes = splice(socket, scratch.pipe_in.as_raw_fd(), SMALL)?;
    (&scratch.pipe_out).read_exact(&mut vec![0; bytes])?;
    Ok(bytes)
}

fn splice(from: RawFd, to: RawFd, bytes: usize) -> Result<usize> {
    // SAFETY: no offsets are given; the kernel touches no memory of ours.
    counted(unsafe {
        libc::splice(
            from,
            std::ptr::null_mut(),
            to,
            std::ptr::null_mut(),
            bytes,
            0,
        )
    })
}

/// A vector over bytes that a call only reads.
fn io_vector(bytes: &[u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}

/// A vector over bytes that a call writes.
fn io_vector_mut(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    }
}

fn message(vector: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: zero is a valid value of every field: no address, no control data.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = vector;
    message.msg_iovlen = 1;
    message
}

fn batch(vectors: &mut [libc::iovec; BATCH]) -> [libc::mmsghdr; BATCH] {
    vectors.each_mut().map(|vector| libc::mmsghdr {
        msg_hdr: message(vector),
        msg_len: 0,
    })
}

fn total_of(messages: &[libc::mmsghdr]) -> usize {
    messages
        .iter()
        .map(|message| message.msg_len as usize)
        .sum()
}
