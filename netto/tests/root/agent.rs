//! The test binary's other half: run inside a namespace, it sends, receives or attaches.
//!
//! An agent says `ready`, works until its standard input is closed, and ends by
//! itself after [`LONGEST`] in any case.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::uring::Worker;
use crate::{
    anomalies, bpf, burn, child, churn, copies, cpus, delay, disk_loads, flow_cpu, flow_table,
    latency_depth, latency_talk, loads, messages, stall, store, tap_echo, uring,
};

/// No agent outlives this. A part of the benchmarks takes a quarter of an hour, and what ends before it is over
/// is taken for a change of the load.
const LONGEST: Duration = Duration::from_secs(3600);
/// Bytes of a small packet.
const SMALL_BYTES: usize = 64;

/// Runs the role that the words name.
pub fn main(words: &[String]) -> ExitCode {
    match role(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("agent {}: {error:#}", words.join(" "));
            ExitCode::FAILURE
        }
    }
}

/// Takes all that its CPU has for it.
fn spin_one() -> Result<()> {
    loop {
        std::hint::spin_loop();
    }
}

fn role(words: &[String]) -> Result<()> {
    std::thread::spawn(|| {
        std::thread::sleep(LONGEST);
        std::process::exit(0);
    });
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let ["on", cpu, ..] = words[..] {
        cpus::pin_to(cpu.parse()?)?;
        words.drain(..2);
    }
    if let ["modestly", ..] = words[..] {
        cpus::be_modest()?;
        words.drain(..1);
    }
    if let ["urgently", ..] = words[..] {
        cpus::be_urgent()?;
        words.drain(..1);
    }
    match words[..] {
        ["udp-blast", to] => udp_blast(to.parse()?),
        ["udp-flows", to] => udp_flows(to.parse()?),
        ["udp-count", to, count] => udp_count(to.parse()?, count.parse()?),
        ["udp-large", to] => {
            let to = to.parse()?;
            go_on(|| flow_cpu::send_large(to))
        }
        ["udp-sink", at] => udp_sink(at.parse()?),
        ["udp-connected-sink", at] => {
            let socket = UdpSocket::bind(at)?;
            go_on(|| {
                let (_, from) = socket.recv_from(&mut [0; 2048])?;
                socket.connect(from)?;
                udp_reads(&socket)
            })
        }
        ["udp-dear-sink", at] => {
            let socket = flow_cpu::dear_sink(at.parse()?)?;
            go_on(|| udp_reads(&socket))
        }
        ["udp-works", at, work_ns] => {
            let (socket, work_ns) = (UdpSocket::bind(at)?, work_ns.parse()?);
            go_on(|| loads::udp_works(&socket, Duration::from_nanos(work_ns)))
        }
        ["udp-works-first", at, work_ns] => {
            let (socket, work_ns) = (UdpSocket::bind(at)?, work_ns.parse()?);
            go_on(|| loads::udp_works_first(&socket, Duration::from_nanos(work_ns)))
        }
        ["udp-spin-sink", at] => {
            let socket = UdpSocket::bind(at)?;
            go_on(|| loads::udp_spin_sink(&socket))
        }
        ["tcp-reads", at] => {
            let listener = TcpListener::bind(at)?;
            go_on(|| loads::tcp_reads(&listener))
        }
        ["tcp-ticks", to, per_second] => {
            let (to, per_second) = (to.parse()?, per_second.parse()?);
            go_on(|| loads::tcp_ticks(to, per_second))
        }
        ["udp-shared-sink", at] => go_on(|| loads::udp_shared_sink(at.parse()?)),
        ["listen", at] => hold(TcpListener::bind(at)?),
        ["connect-again", to] => {
            let to = to.parse()?;
            go_on(|| anomalies::connect_again(to))
        }
        ["tcp-blast", to] => tcp_blast(to.parse()?),
        ["tcp-sink", at] => tcp_sink(at.parse()?),
        ["udp-copy", to, count, at_once] => {
            let spent_ns = copies::send(to.parse()?, count.parse()?, at_once.parse()?)?;
            println!("{spent_ns}");
            Ok(())
        }
        ["udp-take", count, at_once] => {
            let spent_ns = copies::receive(count.parse()?, at_once.parse()?)?;
            println!("{spent_ns}");
            Ok(())
        }
        ["answer-messages", at] => {
            let answerer = messages::Answerer::bind(at.parse()?)?;
            go_on(|| answerer.serve())
        }
        ["ask-messages", to, turns] => messages::ask(to.parse()?, turns.parse()?),
        ["answer-late", at, sleep_ms] => {
            let answerer = latency_talk::LateAnswerer::bind(at.parse()?)?;
            let sleep = Duration::from_millis(sleep_ms.parse()?);
            go_on(|| answerer.serve(sleep))
        }
        ["udp-read-late", at, rest_ms] => {
            let rest = Duration::from_millis(rest_ms.parse()?);
            go_on(|| latency_depth::read_late(at.parse()?, rest))
        }
        ["udp-many-late", at, rest_ms] => {
            let rest = Duration::from_millis(rest_ms.parse()?);
            let sockets = latency_depth::many(at.parse()?)?;
            go_on(|| latency_depth::read_many_late(&sockets, rest))
        }
        ["udp-to-many", to] => latency_depth::send_to_many(to.parse()?),
        ["ask-late", to, turns] => latency_talk::ask_late(to.parse()?, turns.parse()?),
        ["store", file, cache, at, name] => {
            end_with_owner();
            store::serve(file, cache, at.parse()?, name)
        }
        ["ask-stores", to, reads_percent] => {
            end_with_owner();
            store::ask(to.parse()?, reads_percent.parse()?)
        }
        ["told", at, said] => store::print_told(at.parse()?, said),
        ["tell-latency", at, port] => {
            end_with_owner();
            store::tell_latency(at.parse()?, port.parse()?)
        }
        ["delay", device, namespace, other, delay_us] => {
            end_with_owner();
            let delay = Duration::from_micros(delay_us.parse()?);
            delay::hold(device, namespace, other, delay)
        }
        ["reads-file", file, how, per_second] => {
            let per_second = per_second.parse()?;
            go_on(|| disk_loads::read(Path::new(file), how, per_second))
        }
        ["writes-file", file, per_second] => {
            let per_second = per_second.parse()?;
            go_on(|| disk_loads::write(Path::new(file), per_second))
        }
        ["forgets-file", file] => go_on(|| disk_loads::forget_again(Path::new(file))),
        ["connect-storm"] => go_on(loads::connect_storm),
        ["unix-connect-storm"] => go_on(loads::unix_connect_storm),
        ["poll-storm"] => go_on(loads::poll_storm),
        ["unix-blast"] => go_on(loads::unix_blast),
        ["unix-pong", name] => {
            let listener = loads::unix_listener(name)?;
            go_on(|| loads::unix_pong(&listener))
        }
        ["unix-ping", name] => go_on(|| loads::unix_ping(name)),
        ["udp-drip", to] => go_on(|| loads::udp_drip(to.parse()?)),
        ["udp-busy-sink", at] => go_on(|| loads::udp_busy_sink(at.parse()?)),
        ["uring-blast", "worker"] => go_on(|| loads::uring_blast(Worker::Thread)),
        ["uring-blast", "poller"] => go_on(|| loads::uring_blast(Worker::Poller)),
        ["uring-reads", "worker", sends] => {
            go_on(|| loads::uring_reads(Worker::Thread, sends.parse()?))
        }
        ["uring-reads", "poller", sends] => {
            go_on(|| loads::uring_reads(Worker::Poller, sends.parse()?))
        }
        ["uring-idle"] => hold(uring::idle_poller()?),
        ["spin"] => go_on(loads::spin),
        ["gaps", seconds] => {
            let length = Duration::from_secs(seconds.parse()?);
            go_on(|| stall::watch_gaps(length))
        }
        ["spin-one"] => go_on(spin_one),
        ["keepalive", pairs] => hold(loads::keepalive(pairs.parse()?)?),
        ["tap"] => hold(loads::tap()?),
        ["tap-echo", device] => {
            let tap = tap_echo::Tap::new(device)?;
            go_on(|| tap.serve())
        }
        ["vhost-echo", device] => {
            let vhost = tap_echo::Vhost::new(device)?;
            go_on(|| vhost.serve())
        }
        ["frames", device] => flow_table::send_frames(device),
        ["attach", how, device] => hold(bpf::attach(how, device)?),
        ["burn", device, burn_ns] => hold(burn::attach(device, burn_ns.parse()?)?),
        ["burn-xdp", device, burn_ns] => hold(burn::attach_xdp(device, burn_ns.parse()?)?),
        ["udp-bursts", to, count, pause_ms] => {
            let (to, count) = (to.parse()?, count.parse()?);
            let pause = Duration::from_millis(pause_ms.parse()?);
            go_on(|| loads::udp_bursts(to, count, pause))
        }
        ["udp-paced", to, per_second, cpu] => {
            cpus::pin_to(cpu.parse()?)?;
            let (to, per_second) = (to.parse()?, per_second.parse()?);
            go_on(|| loads::udp_paced(to, per_second, SMALL_BYTES))
        }
        ["udp-paced-bytes", to, per_second, bytes] => {
            let (to, per_second) = (to.parse()?, per_second.parse()?);
            let bytes = bytes.parse()?;
            go_on(|| loads::udp_paced(to, per_second, bytes))
        }
        ["udp-paced-flows", to, per_second, cpu] => {
            cpus::pin_to(cpu.parse()?)?;
            let (to, per_second) = (to.parse()?, per_second.parse()?);
            go_on(|| loads::udp_paced_flows(to, per_second))
        }
        ["tcp-writes", to, bytes, per_second] => {
            let (to, bytes) = (to.parse()?, bytes.parse()?);
            let per_second = per_second.parse()?;
            go_on(|| loads::tcp_writes(to, bytes, per_second))
        }
        ["tcp-files", to, bytes, per_second] => {
            let (to, bytes) = (to.parse()?, bytes.parse()?);
            let per_second = per_second.parse()?;
            go_on(|| loads::tcp_files(to, bytes, per_second))
        }
        ["tcp-discards", at] => {
            let listener = TcpListener::bind(at)?;
            go_on(|| loads::tcp_discards(&listener))
        }
        ["tcp-many", to, connections, bytes, per_second] => {
            let (to, connections) = (to.parse()?, connections.parse()?);
            let (bytes, per_second) = (bytes.parse()?, per_second.parse()?);
            go_on(|| loads::tcp_many(to, connections, bytes, per_second))
        }
        ["tcp-sinks", at] => {
            let listener = TcpListener::bind(at)?;
            go_on(|| loads::tcp_sinks(&listener))
        }
        ["tcp-records", to, per_second, how] => {
            let (to, per_second) = (to.parse()?, per_second.parse()?);
            go_on(|| loads::tcp_records(to, per_second, how == "apart"))
        }
        ["tcp-late-sinks", at, room, pause_ms] => {
            let listener = TcpListener::bind(at)?;
            let (room, pause_ms) = (room.parse()?, pause_ms.parse()?);
            go_on(|| loads::tcp_late_sinks(&listener, room, Duration::from_millis(pause_ms)))
        }
        ["tcp-streams", to, connections, bytes_per_second, how] => {
            let (to, connections) = (to.parse()?, connections.parse()?);
            let rate = bytes_per_second.parse()?;
            go_on(|| loads::tcp_streams(to, connections, rate, how == "asked"))
        }
        ["host-groups", folder, first, count, pause_ns] => {
            let (first, count): (u32, u32) = (first.parse()?, count.parse()?);
            let pause = Duration::from_nanos(pause_ns.parse()?);
            go_on(|| churn::host(Path::new(folder), first..first + count, pause))
        }
        ["be-guest", name] => churn::be_guest(name),
        ["tcp-paced", to, per_second, _] => {
            let (to, per_second) = (to.parse()?, per_second.parse()?);
            go_on(|| loads::tcp_paced(to, per_second))
        }
        _ => bail!("no such role"),
    }
}

