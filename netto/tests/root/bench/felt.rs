//! What a host feels: one bulk TCP stream that never ends, its two ends on one CPU, with something
//! beside it and without, in the order A B B A. On two CPUs, how fast an idle CPU of a virtual
//! machine wakes would decide the throughput.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::clock::Bare;
use super::{Options, SETTLE, end, figure};
use crate::child::Owned;
use crate::cpus;
use crate::lab::Network;

/// How long bytes are counted, each time.
const COUNTED: Duration = Duration::from_millis(1500);
/// Until the stream has its pace.
const RISES: Duration = Duration::from_secs(1);

/// The program that runs beside the stream.
#[derive(Clone, Copy)]
enum Beside {
    Nothing,
    /// netto, at so many samples per second of perf's clock, or at its defaults.
    Netto(Option<u64>),
    /// perf's clock on each CPU, at so many interrupts per second, with no program at all.
    Clock(u64),
}

/// Measures: the share of the stream that is lost in each pair.
pub fn measure(options: &Options) -> Result<()> {
    let network = Network::direct()?;
    let stream = stream(&network)?;
    let mut gbps = Vec::new();
    for (name, beside) in [
        ("nothing", Beside::Nothing),
        ("netto", Beside::Netto(None)),
        ("netto_10khz", Beside::Netto(Some(10_000))),
        ("clock_1khz", Beside::Clock(1_000)),
    ] {
        let mut lost = Vec::new();
        while lost.len() < options.rounds {
            let before = rate(&stream)?;
            let with = with(beside, options, &stream)?;
            let after = rate(&stream)?;
            for (with, without) in with.iter().zip([before, after]) {
                lost.push(100.0 * (1.0 - with / without));
                gbps.push(without / 1e9);
            }
        }
        figure(&format!("felt_{name}_percent"), &lost);
    }
    figure("felt_gbps", &gbps);
    Ok(())
}

/// Two counts of bytes while this is beside the stream.
fn with(beside: Beside, options: &Options, stream: &[Owned; 2]) -> Result<[f64; 2]> {
    let both = || anyhow::Ok([rate(stream)?, rate(stream)?]);
    match beside {
        Beside::Nothing => both(),
        Beside::Netto(frequency_hz) => {
            let daemon = options.start(frequency_hz, &[])?;
            std::thread::sleep(options.warm_up);
            let rates = both()?;
            end(daemon)?;
            Ok(rates)
        }
        Beside::Clock(frequency_hz) => {
            let _clock = Bare::open(frequency_hz)?;
            std::thread::sleep(SETTLE);
            both()
        }
    }
}

/// Server and client of a stream that lasts until both are dropped.
fn stream(network: &Network) -> Result<[Owned; 2]> {
    let to = network.right_v4.to_string();
    let cpu = cpus::count()? - 1;
    ensure!(
        cpu > 0,
        "measuring needs two CPUs, or netto has none beside the load"
    );
    let mut server = network.right.command("iperf3");
    let server = Owned::start(server.args(["-s", "-1", "-B", &to]))?;
    std::thread::sleep(SETTLE);
    let mut client = network.left.command("iperf3");
    client.args(["-c", &to, "-t", "86400", "-A", &format!("{cpu},{cpu}")]);
    let mut client = Owned::start(&mut client)?;
    std::thread::sleep(RISES);
    if let Some(status) = client.try_wait()? {
        anyhow::bail!("iperf3 ended ({status}): {}", client.stderr());
    }
    Ok([server, client])
}

/// Bits a second that the receiver's device sees.
fn rate(stream: &[Owned; 2]) -> Result<f64> {
    let (before, begun) = (received_bytes(stream)?, Instant::now());
    std::thread::sleep(COUNTED);
    let bytes = received_bytes(stream)? - before;
    Ok(bytes as f64 * 8.0 / begun.elapsed().as_secs_f64())
}

/// By the kernel's account of the namespace that the receiver is in.
fn received_bytes([server, _]: &[Owned; 2]) -> Result<u64> {
    let path = format!("/proc/{}/net/dev", server.pid());
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    text.lines()
        .find_map(|line| line.trim_start().strip_prefix("lan:"))
        .and_then(|counts| counts.split_whitespace().next()?.parse().ok())
        .with_context(|| format!("{path} does not tell what `lan` received"))
}
