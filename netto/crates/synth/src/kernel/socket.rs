//! A packet socket that only sends, to one interface.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use anyhow::Context as _;

/// Bytes of packets that the kernel has taken and not yet handed on.
const QUEUED_BYTES: libc::c_int = 16 << 20;

/// Opens one that receives nothing, and that sends without a queueing discipline.
///
/// # Errors
/// The kernel refuses.
pub fn open() -> anyhow::Result<OwnedFd> {
    // SAFETY: the call takes numbers only. Protocol 0 receives nothing.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error())
            .context("cannot open a packet socket to send with: it takes CAP_NET_RAW");
    }
    // SAFETY: the descriptor is open, and nobody else has it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    set(&fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1)
        .context("cannot send past the queueing discipline")?;
    // Without CAP_NET_ADMIN the usual bound holds, and the kernel takes fewer packets at once.
    let _ = set(&fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &QUEUED_BYTES);
    Ok(fd)
}

/// Sets an option.
pub fn set<T: Copy>(
    fd: &OwnedFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is valid for its length during the call.
    let failed = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw const *value).cast(),
            length,
        )
    };
    match failed {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes the interface the one to which it sends.
///
/// # Errors
/// The kernel refuses.
pub fn bind(fd: &OwnedFd, interface: i32) -> io::Result<()> {
    // SAFETY: all zeros is a valid address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = interface;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address is valid for its length during the call.
    let failed = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
    match failed {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the kernel only has no room at the moment.
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOBUFS | libc::EAGAIN | libc::EINTR)
    )
}

/// Sends what is in the ring, as far as there is room. Returns when all of it is with the device.
///
/// # Errors
/// The kernel refuses a frame, or has no room, see [`is_full`].
pub fn send_ring(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: nothing is sent but what is in the ring, so that there is no buffer.
    let sent = unsafe { libc::send(fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT) };
    match sent {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
