//! What keeps the machine busy while netto is measured, and how fast it is.
//!
//! Loads of one thread are this very program, started anew inside a namespace
//! on one CPU: system calls for a given time, and what one of them took.

use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Subcommand;

use super::lab::{self, Lab, Owned};
use crate::process;

/// Bytes of a small packet.
const SMALL_BYTES: usize = 64;
const PORT: u16 = 9;
/// Calls between two looks at the clock: some milliseconds, so that a sampler at
/// 1 kHz is felt in each batch, and what happens now and then is not.
const BATCH: u32 = 4_000;

/// A load of one thread, as the hidden command that runs it.
#[derive(Debug, Clone, Copy, Subcommand)]
pub enum Load {
    /// Send small UDP packets
    Sends {
        /// Where to
        to: SocketAddr,
        /// For how long
        milliseconds: u64,
    },
    /// Make the cheapest system call
    Calls {
        /// For how long
        milliseconds: u64,
    },
}

/// What a load showed.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Nanoseconds per call, of a batch in the quickest quarter: on a machine that
    /// does other things too, the slower ones were disturbed.
    pub call_ns: f64,
    /// Calls made in all.
    pub calls: f64,
}

impl Load {
    /// Small packets that make one receive softirq each.
    pub fn sends(milliseconds: u64) -> Result<Load> {
        let to = SocketAddr::new(lab::NOBODY.parse()?, PORT);
        Ok(Load::Sends { to, milliseconds })
    }

    /// Runs it in the sender's namespace.
    pub fn run(self, lab: &Lab) -> Result<Pace> {
        let text = process::output(&mut self.command(lab)?)?;
        let mut words = text.split(' ').map(|word| word.parse::<f64>().ok());
        match (words.next().flatten(), words.next().flatten()) {
            (Some(call_ns), Some(calls)) => Ok(Pace { call_ns, calls }),
            _ => bail!("a load said {text:?}"),
        }
    }

    fn command(self, lab: &Lab) -> Result<Command> {
        let own = std::env::current_exe().context("cannot tell where xtask is")?;
        // What else runs on this machine must not be measured, so nothing else gets this CPU.
        let mut command = lab.left(lab::load_cpu()?, Path::new("chrt"));
        command.args(["--fifo", "1"]).arg(own).arg("load");
        match self {
            Load::Sends { to, milliseconds } => {
                command.args(["sends", &to.to_string(), &milliseconds.to_string()])
            }
            Load::Calls { milliseconds } => command.args(["calls", &milliseconds.to_string()]),
        };
        Ok(command)
    }

    /// The load itself: prints its pace.
    pub fn work(self) -> Result<()> {
        let pace = match self {
            Load::Sends { to, milliseconds } => {
                let socket = UdpSocket::bind("0.0.0.0:0")?;
                socket.connect(to)?;
                let data = [0x55; SMALL_BYTES];
                repeat(milliseconds, || Ok(socket.send(&data).map(drop)?))?
            }
            Load::Calls { milliseconds } => repeat(milliseconds, || {
                let _ = std::os::unix::process::parent_id();
                Ok(())
            })?,
        };
        println!("{} {}", pace.call_ns, pace.calls);
        Ok(())
    }
}

fn repeat(milliseconds: u64, mut call: impl FnMut() -> Result<()>) -> Result<Pace> {
    let end = Instant::now() + Duration::from_millis(milliseconds);
    let mut batches = Vec::new();
    while batches.is_empty() || Instant::now() < end {
        let begun = Instant::now();
        for _ in 0..BATCH {
            call()?;
        }
        batches.push(begun.elapsed().as_nanos() as f64);
    }
    batches.sort_by(f64::total_cmp);
    Ok(Pace {
        call_ns: batches[batches.len() / 4] / f64::from(BATCH),
        calls: batches.len() as f64 * f64::from(BATCH),
    })
}

/// Softirqs of all kinds that have run on all CPUs so far.
pub fn softirqs() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/softirqs").context("cannot read /proc/softirqs")?;
    let mut sum = 0;
    for word in text
        .lines()
        .skip(1)
        .flat_map(|line| line.split_whitespace().skip(1))
    {
        sum += word
            .parse::<u64>()
            .with_context(|| format!("/proc/softirqs holds {word:?}"))?;
    }
    Ok(sum)
}

/// One bulk TCP connection by iperf3 for some seconds; Gbit/s received.
pub fn tcp_gbps(lab: &Lab, seconds: u32) -> Result<f64> {
    let iperf3 = program("iperf3")?;
    let mut server = lab.right(0, &iperf3);
    server
        .args(["-s", "-1", "-B", lab::RIGHT])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _server = Owned::start(&mut server)?;
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let mut client = lab.left(lab::load_cpu()?, &iperf3);
        client.args(["-c", lab::RIGHT, "-t", &seconds.to_string(), "-J"]);
        client.args(["--connect-timeout", "1000"]);
        // A server that does not listen yet is told in the report, and by the exit status.
        let report = client
            .stderr(Stdio::null())
            .output()
            .context("cannot start iperf3")?;
        let report: serde_json::Value =
            serde_json::from_slice(&report.stdout).context("iperf3 wrote no JSON")?;
        if let Some(bits) = report["end"]["sum_received"]["bits_per_second"].as_f64() {
            return Ok(bits / 1e9);
        }
        if Instant::now() > deadline {
            bail!("iperf3: {}", report["error"]);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A bulk TCP connection that goes on until it is dropped, its receiver and its sender on the same
/// CPU: on two, how fast an idle CPU of a virtual machine wakes decides the throughput.
pub fn bulk(lab: &Lab) -> Result<[Owned; 2]> {
    let iperf3 = program("iperf3")?;
    let cpu = lab::load_cpu()?;
    let server = quiet(lab.right(cpu, &iperf3).args(["-s", "-B", lab::RIGHT]))?;
    std::thread::sleep(Duration::from_millis(300));
    let mut client = lab.left(cpu, &iperf3);
    let client = quiet(client.args(["-c", lab::RIGHT, "-t", "86400"]))?;
    std::thread::sleep(Duration::from_secs(1));
    let mut both = [server, client];
    for process in &mut both {
        ensure!(process.0.try_wait()?.is_none(), "a load ended at once");
    }
    Ok(both)
}

fn quiet(command: &mut Command) -> Result<Owned> {
    Owned::start(command.stdout(Stdio::null()).stderr(Stdio::null()))
}

/// Small packets and a bulk TCP connection at once, until dropped: something of everything.
pub fn mixed(lab: &Lab) -> Result<Vec<Owned>> {
    let own = std::env::current_exe().context("cannot tell where xtask is")?;
    let iperf3 = program("iperf3")?;
    let mut owned = vec![quiet(lab.right(0, &iperf3).args(["-s", "-B", lab::RIGHT]))?];
    std::thread::sleep(Duration::from_millis(300));
    // Far longer than it is wanted; it ends when it is dropped.
    let to = SocketAddr::new(lab::NOBODY.parse()?, PORT).to_string();
    let mut sends = lab.left(lab::load_cpu()?, &own);
    owned.push(quiet(sends.args(["load", "sends", &to, "3600000"]))?);
    owned.push(quiet(lab.left(0, &iperf3).args([
        "-c",
        lab::RIGHT,
        "-t",
        "3600",
    ]))?);
    std::thread::sleep(Duration::from_millis(500));
    for process in &mut owned {
        ensure!(process.0.try_wait()?.is_none(), "a load ended at once");
    }
    Ok(owned)
}

fn program(name: &str) -> Result<PathBuf> {
    process::find_program(name).with_context(|| format!("there is no {name}"))
}
