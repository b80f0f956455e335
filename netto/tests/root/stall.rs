//! The stall of a busy loop by the softirqs on top of it, held against the gaps that it sees in its
//! own CPU time, and against the kernel's account where it has one (`irq.pressure`).
//!
//! A program at the interface burns half a millisecond of each packet's softirq, so that the
//! interrupts that raise them, which netto does not time, are a small part of the gaps.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use metrics_common::{OwnerKind, Snapshot};
use nix::time::{ClockId, clock_gettime};

use crate::child::Owned;
use crate::flows::{agent, often, steer};
use crate::follow::Followed;
use crate::groups::Group;
use crate::lab::Network;
use crate::lab_itself::needs_kernel;
use crate::trial::{NotOnThisKernel, tests};
use crate::{cpus, guest, traffic};

tests! {
    stall::of_a_busy_loop_is_what_it_misses_of_its_own_time ["ip", "tc"];
}

const BURN_NS: &str = "500000";
const PER_SECOND: &str = "400";
const PORT: u16 = 6001;
const LENGTH: Duration = Duration::from_secs(20);
/// Until prices are learnt.
const WARM_UP: Duration = Duration::from_secs(5);
/// With counted instructions a second takes ten.
const LIMIT: Duration = Duration::from_secs(600);
/// A gap is longer than an interrupt of netto's own sampling, some 25 µs in a virtual machine, and
/// shorter than the softirq of any packet here.
const GAP_NS: u64 = 100_000;
const EXACT: f64 = 0.10;

/// What a busy loop has seen, nanoseconds.
pub struct Seen {
    pub ran: u64,
    pub gaps: u64,
    count: u64,
}

/// The agent `gaps`: takes its CPU for so long, and prints what it has seen.
pub fn watch_gaps(length: Duration) -> Result<()> {
    let now_ns = || -> Result<u64> {
        let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?;
        Ok(Duration::from(now).as_nanos() as u64)
    };
    let (end, begun) = (Instant::now() + length, now_ns()?);
    let (mut last, mut gaps, mut count) = (begun, 0, 0_u64);
    while Instant::now() < end {
        let now = now_ns()?;
        let gap = now - last;
        if gap > GAP_NS {
            gaps += gap;
            count += 1;
        }
        last = now;
    }
    println!("gaps {} {gaps} {count}", last - begun);
    Ok(())
}

/// What the agent `gaps` has seen, once it has ended.
pub fn seen(agent: &mut Owned) -> Result<Seen> {
    agent.wait_within(LIMIT)?;
    read(&agent.stdout())
}

fn read(output: &str) -> Result<Seen> {
    let line = output.lines().find_map(|line| line.strip_prefix("gaps "));
    let words = line.context("the loop told nothing")?.split(' ');
    let numbers: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>()?;
    let [ran, gaps, count] = numbers[..] else {
        anyhow::bail!("three numbers: {output}");
    };
    Ok(Seen { ran, gaps, count })
}

fn of_a_busy_loop_is_what_it_misses_of_its_own_time() -> Result<()> {
    needs_kernel(6, 6, "tcx")?;
    let count = cpus::count()?;
    if guest::is_one() && count > 1 {
        let why = "emulated CPUs wait for each other, which are gaps too: use --icount";
        return Err(NotOnThisKernel(why.to_owned()).into());
    }
    let victims = [Group::new("victim")?, Group::new("neighbour")?];
    let (senders, network) = (Group::new("senders")?, Network::direct()?);
    let (sends_on, runs_on) = (0, count as u32 - 1);
    if count > 1 {
        steer(&network.right, "lan")?;
    } else {
        // On one CPU the queue delays packets, so that they interrupt whoever runs when they come out.
        let netem = "qdisc add dev lan root netem delay 5ms";
        network.left.run("tc", netem)?;
    }
    let _burning = traffic::agent(&network.right, &["burn", "lan", BURN_NS])?;
    let to = SocketAddr::new(network.right_v4, PORT).to_string();
    let _sink = agent(&senders, &network.right, sends_on, &["udp-sink", &to])?;
    let cpu = sends_on.to_string();
    let words = ["udp-paced", &to, PER_SECOND, &cpu];
    let _sender = agent(&senders, &network.left, sends_on, &words)?;
    let _neighbour = agent(&victims[1], &network.left, runs_on, &["spin-one"])?;
    let mut followed = Followed::start_with(&often("cgroup"))?;
    std::thread::sleep(WARM_UP);
    followed.catch_up()?;
    let mut sum = followed.next()?;
    let seconds = LENGTH.as_secs().to_string();
    let words = ["gaps", &seconds];
    let mut victim = agent(&victims[0], &network.left, runs_on, &words)?;
    while victim.try_wait()?.is_none() {
        sum.add(&followed.next()?);
    }
    let seen = seen(&mut victim)?;
    for _ in 0..2 {
        sum.add(&followed.next()?);
    }
    let (stalled, pressure) = accounts(&sum, &victims[0])?;
    let ms = |ns: u64| ns as f64 / 1e6;
    println!(
        "\nof {:.0} ms: stalled {:.0} ms by netto, {} by irq.pressure, {:.0} ms in {} gaps: {:.3}",
        ms(seen.ran),
        ms(stalled),
        pressure.map_or("unknown".to_owned(), |ns| format!("{:.0} ms", ms(ns))),
        ms(seen.gaps),
        seen.count,
        stalled as f64 / seen.gaps as f64
    );
    let is_near = |one: u64, other: u64| (one as f64 / other as f64 - 1.0).abs() <= EXACT;
    ensure!(is_near(stalled, seen.gaps), "not within {EXACT}");
    let beside = pressure.is_none_or(|pressure| is_near(stalled, pressure));
    ensure!(beside, "the kernel's account is another");
    Ok(())
}

/// The stall of a group, and the kernel's.
fn accounts(sum: &Snapshot, group: &Group) -> Result<(u64, Option<u64>)> {
    let owners = sum.sections.owners.as_ref().context("no owners")?;
    let is_of_group = |place: &usize| {
        let owner = &owners.owners[*place];
        owner.kind == OwnerKind::Cgroup && owner.cgroup == group.path()
    };
    let place = (0..owners.owners.len()).find(is_of_group);
    let place = place.context("the victim was not interrupted")?;
    let stalled = owners.accounts()[place].stalled_ns;
    Ok((stalled, owners.irq_pressure_ns[place]))
}