fn ready() -> Result<()> {
    println!("ready");
    std::io::stdout().flush()?;
    Ok(())
}

/// Returns when the owner lets go of standard input, or is gone.
fn wait_for_end() {
    let mut byte = [0];
    while let Ok(1..) = std::io::stdin().read(&mut byte) {}
}

fn end_with_owner() {
    std::thread::spawn(|| {
        wait_for_end();
        std::process::exit(0);
    });
}

/// Keeps something until the owner lets go.
fn hold<T>(_held: T) -> Result<()> {
    ready()?;
    wait_for_end();
    Ok(())
}

/// A load that never ends by itself.
fn go_on(load: impl FnOnce() -> Result<()>) -> Result<()> {
    ready()?;
    end_with_owner();
    load()
}

fn any(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::from([0; 4]),
        IpAddr::V6(_) => IpAddr::from([0; 16]),
    }
}

/// Small packets of one flow, as fast as one CPU sends them.
fn udp_blast(to: SocketAddr) -> Result<()> {
    let socket = UdpSocket::bind((any(to.ip()), 0))?;
    socket.connect(to)?;
    ready()?;
    end_with_owner();
    loop {
        // A closed port answers with an error on a later send: not this test's business.
        let _ = socket.send(&[0x55; SMALL_BYTES]);
    }
}

