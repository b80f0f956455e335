//! Loads of one process each that keep a hidden place of networking busy: the roles of
//! `root agent …` for `hidden.rs`. All of them work until their owner lets go.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener, UnixStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::calls::{self, Kind, Pair};
use crate::uring::{self, Direction, Worker};

/// Connects to itself, accepts and closes.
pub fn connect_storm() -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let to = listener.local_addr()?;
    loop {
        let near = TcpStream::connect(to)?;
        // Reset rather than closed in good order: no port is kept for a minute.
        let now = libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        let near = OwnedFd::from(near);
        calls::set_option(&near, libc::SOL_SOCKET, libc::SO_LINGER, &now)?;
        drop(listener.accept()?);
    }
}

/// The same over a UNIX socket, whose name ends with its process.
pub fn unix_connect_storm() -> Result<()> {
    let to = UnixAddress::from_abstract_name(format!("netto-test-{}", std::process::id()))?;
    let listener = UnixListener::bind_addr(&to)?;
    loop {
        let near = UnixStream::connect_addr(&to)?;
        drop(listener.accept()?);
        drop(near);
    }
}

/// Asks many sockets whether they have something, which they never do.
pub fn poll_storm() -> Result<()> {
    let sockets: Vec<UdpSocket> = (0..256)
        .map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)))
        .collect::<Result<_, _>>()?;
    let mut asked: Vec<libc::pollfd> = sockets
        .iter()
        .map(|socket| libc::pollfd {
            fd: socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    loop {
        // SAFETY: the kernel reads and writes as many entries as the vector has.
        let ready = unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as libc::nfds_t, 0) };
        ensure!(ready == 0, "somebody wrote to a socket of ours");
    }
}

/// Bytes from one thread to another over a UNIX socket.
pub fn unix_blast() -> Result<()> {
    let (mut near, mut far) = UnixStream::pair()?;
    std::thread::spawn(move || {
        let mut data = [0; 4096];
        while let Ok(1..) = far.read(&mut data) {}
    });
    loop {
        near.write_all(&[0x55; 4096])?;
    }
}

/// Small packets with pauses in between.
pub fn udp_drip(to: SocketAddr) -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    loop {
        // A closed port answers with an error on a later send: not this test's business.
        let _ = socket.send_to(&[0x55; 64], to);
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// Receives, polling the device for up to a millisecond before it sleeps.
pub fn udp_busy_sink(at: SocketAddr) -> Result<()> {
    const MICROSECONDS: i32 = 1000;
    let socket = OwnedFd::from(UdpSocket::bind(at)?);
    calls::set_option(&socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL, &MICROSECONDS)?;
    let socket = UdpSocket::from(socket);
    let mut packet = [0; 2048];
    loop {
        let _ = socket.recv(&mut packet);
    }
}

/// Small packets through io_uring, all sent by threads of the kernel.
pub fn uring_blast(worker: Worker) -> Result<()> {
    // Nobody reads the far end: what it has no room for is dropped.
    let pair = Pair::new(Kind::Udp4)?;
    uring::requests(&pair.near, Direction::Send, worker, usize::MAX)
}

/// A file in memory is read through io_uring, by threads of the kernel, after so many sends.
pub fn uring_reads(worker: Worker, sends: usize) -> Result<()> {
    let pair = Pair::new(Kind::Udp4)?;
    uring::reads_after_sends(&pair.near, worker, sends)
}

/// As many connections as asked for that say nothing, but ask each second whether the other end is still there.
pub fn keepalive(pairs: usize) -> Result<Vec<Pair>> {
    const ON: i32 = 1;
    const SECOND: i32 = 1;
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes one `rlimit`, which `limit` is.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    ensure!(result == 0, std::io::Error::last_os_error());
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the kernel reads one `rlimit`, which `limit` is.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    ensure!(result == 0, std::io::Error::last_os_error());
    let pairs: Vec<Pair> = (0..pairs)
        .map(|_| Pair::new(Kind::Tcp4))
        .collect::<Result<_>>()?;
    for end in pairs.iter().flat_map(|pair| [&pair.near, &pair.far]) {
        calls::set_option(end, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, &SECOND)?;
        calls::set_option(end, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, &SECOND)?;
        calls::set_option(end, libc::SOL_SOCKET, libc::SO_KEEPALIVE, &ON)?;
    }
    Ok(pairs)
}

/// Leaves no CPU idle.
pub fn spin() -> Result<()> {
    for _ in 1..std::thread::available_parallelism()?.get() {
        std::thread::spawn(|| {
            loop {
                std::hint::spin_loop();
            }
        });
    }
    loop {
        std::hint::spin_loop();
    }
}

/// Receives all packets of the namespace, as tcpdump does.
pub fn tap() -> Result<OwnedFd> {
    let all = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: the call takes no memory of ours.
    let socket = unsafe {
        libc::socket(
            libc::AF_PACKET,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            i32::from(all),
        )
    };
    ensure!(socket >= 0, std::io::Error::last_os_error());
    // SAFETY: the descriptor is new, and owned by nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let reader = socket.try_clone().context("cannot share the tap")?;
    std::thread::spawn(move || {
        let mut file = std::fs::File::from(reader);
        let mut packet = [0; 2048];
        while let Ok(1..) = file.read(&mut packet) {}
    });
    Ok(socket)
}
