//! Which work a network device takes from CPUs (`ethtool -k`), by the ioctl that needs no privilege.
//!
//! The kernel answers under the lock of all network configuration: call this only on a thread that may
//! block.

use std::io;
use std::mem;
use std::os::fd::AsRawFd;

use socket2::{Domain, Socket, Type};

/// A question to a device (include/uapi/linux/ethtool.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Offload {
    /// Checksums of what is sent (`ETHTOOL_GTXCSUM`).
    TxChecksums = 0x16,
    /// TCP segmentation (`ETHTOOL_GTSO`).
    Tso = 0x1e,
    /// Merging of what is received (`ETHTOOL_GGRO`).
    Gro = 0x2b,
}

/// `SIOCETHTOOL` (include/uapi/linux/sockios.h).
const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Asks devices of the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct Offloads {
    socket: Socket,
}

impl Offloads {
    /// Opens the socket by which devices are asked.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open() -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        Ok(Offloads { socket })
    }

    /// Whether a device does this; `None` if there is no such device, or it does not tell.
    pub fn of(&self, device: &str, offload: Offload) -> Option<bool> {
        let name = device.as_bytes();
        if name.len() >= libc::IFNAMSIZ || name.contains(&0) {
            return None;
        }
        let mut value = EthtoolValue {
            command: offload as u32,
            data: 0,
        };
        // SAFETY: all bytes of the structure may be zero.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        for (place, byte) in request.ifr_name.iter_mut().zip(name) {
            *place = *byte as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: the kernel reads the request, and writes one `EthtoolValue` where it points to, which
        // lives until the call returns.
        let answer = unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
        (answer == 0).then_some(value.data != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_tells_and_what_is_not_there_does_not() {
        let offloads = Offloads::open().unwrap();
        for offload in [Offload::Gro, Offload::Tso, Offload::TxChecksums] {
            assert!(offloads.of("lo", offload).is_some(), "{offload:?}");
            for wrong in ["", "no-such-device", "a-name-that-is-far-too-long", "l\0o"] {
                assert_eq!(offloads.of(wrong, offload), None, "{wrong:?}");
            }
        }
    }
}