/// Small packets, each to another port and so of another flow.
fn udp_flows(to: SocketAddr) -> Result<()> {
    let socket = UdpSocket::bind((any(to.ip()), 0))?;
    ready()?;
    end_with_owner();
    loop {
        for port in 1024..=u16::MAX {
            let _ = socket.send_to(&[0x55; SMALL_BYTES], SocketAddr::new(to.ip(), port));
        }
    }
}

/// As many packets as a CPU's backlog holds with room for those of others: half of
/// `net.core.netdev_max_backlog`.
const BURST: u64 = 500;

/// Exactly this many small packets, of which no backlog drops one.
fn udp_count(to: SocketAddr, count: u64) -> Result<()> {
    let socket = UdpSocket::bind((any(to.ip()), 0))?;
    for sent in 1..=count {
        socket.send_to(&[0x55; SMALL_BYTES], to)?;
        if sent % BURST == 0 {
            child::eventually(|| {
                let waiting = in_backlogs()?;
                ensure!(waiting == 0, "{waiting} packets wait in backlogs");
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// Packets that wait in the backlogs of all CPUs, of all namespaces.
fn in_backlogs() -> Result<u64> {
    /// `softnet_seq_show` in net/core/net-procfs.c.
    const WAITING: usize = 11;
    let text = std::fs::read_to_string("/proc/net/softnet_stat")?;
    let waiting = text.lines().map(|cpu| {
        let field = cpu.split_whitespace().nth(WAITING);
        let field = field.context("this kernel does not tell how long backlogs are")?;
        Ok(u64::from_str_radix(field, 16)?)
    });
    waiting.sum()
}

fn udp_sink(at: SocketAddr) -> Result<()> {
    let socket = UdpSocket::bind(at).with_context(|| format!("cannot bind {at}"))?;
    go_on(|| udp_reads(&socket))
}

fn udp_reads(socket: &UdpSocket) -> Result<()> {
    let mut packet = [0; 2048];
    loop {
        let _ = socket.recv(&mut packet);
    }
}

/// One connection that sends whatever it may.
fn tcp_blast(to: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect(to).with_context(|| format!("cannot connect to {to}"))?;
    ready()?;
    end_with_owner();
    let data = vec![0x55; 128 << 10];
    loop {
        stream.write_all(&data)?;
    }
}

fn tcp_sink(at: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(at).with_context(|| format!("cannot bind {at}"))?;
    ready()?;
    end_with_owner();
    let (mut stream, _) = listener.accept()?;
    let mut data = vec![0; 128 << 10];
    while stream.read(&mut data)? > 0 {}
    Ok(())
}
