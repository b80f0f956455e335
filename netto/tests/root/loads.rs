//! Loads of one process each that keep a hidden place of networking busy: the roles of
//! `root agent …` for `hidden.rs`. All of them work until their owner lets go.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::sendfile::sendfile64;
use nix::sys::socket::{MsgFlags, recv, send, setsockopt, sockopt};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

use crate::calls::{Pair, SocketKind};
use crate::uring::{self, Worker};

/// Connects to itself, accepts and closes.
pub fn connect_storm() -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let to = listener.local_addr()?;
    loop {
        let near = TcpStream::connect(to)?;
        // Reset rather than closed in good order: no port is kept for a minute.
        SockRef::from(&near).set_linger(Some(Duration::ZERO))?;
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
    let mut asked: Vec<PollFd> = sockets
        .iter()
        .map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN))
        .collect();
    loop {
        let ready = poll(&mut asked, PollTimeout::ZERO)?;
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

/// Waits at a UNIX socket of this name, which ends with its process.
pub fn unix_listener(name: &str) -> Result<UnixListener> {
    let at = UnixAddress::from_abstract_name(name)?;
    Ok(UnixListener::bind_addr(&at)?)
}

/// Answers each byte of whoever connects first.
pub fn unix_pong(listener: &UnixListener) -> Result<()> {
    let (mut far, _) = listener.accept()?;
    let mut data = [0];
    loop {
        far.read_exact(&mut data)?;
        far.write_all(&data)?;
    }
}

/// Sends a byte over a UNIX socket, and the next when it is answered.
pub fn unix_ping(name: &str) -> Result<()> {
    let mut near = UnixStream::connect_addr(&UnixAddress::from_abstract_name(name)?)?;
    let mut data = [0x55];
    loop {
        near.write_all(&data)?;
        near.read_exact(&mut data)?;
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

/// Small packets at this rate per second; 0: as fast as possible.
pub fn udp_paced(to: SocketAddr, per_second: u64, bytes: usize) -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(to)?;
    let packet = vec![0x55; bytes];
    // A closed port answers with an error on a later send: not this test's business.
    paced(per_second, || {
        let _ = socket.send(&packet);
        Ok(())
    })
}

/// Small packets at this rate per second, each to another of many ports and so of another flow.
pub fn udp_paced_flows(to: IpAddr, per_second: u64) -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let mut ports = (1024..=u16::MAX).cycle();
    paced(per_second, || {
        let _ = socket.send_to(&[0x55; 64], (to, ports.next().unwrap_or(1024)));
        Ok(())
    })
}

/// Writes of so many bytes over one connection, at this rate per second; 0: as fast as possible.
pub fn tcp_writes(to: SocketAddr, bytes: usize, per_second: u64) -> Result<()> {
    let mut stream = TcpStream::connect(to)?;
    let data = vec![0x55; bytes];
    paced(per_second, || Ok(stream.write_all(&data)?))
}

/// The same of a file's bytes, which nobody copies.
pub fn tcp_files(to: SocketAddr, bytes: usize, per_second: u64) -> Result<()> {
    let stream = TcpStream::connect(to)?;
    let mut file = tempfile::tempfile()?;
    file.write_all(&vec![0x55; bytes])?;
    paced(per_second, || {
        let (mut at, end) = (0, i64::try_from(bytes)?);
        while at < end {
            let left = usize::try_from(end - at)?;
            sendfile64(&stream, &file, Some(&mut at), left)?;
        }
        Ok(())
    })
}

/// Takes what comes over one connection without copying it (`tcp_recvmsg_locked`'s MSG_TRUNC).
pub fn tcp_discards(listener: &TcpListener) -> Result<()> {
    let (stream, _) = listener.accept()?;
    let mut unused = vec![0; 128 << 10];
    while recv(stream.as_raw_fd(), &mut unused, MsgFlags::MSG_TRUNC)? > 0 {}
    Ok(())
}

/// Writes at this rate per second, each over the next of many connections.
pub fn tcp_many(to: SocketAddr, connections: usize, bytes: usize, per_second: u64) -> Result<()> {
    let mut streams = Vec::new();
    for _ in 0..connections {
        let stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    let (data, mut next) = (vec![0x55; bytes], 0);
    paced(per_second, || {
        next = (next + 1) % streams.len();
        Ok(streams[next].write_all(&data)?)
    })
}

/// Forty packets at this rate per second: each with the end of a message, or of one together.
pub fn tcp_records(to: SocketAddr, per_second: u64, are_apart: bool) -> Result<()> {
    const BYTES: usize = 1_400;
    const PACKETS: usize = 40;
    let stream = TcpStream::connect(to)?;
    stream.set_nodelay(true)?;
    let more = MsgFlags::from_bits_retain(libc::MSG_MORE);
    paced(per_second, || {
        for number in 1..=PACKETS {
            let flags = match (are_apart, number == PACKETS) {
                (true, _) => MsgFlags::MSG_EOR,
                (false, true) => MsgFlags::empty(),
                (false, false) => more,
            };
            let mut sent = 0;
            while sent < BYTES {
                sent += send(stream.as_raw_fd(), &[0x55; BYTES][sent..], flags)?;
            }
        }
        Ok(())
    })
}

/// Reads from each connection that comes.
pub fn tcp_sinks(listener: &TcpListener) -> Result<()> {
    loop {
        let (mut stream, _) = listener.accept()?;
        std::thread::spawn(move || {
            let mut data = [0; 16 << 10];
            while let Ok(1..) = stream.read(&mut data) {}
        });
    }
}

/// The same with so many bytes of room, and a pause after each read.
pub fn tcp_late_sinks(listener: &TcpListener, room: usize, pause: Duration) -> Result<()> {
    // What comes over it inherits that.
    SockRef::from(listener).set_recv_buffer_size(room)?;
    loop {
        let (mut stream, _) = listener.accept()?;
        std::thread::spawn(move || {
            let mut data = [0; 16 << 10];
            while let Ok(1..) = stream.read(&mut data) {
                std::thread::sleep(pause);
            }
        });
    }
}

/// Sends over many connections, over each at this rate, in bytes per second: which the socket is asked
/// to keep, or which the sender keeps by pauses.
pub fn tcp_streams(to: SocketAddr, connections: usize, rate: u64, is_asked: bool) -> Result<()> {
    const AT_ONCE: u64 = 64 << 10;
    let mut senders = Vec::new();
    for _ in 0..connections {
        let mut stream = TcpStream::connect(to)?;
        // BBR, the default of some kernels, paces unasked.
        setsockopt(&stream, sockopt::TcpCongestion, &OsString::from("reno"))?;
        if is_asked {
            // SAFETY: the kernel only reads, as many bytes as the number has, which lives.
            let result = unsafe {
                libc::setsockopt(
                    stream.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_MAX_PACING_RATE,
                    (&raw const rate).cast(),
                    size_of_val(&rate) as u32,
                )
            };
            Errno::result(result)?;
        }
        let per_second = if is_asked { 0 } else { rate / AT_ONCE };
        senders.push(std::thread::spawn(move || {
            paced(per_second, || {
                Ok(stream.write_all(&[0x55; AT_ONCE as usize])?)
            })
        }));
    }
    for sender in senders {
        sender
            .join()
            .map_err(|_| anyhow::anyhow!("a sender panicked"))??;
    }
    Ok(())
}

/// Small packets, so many at once, and a pause.
pub fn udp_bursts(to: SocketAddr, count: u64, pause: Duration) -> Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // Else no more would wait than the socket has room for.
    setsockopt(&socket, sockopt::SndBufForce, &(64 << 20))?;
    socket.connect(to)?;
    loop {
        for _ in 0..count {
            let _ = socket.send(&[0x55; 64]);
        }
        std::thread::sleep(pause);
    }
}

/// Receives without ever sleeping.
pub fn udp_spin_sink(socket: &UdpSocket) -> Result<()> {
    socket.set_nonblocking(true)?;
    let mut packet = [0; 2048];
    loop {
        let _ = socket.recv(&mut packet);
    }
}

/// Reads datagrams, and works so long on each; has room for what comes while others have its CPU.
pub fn udp_works(socket: &UdpSocket, work: Duration) -> Result<()> {
    setsockopt(socket, sockopt::RcvBufForce, &(8 << 20))?;
    let mut packet = [0; 2048];
    loop {
        socket.recv(&mut packet)?;
        let begin = Instant::now();
        while begin.elapsed() < work {
            std::hint::spin_loop();
        }
    }
}

/// Is told of datagrams, and works so long before it reads them: a reader that has begun to read waits
/// for the softirq of its CPU.
pub fn udp_works_first(socket: &UdpSocket, work: Duration) -> Result<()> {
    socket.set_nonblocking(true)?;
    let mut packet = [0; 2048];
    loop {
        poll(
            &mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)],
            PollTimeout::NONE,
        )?;
        let begin = Instant::now();
        while begin.elapsed() < work {
            std::hint::spin_loop();
        }
        while socket.recv(&mut packet).is_ok() {}
    }
}

