//! Sends and receives that are not plainly one of networking: kernel TLS, which sends what it
//! was sent, and sockets that stay on the host.

use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{Result, anyhow, ensure};
use nix::sys::socket::{
    self, AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, setsockopt, sockopt,
};

use crate::calls::{Pair, RECEIVE, SEND, Scratch, SocketKind};
use crate::counting::{Acts, Comparison, repeat};
use crate::cpus;
use crate::follow::Followed;
use crate::trial::NotOnThisKernel;

/// Calls of each way to a local socket.
const CALLS: u64 = 20;

/// A kernel TLS socket sends encrypted data through the same functions again.
pub fn kernel_tls(daemon: &mut Followed) -> Result<()> {
    let (scratch, pair) = (&Scratch::new()?, &Pair::new(SocketKind::Tcp4)?);
    if let Err(error) = setsockopt(&pair.near, sockopt::TcpUlp::default(), b"tls") {
        return Err(NotOnThisKernel(format!("this kernel has no kernel TLS ({error})")).into());
    }
    let key = libc::tls12_crypto_info_aes_gcm_128 {
        info: libc::tls_crypto_info {
            version: libc::TLS_1_2_VERSION,
            cipher_type: libc::TLS_CIPHER_AES_GCM_128,
        },
        iv: [1; 8],
        key: [2; 16],
        salt: [3; 4],
        rec_seq: [0; 8],
    };
    let key = sockopt::TlsCryptoInfo::Aes128Gcm(key);
    setsockopt(&pair.near, sockopt::TcpTlsTx, &key)?;
    let mut comparison = Comparison::default();
    let mut acts = Acts::default();
    // It refuses sendmmsg. The pages of files are encrypted into others, which are sent.
    for way in SEND.iter().filter(|way| way.messages == 1) {
        acts.add(format!("{} through TLS", way.name), 1, move |calls| {
            repeat(way, &pair.near, scratch, calls)?;
            drain(pair)
        });
    }
    comparison.expect_all(daemon, "tx_syscall", &acts)?;
    comparison.finish()
}

/// Empties the far socket.
fn drain(pair: &Pair) -> Result<()> {
    use std::io::Read;
    let mut far = std::net::TcpStream::from(pair.far.try_clone()?);
    far.set_nonblocking(true)?;
    let mut data = [0; 1 << 16];
    while let Ok(1..) = far.read(&mut data) {}
    far.set_nonblocking(false)?;
    Ok(())
}

/// netto's CPU while local calls are counted: it asks the kernel for interfaces by netlink, which is
/// local as well, at times of its own.
const OWN_CPU: usize = 0;
/// The CPU of the calls that are counted.
const CPU: usize = 1;

/// UNIX and netlink sockets, by calls that are those of networking.
pub fn local(daemon: &mut Followed) -> Result<()> {
    cpus::pin_process(daemon.pid(), OWN_CPU)?;
    let scratch = Scratch::new()?;
    let mut comparison = Comparison::default();
    for kind in SocketKind::LOCAL {
        daemon.catch_up()?;
        let sent_before = daemon.entries("tx_syscall")?;
        let received_before = daemon.entries("rx_syscall")?;
        let pair = Pair::new(kind)?;
        let found = local_calls(daemon, || {
            repeat(&SEND[0], &pair.near, &scratch, CALLS)?;
            repeat(&RECEIVE[0], &pair.far, &scratch, CALLS)
        })?;
        comparison.expect(format!("{kind:?} as local"), 2 * CALLS, found);
        let as_network = daemon.entries("tx_syscall")? - sent_before
            + daemon.entries("rx_syscall")?
            - received_before;
        comparison.expect(format!("{kind:?} as networking"), 0, as_network);
    }
    let netlink = socket::socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )?;
    let found = local_calls(daemon, || {
        for _ in 0..CALLS {
            ask_nothing(&netlink)?;
        }
        Ok(())
    })?;
    comparison.expect("netlink as local".to_owned(), CALLS, found);
    comparison.finish()
}

/// Local calls made by `act`.
fn local_calls(daemon: &mut Followed, act: impl FnOnce() -> Result<()> + Send) -> Result<u64> {
    let before = daemon.entries_on("local_ipc", CPU)?;
    std::thread::scope(|scope| {
        let calls = scope.spawn(move || {
            cpus::pin_to(CPU)?;
            act()
        });
        let panicked = |_| Err(anyhow!("the thread of the calls panicked"));
        calls.join().unwrap_or_else(panicked)
    })?;
    daemon.catch_up()?;
    Ok(daemon.entries_on("local_ipc", CPU)? - before)
}

/// Sends the kernel a message that means nothing and is not answered.
fn ask_nothing(netlink: &OwnedFd) -> Result<()> {
    const LENGTH: usize = size_of::<libc::nlmsghdr>();
    let mut header = [0; LENGTH];
    header[..4].copy_from_slice(&(LENGTH as u32).to_ne_bytes());
    header[4..6].copy_from_slice(&(libc::NLMSG_NOOP as u16).to_ne_bytes());
    let sent = socket::send(netlink.as_raw_fd(), &header, MsgFlags::empty())?;
    ensure!(sent == LENGTH, "netlink took {sent} bytes");
    Ok(())
}
