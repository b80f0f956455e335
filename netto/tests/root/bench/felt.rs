//! What a host feels: a stream of packets that never ends, with something beside it and without, in
//! the order A B B A.
//!
//! With both ends on one CPU it is CPU time alone that decides. On two CPUs it is also how often the
//! receiver falls asleep and has to be woken: halts and interrupts between CPUs show that where
//! throughput is noise.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use super::clock::Bare;
use super::{Options, SETTLE, end, figure};
use crate::bpf::{self, Attached};
use crate::child::Owned;
use crate::daemon::Daemon;
use crate::lab::Network;
use crate::{cpus, traffic};

/// How long a stream is counted, each time: an interval of netto while nobody reads it.
const COUNTED: Duration = Duration::from_secs(4);
/// Until the stream has its pace.
const RISES: Duration = Duration::from_secs(1);
/// An older stream is begun anew: agents end by themselves after a while.
const OLD: Duration = Duration::from_secs(120);
/// Programs of a dose at each tracepoint.
const COPIES: usize = 8;

/// What runs beside the stream.
#[derive(Clone, Copy)]
enum Beside {
    Nothing,
    /// netto with these options.
    Netto(&'static [&'static str]),
    /// netto at the defaults, stopped before the stream is counted: its programs and samples alone.
    Stopped,
    /// perf's clock on each CPU, at so many interrupts per second, with no program at all.
    Clock(u64),
    /// Programs that do nothing at these tracepoints, so many at each.
    Programs(&'static [&'static str], usize),
    /// One at each of these, attached and detached so often a second.
    Changes(&'static [&'static str], u32),
}

/// A line of the table: a part of its figures' names, and what is beside the stream.
type Line = (&'static str, Beside);

const NETTO: &[Line] = &[
    ("nothing", Beside::Nothing),
    ("netto", Beside::Netto(&[])),
    ("latency", Beside::Netto(&["--latency"])),
    ("stopped", Beside::Stopped),
    ("tick", Beside::Netto(&["--sampler", "tick"])),
    ("netto_10khz", Beside::Netto(&["--frequency", "10000"])),
    ("clock_1khz", Beside::Clock(1_000)),
];

/// One cause each, so often that what it costs is more than noise.
const DOSES: &[Line] = &[
    ("nothing", Beside::Nothing),
    ("clock_50hz", Beside::Clock(50)),
    ("clock_100hz", Beside::Clock(100)),
    ("clock_400hz", Beside::Clock(400)),
    ("clock_1khz", Beside::Clock(1_000)),
    (
        "softirq",
        Beside::Programs(&["raw_tp/softirq_entry", "raw_tp/softirq_exit"], COPIES),
    ),
    (
        "sockets",
        Beside::Programs(&["raw_tp/sk_data_ready", "raw_tp/tcp_probe"], COPIES),
    ),
    (
        "messages",
        Beside::Programs(
            &["raw_tp/sock_send_length", "raw_tp/sock_recv_length"],
            COPIES,
        ),
    ),
    ("switch", Beside::Programs(&["raw_tp/sched_switch"], COPIES)),
    ("poll", Beside::Programs(&["raw_tp/napi_poll"], COPIES)),
    ("changes_5hz", Beside::Changes(UNUSED, 5)),
    ("changes_20hz", Beside::Changes(UNUSED, 20)),
];

/// Tracepoints that a stream between two neighbours who know each other does not come to.
const UNUSED: &[&str] = &[
    "raw_tp/neigh_create",
    "raw_tp/neigh_update",
    "raw_tp/neigh_timer_handler",
    "raw_tp/neigh_cleanup_and_release",
];

/// Where the two ends of a stream are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    OneCpu,
    TwoCpus,
}

/// Bulk TCP and small UDP packets, both ends on one CPU.
pub fn on_one_cpu(options: &Options) -> Result<()> {
    let network = Network::direct()?;
    let bulk = || Stream::bulk(&network, Ends::OneCpu);
    compare("felt", NETTO, &bulk, options)?;
    compare(
        "felt_small",
        &NETTO[..4],
        &|| Stream::small(&network),
        options,
    )
}

/// Bulk TCP, each end on a CPU of its own.
pub fn on_two_cpus(options: &Options) -> Result<()> {
    let network = Network::direct()?;
    let bulk = || Stream::bulk(&network, Ends::TwoCpus);
    compare("felt_two", NETTO, &bulk, options)
}