/// Bytes of each of `tcp_ticks`' segments.
const TICK_BYTES: usize = 300;

/// Reads a segment of `tcp_ticks`' at a time.
pub fn tcp_reads(listener: &TcpListener) -> Result<()> {
    let (mut stream, _) = listener.accept()?;
    let mut segment = [0; TICK_BYTES];
    loop {
        stream.read_exact(&mut segment)?;
    }
}

/// Sends a segment at a time.
pub fn tcp_ticks(to: SocketAddr, per_second: u64) -> Result<()> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_nodelay(true)?;
    let pause = Duration::from_secs(1) / u32::try_from(per_second)?;
    loop {
        stream.write_all(&[0x55; TICK_BYTES])?;
        std::thread::sleep(pause);
    }
}

/// Receives on a port that it shares with others, and says now and then how many packets it got.
pub fn udp_shared_sink(at: SocketAddr) -> Result<()> {
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(true)?;
    socket.bind(&at.into())?;
    let socket = UdpSocket::from(socket);
    let (mut packet, mut received) = ([0; 2048], 0_u64);
    loop {
        if socket.recv(&mut packet).is_ok() {
            received += 1;
            if received.is_multiple_of(100) {
                println!("{received}");
            }
        }
    }
}

/// Segments of one connection at this rate per second.
pub fn tcp_paced(to: SocketAddr, per_second: u64) -> Result<()> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_nodelay(true)?;
    paced(per_second, || Ok(stream.write_all(&[0x55; 1024])?))
}

