//! What the kernel says of an interface in this network namespace, and which namespace this is.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;

use anyhow::{Context as _, ensure};

/// An interface with Ethernet's frames.
#[derive(Debug, Clone)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: i32,
    /// Its own hardware address.
    pub address: [u8; 6],
    /// Bytes of a packet at most, without Ethernet's header.
    pub mtu: u32,
    /// Whether it is up.
    pub is_up: bool,
}

impl Interface {
    /// The interface of this name.
    ///
    /// # Errors
    /// There is none in this network namespace, or it has no Ethernet.
    pub fn named(name: &str) -> anyhow::Result<Self> {
        let socket = super::socket::open()?;
        let ask = |request: libc::c_ulong, what: &str| {
            ask(&socket, name, request).with_context(|| {
                format!("cannot tell the {what} of the interface {name}; see `ip link`")
            })
        };
        let index = ask(libc::SIOCGIFINDEX as libc::c_ulong, "number")?;
        let mtu = ask(libc::SIOCGIFMTU as libc::c_ulong, "MTU")?;
        let flags = ask(libc::SIOCGIFFLAGS as libc::c_ulong, "state")?;
        let address = ask(libc::SIOCGIFHWADDR as libc::c_ulong, "address")?;
        // SAFETY: the kernel has filled the member that belongs to each request; all of them are
        // plain numbers, for which any bits are valid.
        let (index, mtu, flags, address) = unsafe {
            (
                index.ifr_ifru.ifru_ifindex,
                mtu.ifr_ifru.ifru_mtu,
                flags.ifr_ifru.ifru_flags,
                address.ifr_ifru.ifru_hwaddr,
            )
        };
        ensure!(
            address.sa_family == libc::ARPHRD_ETHER,
            "{name} has no Ethernet frames: packets can be sent to Ethernet interfaces only"
        );
        let [a, b, c, d, e, f, ..] = address.sa_data.map(|byte| byte as u8);
        Ok(Interface {
            name: name.to_owned(),
            index,
            address: [a, b, c, d, e, f],
            mtu: u32::try_from(mtu).unwrap_or_default(),
            is_up: libc::c_int::from(flags) & libc::IFF_UP != 0,
        })
    }
}

fn ask(socket: &OwnedFd, name: &str, request: libc::c_ulong) -> io::Result<libc::ifreq> {
    // SAFETY: all zeros is a valid request.
    let mut question: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    if name.len() >= question.ifr_name.len() || name.contains('\0') {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (into, byte) in question.ifr_name.iter_mut().zip(name.bytes()) {
        *into = byte as libc::c_char;
    }
    // SAFETY: these requests read the name and write into the union of the structure, which is
    // valid during the call.
    let failed = unsafe { libc::ioctl(socket.as_raw_fd(), request as _, &raw mut question) };
    match failed {
        0 => Ok(question),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether this is the network namespace of the host, or that cannot be told: that of the first
/// process, or, where that one may not be looked at, of the kernel's own threads.
pub fn is_initial_namespace() -> bool {
    let identity = |path: &str| std::fs::metadata(path).map(|file| (file.dev(), file.ino()));
    let Ok(current) = identity("/proc/self/ns/net") else {
        return true;
    };
    if let Ok(first) = identity("/proc/1/ns/net") {
        return current == first;
    }
    let is_kernel =
        std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd");
    match identity("/proc/2/ns/net") {
        Ok(second) if is_kernel => current == second,
        _ => true,
    }
}