/// What each part of netto's price costs, by doses of it: on two CPUs.
pub fn doses(options: &Options) -> Result<()> {
    let network = Network::direct()?;
    let bulk = || Stream::bulk(&network, Ends::TwoCpus);
    compare("dose", DOSES, &bulk, options)
}

/// For each line the share of the stream that is lost in each pair, and by how much halts and
/// interrupts for the same bytes become more.
fn compare(
    begin: &str,
    lines: &[Line],
    start: &dyn Fn() -> Result<Stream>,
    options: &Options,
) -> Result<()> {
    for name in &options.lines {
        let all: Vec<&str> = NETTO.iter().chain(DOSES).map(|(name, _)| *name).collect();
        ensure!(
            all.contains(&name.as_str()),
            "there is no line {name}; there are {}",
            all.join(", ")
        );
    }
    let mut alone = Vec::new();
    let chosen =
        |name: &str| options.lines.is_empty() || options.lines.iter().any(|line| line == name);
    for (name, beside) in lines.iter().filter(|(name, _)| chosen(name)) {
        let (mut lost, mut halts, mut interrupts) = (Vec::new(), Vec::new(), Vec::new());
        let mut stream = start()?;
        while lost.len() < options.rounds {
            if stream.begun.elapsed() > OLD {
                drop(stream);
                stream = start()?;
            }
            let before = stream.pace()?;
            let with = with(*beside, options, &stream)?;
            let after = stream.pace()?;
            for (with, without) in with.iter().zip([before, after]) {
                lost.push(100.0 * (1.0 - with.per_second / without.per_second));
                halts.extend(
                    with.halts
                        .zip(without.halts)
                        .map(|(with, without)| with / without),
                );
                interrupts.push(with.interrupts / without.interrupts);
                alone.push(without.per_second);
            }
        }
        figure(&format!("{begin}_{name}_percent"), &lost);
        if stream.ends == Ends::TwoCpus {
            figure(&format!("{begin}_{name}_interrupts"), &interrupts);
            if !halts.is_empty() {
                figure(&format!("{begin}_{name}_halts"), &halts);
            }
        }
    }
    figure(&format!("{begin}_alone"), &alone);
    Ok(())
}

/// Two looks at the stream while this is beside it.
fn with(beside: Beside, options: &Options, stream: &Stream) -> Result<[Pace; 2]> {
    let both = || anyhow::Ok([stream.pace()?, stream.pace()?]);
    let beside_netto = |words: &[&str], look: &dyn Fn(&Daemon) -> Result<[Pace; 2]>| {
        let daemon = options.start(None, words)?;
        std::thread::sleep(options.warm_up);
        let paces = look(&daemon)?;
        end(daemon)?;
        Ok(paces)
    };
    match beside {
        Beside::Nothing => both(),
        Beside::Netto(words) => beside_netto(words, &|_| both()),
        Beside::Stopped => beside_netto(&[], &|daemon| {
            daemon.process.signal("STOP")?;
            let paces = both()?;
            daemon.process.signal("CONT")?;
            Ok(paces)
        }),
        Beside::Clock(frequency_hz) => {
            let _clock = Bare::open(frequency_hz)?;
            std::thread::sleep(SETTLE);
            both()
        }
        Beside::Programs(tracepoints, copies) => {
            let at_each = tracepoints
                .iter()
                .flat_map(|at| std::iter::repeat_n(at, copies));
            let programs: Result<Vec<Attached>> = at_each.map(|at| bpf::attach_empty(at)).collect();
            let _programs = programs?;
            std::thread::sleep(SETTLE);
            both()
        }
        Beside::Changes(tracepoints, per_second) => {
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let changing = scope.spawn(|| change(tracepoints, per_second, &is_over));
                std::thread::sleep(SETTLE);
                let paces = both();
                is_over.store(true, Ordering::Relaxed);
                let panicked = |_| Err(anyhow!("the thread that attaches programs panicked"));
                changing.join().unwrap_or_else(panicked)?;
                paces
            })
        }
    }
}

