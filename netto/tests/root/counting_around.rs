//! Sends and receives that are not plainly one of networking: kernel TLS, which sends what it
//! was sent, and sockets that stay on the host.

use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Result, ensure};

use crate::calls::{self, Kind, Pair, RECEIVE, SEND, Scratch};
use crate::counting::{CALLS, Comparison, repeat};
use crate::follow::Followed;
use crate::trial::NotOnThisKernel;

/// `struct tls12_crypto_info_aes_gcm_128` of `linux/tls.h`.
#[repr(C)]
struct TlsKey {
    version: u16,
    cipher: u16,
    initial_vector: [u8; 8],
    key: [u8; 16],
    salt: [u8; 4],
    record: [u8; 8],
}

const SOL_TLS: i32 = 282;
const TLS_TX: i32 = 1;
const TLS_1_2: u16 = 0x0303;
const AES_GCM_128: u16 = 51;

/// A socket that encrypts what it is given sends that through the same functions once more.
pub fn kernel_tls(daemon: &mut Followed) -> Result<()> {
    let scratch = Scratch::new()?;
    let pair = Pair::new(Kind::Tcp4)?;
    if let Err(error) = calls::set_option(&pair.near, libc::SOL_TCP, libc::TCP_ULP, b"tls") {
        return Err(NotOnThisKernel(format!("this kernel has no kernel TLS ({error})")).into());
    }
    let key = TlsKey {
        version: TLS_1_2,
        cipher: AES_GCM_128,
        initial_vector: [1; 8],
        key: [2; 16],
        salt: [3; 4],
        record: [0; 8],
    };
    calls::set_option(&pair.near, SOL_TLS, TLS_TX, &key)?;
    let mut comparison = Comparison::default();
    // It refuses sendmmsg. The pages of files are encrypted into others, which are sent.
    for way in SEND.iter().filter(|way| way.messages == 1) {
        let found = daemon.entries_in("tx_syscall", || repeat(way, &pair.near, &scratch))?;
        comparison.expect(
            format!("{} through TLS", way.name),
            CALLS * way.messages,
            found,
        );
        drain(&pair)?;
    }
    comparison.finish()
}

/// Empties the far socket, whatever it holds.
fn drain(pair: &Pair) -> Result<()> {
    use std::io::Read;
    let mut far = std::net::TcpStream::from(pair.far.try_clone()?);
    far.set_nonblocking(true)?;
    let mut data = [0; 1 << 16];
    while let Ok(1..) = far.read(&mut data) {}
    far.set_nonblocking(false)?;
    Ok(())
}

/// UNIX and netlink sockets, by calls that are those of networking.
pub fn local(daemon: &mut Followed) -> Result<()> {
    let scratch = Scratch::new()?;
    let mut comparison = Comparison::default();
    for kind in Kind::LOCAL {
        daemon.catch_up()?;
        let sent_before = daemon.entries("tx_syscall")?;
        let received_before = daemon.entries("rx_syscall")?;
        let pair = Pair::new(kind)?;
        let found = daemon.entries_in("local_ipc", || {
            repeat(&SEND[0], &pair.near, &scratch)?;
            repeat(&RECEIVE[0], &pair.far, &scratch)
        })?;
        comparison.expect(format!("{kind:?} as local"), 2 * CALLS, found);
        let as_network = daemon.entries("tx_syscall")? - sent_before
            + daemon.entries("rx_syscall")?
            - received_before;
        comparison.expect(format!("{kind:?} as networking"), 0, as_network);
    }
    let netlink = netlink_socket()?;
    let found = daemon.entries_in("local_ipc", || {
        for _ in 0..CALLS {
            ask_nothing(&netlink)?;
        }
        Ok(())
    })?;
    comparison.expect("netlink as local".to_owned(), CALLS, found);
    comparison.finish()
}

fn netlink_socket() -> Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: the call takes no memory of ours.
    let socket = unsafe {
        libc::socket(
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            libc::NETLINK_ROUTE,
        )
    };
    ensure!(
        socket >= 0,
        "a netlink socket: {}",
        std::io::Error::last_os_error()
    );
    // SAFETY: the descriptor is new, and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// Sends the kernel a message that means nothing and is not answered.
fn ask_nothing(netlink: &OwnedFd) -> Result<()> {
    let header = libc::nlmsghdr {
        nlmsg_len: size_of::<libc::nlmsghdr>() as u32,
        nlmsg_type: libc::NLMSG_NOOP as u16,
        nlmsg_flags: 0,
        nlmsg_seq: 1,
        nlmsg_pid: 0,
    };
    // SAFETY: the kernel reads one header, which `header` is.
    let sent = unsafe {
        libc::send(
            netlink.as_raw_fd(),
            (&raw const header).cast(),
            size_of::<libc::nlmsghdr>(),
            0,
        )
    };
    ensure!(
        sent == size_of::<libc::nlmsghdr>() as isize,
        "netlink: {}",
        std::io::Error::last_os_error()
    );
    Ok(())
}
