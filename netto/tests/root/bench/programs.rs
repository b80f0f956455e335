//! Instructions of each BPF program, by the kernel's own statistics, under loads that are made
//! of little else than what the program is for.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::time::Duration;

use anyhow::{Result, bail};

use super::{Options, end, figure, forced};
use crate::daemon::Daemon;
use crate::kernels::{self, Programs, Statistics};
use crate::lab::Network;
use crate::traffic;

const CALLS: u32 = 20_000;
const TURNS: u32 = 4_000;
/// Long enough for some thousands of samples.
const SAMPLED: Duration = Duration::from_secs(2);

/// Programs by name, as kernels.rs tells them apart.
pub(super) type All = BTreeMap<String, Programs>;

/// Measures.
pub fn measure(options: &Options) -> Result<()> {
    let network = Network::direct()?;
    let _statistics = Statistics::enable()?;
    let daemon = options.start(Some(1_000), forced()?)?;
    let sends = during(&daemon, || send(&network))?;
    pair("softirq_pair_ns", &sends, &["sirq"]);
    pair("send_pair_ns", &sends, &CALL_PROGRAMS);
    pair(
        "receive_pair_ns",
        &during(&daemon, receive)?,
        &CALL_PROGRAMS,
    );
    one(
        "switch_plain_ns",
        &during(&daemon, take_turns_by_pipe)?,
        "switch",
    );
    one(
        "switch_parking_ns",
        &during(&daemon, take_turns_by_socket)?,
        "switch",
    );
    end(daemon)?;

    let daemon = options.start(Some(10_000), forced()?)?;
    let load = traffic::tcp(&network.left, &network.right, network.right_v4)?;
    std::thread::sleep(Duration::from_millis(500));
    let bulk = during(&daemon, || {
        std::thread::sleep(SAMPLED);
        Ok(())
    })?;
    drop(load);
    one("sample_bulk_ns", &bulk, "sample");
    end(daemon)
}

/// Parts of the names of programs at the beginning and end of socket calls.
const CALL_PROGRAMS: [&str; 7] = ["fentry", "fexit", "send", "recv", "call", "sk_", "probe"];

/// The runs of each program during some work.
pub(super) fn during(daemon: &Daemon, work: impl FnOnce() -> Result<()>) -> Result<All> {
    let pid = daemon.process.pid();
    let mut before = kernels::programs(pid)?;
    work()?;
    let mut after = kernels::programs(pid)?;
    for (name, program) in &mut after {
        let earlier = before.remove(name).unwrap_or_default();
        program.run_time_ns = program.run_time_ns.saturating_sub(earlier.run_time_ns);
        program.runs = program.runs.saturating_sub(earlier.runs);
    }
    Ok(after)
}

/// The sum of those whose names contain one of these, and of how many runs.
fn sum(programs: &All, names: &[&str]) -> (f64, f64) {
    let is_meant = |name: &str| names.iter().any(|part| name.contains(part));
    let meant = programs.iter().filter(|(name, _)| is_meant(name));
    meant.fold((0.0, 0.0), |(ns, runs), (_, program)| {
        (ns + program.run_time_ns as f64, runs + program.runs as f64)
    })
}

/// The cost of a run of one program, if it ran.
pub(super) fn one(figure_name: &str, programs: &All, name: &str) {
    let (ns, runs) = sum(programs, &[name]);
    if runs > 0.0 {
        figure(figure_name, &[ns / runs]);
    }
}

/// Of a beginning and an end together.
pub(super) fn pair(figure_name: &str, programs: &All, names: &[&str]) {
    let (ns, runs) = sum(programs, names);
    if runs > 0.0 {
        figure(figure_name, &[2.0 * ns / runs]);
    }
}

/// Sends only, each with a softirq, without a receiver.
fn send(network: &Network) -> Result<()> {
    let load = traffic::udp_blast(&network.left, network.nobody_v4)?;
    std::thread::sleep(Duration::from_millis(500));
    drop(load);
    Ok(())
}

/// Receives only, of a socket that has nothing.
fn receive() -> Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_nonblocking(true)?;
    let mut packet = [0; 64];
    for _ in 0..CALLS {
        if socket.recv(&mut packet).is_ok() {
            bail!("somebody wrote to a socket of ours");
        }
    }
    Ok(())
}

/// Two threads that wait for each other, each in a read that is no networking.
fn take_turns_by_pipe() -> Result<()> {
    let (mut from_here, mut to_there) = std::io::pipe()?;
    let (mut from_there, mut to_here) = std::io::pipe()?;
    let other = std::thread::spawn(move || -> std::io::Result<()> {
        let mut byte = [0];
        for _ in 0..TURNS {
            from_here.read_exact(&mut byte)?;
            to_here.write_all(&byte)?;
        }
        Ok(())
    });
    let mut byte = [1];
    for _ in 0..TURNS {
        to_there.write_all(&byte)?;
        from_there.read_exact(&mut byte)?;
    }
    joined(other)
}

/// The same, with each turn in a receive: a call is parked while the other thread runs.
fn take_turns_by_socket() -> Result<()> {
    let (near, far) = (
        UdpSocket::bind("127.0.0.1:0")?,
        UdpSocket::bind("127.0.0.1:0")?,
    );
    near.connect(far.local_addr()?)?;
    far.connect(near.local_addr()?)?;
    // A packet that is lost ends the measurement and not the machine's time.
    near.set_read_timeout(Some(Duration::from_secs(5)))?;
    far.set_read_timeout(Some(Duration::from_secs(5)))?;
    let other = std::thread::spawn(move || -> std::io::Result<()> {
        let mut packet = [0; 64];
        for _ in 0..TURNS {
            far.recv(&mut packet)?;
            far.send(&packet)?;
        }
        Ok(())
    });
    let mut packet = [0; 64];
    for _ in 0..TURNS {
        near.send(&packet)?;
        near.recv(&mut packet)?;
    }
    joined(other)
}

fn joined(thread: std::thread::JoinHandle<std::io::Result<()>>) -> Result<()> {
    match thread.join() {
        Ok(result) => Ok(result?),
        Err(_) => bail!("the other thread panicked"),
    }
}