/// Attaches and detaches a program at each of these tracepoints so often a second.
fn change(tracepoints: &[&'static str], per_second: u32, is_over: &AtomicBool) -> Result<()> {
    let loaded = tracepoints.iter().map(|at| bpf::load_empty(at));
    let loaded: Vec<_> = loaded.collect::<Result<_>>()?;
    let half = Duration::from_secs(1) / per_second / 2;
    while !is_over.load(Ordering::Relaxed) {
        let links: Result<Vec<_>> = loaded.iter().map(bpf::attach_to_its_hook).collect();
        std::thread::sleep(half);
        drop(links?);
        std::thread::sleep(half);
    }
    Ok(())
}

/// How a stream went.
#[derive(Clone, Copy)]
struct Pace {
    /// Gbit, or thousands of packets.
    per_second: f64,
    /// Times that CPUs have gone to sleep for each of these; none where the kernel does not tell.
    halts: Option<f64>,
    /// Interrupts that CPUs have sent each other for each of these.
    interrupts: f64,
}

/// What the kernel has counted so far.
struct Counts {
    at: Instant,
    bytes: u64,
    packets: u64,
    halts: Option<u64>,
    interrupts: u64,
}

/// A stream that lasts until dropped.
struct Stream {
    begun: Instant,
    ends: Ends,
    /// Whether its packets count, and not its bits.
    is_small: bool,
    /// A process in the namespace that receives.
    server: Owned,
    client: Owned,
}

impl Stream {
    /// One TCP connection that sends whatever it may.
    fn bulk(network: &Network, ends: Ends) -> Result<Self> {
        let to = network.right_v4.to_string();
        let (client_cpu, server_cpu) = places(ends)?;
        let mut server = network.right.command("iperf3");
        let server = Owned::start(server.args(["-s", "-1", "-B", &to]))?;
        std::thread::sleep(SETTLE);
        let mut client = network.left.command("iperf3");
        let places = format!("{client_cpu},{server_cpu}");
        client.args(["-c", &to, "-t", "86400", "-A", &places]);
        let client = Owned::start(&mut client)?;
        Self::started(ends, false, server, client)
    }

    /// UDP packets of 64 bytes.
    fn small(network: &Network) -> Result<Self> {
        let (ends, is_small) = (Ends::OneCpu, true);
        let (client_cpu, server_cpu) = places(ends)?;
        let [client, server] = traffic::udp(&network.left, &network.right, network.right_v4)?;
        cpus::pin_process(client.pid(), client_cpu)?;
        cpus::pin_process(server.pid(), server_cpu)?;
        Self::started(ends, is_small, server, client)
    }

    fn started(ends: Ends, is_small: bool, server: Owned, mut client: Owned) -> Result<Self> {
        std::thread::sleep(RISES);
        if let Some(status) = client.try_wait()? {
            anyhow::bail!("the sender ended ({status}): {}", client.stderr());
        }
        Ok(Stream {
            begun: Instant::now(),
            ends,
            is_small,
            server,
            client,
        })
    }

    fn pace(&self) -> Result<Pace> {
        let before = self.counts()?;
        std::thread::sleep(COUNTED);
        let after = self.counts()?;
        let amount = if self.is_small {
            (after.packets - before.packets) as f64 / 1e3
        } else {
            (after.bytes - before.bytes) as f64 * 8.0 / 1e9
        };
        let client = self.client.pid();
        ensure!(amount > 0.0, "process {client} sends nothing");
        let halts = after.halts.zip(before.halts);
        Ok(Pace {
            per_second: amount / (after.at - before.at).as_secs_f64(),
            halts: halts.map(|(after, before)| (after - before) as f64 / amount),
            interrupts: (after.interrupts - before.interrupts) as f64 / amount,
        })
    }

    /// What the receiver's device saw, and what all CPUs did.
    fn counts(&self) -> Result<Counts> {
        let path = format!("/proc/{}/net/dev", self.server.pid());
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let line = text
            .lines()
            .find_map(|line| line.trim_start().strip_prefix("lan:"))
            .with_context(|| format!("{path} does not tell of `lan`"))?;
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let mut number = || {
            numbers
                .next()
                .context("a line that is cut off")?
                .context(path.clone())
        };
        Ok(Counts {
            at: Instant::now(),
            bytes: number()?,
            packets: number()?,
            halts: cpus::halts()?,
            interrupts: cpus::interrupts_of_cpus()?,
        })
    }
}

/// The CPUs of sender and receiver.
pub fn places(ends: Ends) -> Result<(usize, usize)> {
    let last = cpus::count()? - 1;
    ensure!(
        last > 0,
        "measuring needs two CPUs, or netto has none beside the load"
    );
    Ok(match ends {
        Ends::OneCpu => (last, last),
        Ends::TwoCpus => (last - 1, last),
    })
}