/// Does something so many times a second; as often as it can if that is 0. In bursts at moments
/// of no fixed distance, so that no sampler keeps in step with them.
pub fn paced(per_second: u64, mut act: impl FnMut() -> Result<()>) -> Result<()> {
    if per_second == 0 {
        loop {
            act()?;
        }
    }
    let mean_ns = (1_000_000_000 / per_second).max(1_000_000);
    let (begun, mut done, mut random) = (Instant::now(), 0_u128, 0x9e37_79b9_7f4a_7c15_u64);
    loop {
        let due = begun.elapsed().as_nanos() * u128::from(per_second) / 1_000_000_000;
        while done < due {
            act()?;
            done += 1;
        }
        // Marsaglia's xorshift.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let pause_ns = mean_ns / 2 + random % mean_ns;
        std::thread::sleep(Duration::from_nanos(pause_ns));
    }
}

/// Receives, polling the device for up to a millisecond before it sleeps.
pub fn udp_busy_sink(at: SocketAddr) -> Result<()> {
    let microseconds: i32 = 1000;
    let socket = UdpSocket::bind(at)?;
    // SAFETY: the kernel only reads, as many bytes as the number has, which lives.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BUSY_POLL,
            (&raw const microseconds).cast(),
            size_of_val(&microseconds) as u32,
        )
    };
    Errno::result(result)?;
    let mut packet = [0; 2048];
    loop {
        let _ = socket.recv(&mut packet);
    }
}

/// Small packets through io_uring, all sent by threads of the kernel.
pub fn uring_blast(worker: Worker) -> Result<()> {
    // The far end is not read: packets without room are dropped.
    let pair = Pair::new(SocketKind::Udp4)?;
    uring::send_for_ever(&pair.near, worker)
}

/// A file in memory is read through io_uring, by threads of the kernel, after so many sends.
pub fn uring_reads(worker: Worker, sends: usize) -> Result<()> {
    let pair = Pair::new(SocketKind::Udp4)?;
    uring::reads_after_sends(&pair.near, worker, sends)
}

/// This many idle connections that check each second whether the other end is alive.
pub fn keepalive(pairs: usize) -> Result<Vec<Pair>> {
    let (_, most) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE)?;
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, most, most)?;
    let pairs: Vec<Pair> = (0..pairs)
        .map(|_| Pair::new(SocketKind::Tcp4))
        .collect::<Result<_>>()?;
    let second = Duration::from_secs(1);
    let each_second = TcpKeepalive::new().with_time(second).with_interval(second);
    for end in pairs.iter().flat_map(|pair| [&pair.near, &pair.far]) {
        SockRef::from(end).set_tcp_keepalive(&each_second)?;
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
    let all = Protocol::from(i32::from((libc::ETH_P_ALL as u16).to_be()));
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(all))?;
    let mut reader = socket.try_clone().context("cannot share the tap")?;
    std::thread::spawn(move || {
        let mut packet = [0; 2048];
        while let Ok(1..) = reader.read(&mut packet) {}
    });
    Ok(socket.into())
}
