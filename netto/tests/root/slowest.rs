//! Softirqs of known length: bursts of packets, for each of which a program takes a set time, handed
//! to a CPU on which a process of another group always runs.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use metrics_common::sections::{SlowSoftirq, Slowest};
use metrics_common::{Availability, COMPONENTS, Kind, OwnerKind, Snapshot, Source};

use crate::burn;
use crate::child::Owned;
use crate::cpus;
use crate::daemon::Daemon;
use crate::flows::{OTHER_CPU, RECEIVING_CPU, agent, needs_two_cpus, often, steer};
use crate::follow::Followed;
use crate::groups::Group;
use crate::guest;
use crate::lab::Network;
use crate::traffic;
use crate::trial::tests;

tests! {
    slowest::a_softirq_of_known_length_has_its_cpu_part_and_owners ["ip"];
    slowest::without_owners_the_interrupted_process_is_known_and_the_cause_is_not ["ip"];
    slowest::where_softirqs_are_sampled_there_is_no_list_but_a_reason;
}

const PORT: u16 = 6001;
/// Packets of a burst: one softirq takes them all, and ends before the kernel would end it.
const BURST: u64 = 16;

/// How many softirqs were timed, beside what the clock counts of each event, once it has counted
/// enough: the clock is read for each of the two at another moment.
const ALIKE: std::ops::RangeInclusive<f64> = 0.7..=1.4;
const ENOUGH: u64 = 500;

/// Softirqs of all vectors, by the clock's counts of events.
fn softirqs(snapshot: &Snapshot) -> Result<u64> {
    let mut all = 0;
    for (row, component) in COMPONENTS.iter().enumerate() {
        if let Kind::Timed(Source::Softirq(_), ..) = component.kind {
            let entries = snapshot.cost().entries_of(row).context("not counted")?;
            all += entries.iter().sum::<u64>();
        }
    }
    Ok(all)
}

/// Bursts, a process that they interrupt, and one that receives them.
struct Bursts {
    _network: Network,
    burner: Group,
    receiver: Group,
    _sender: Group,
    sums: libbpf_rs::MapHandle,
    // Ended before their groups are removed.
    agents: Vec<Owned>,
}

impl Drop for Bursts {
    fn drop(&mut self) {
        self.agents.clear();
    }
}

impl Bursts {
    fn new() -> Result<Self> {
        needs_two_cpus()?;
        let network = Network::direct()?;
        steer(&network.right, "lan")?;
        let [burner, receiver, sender] = ["burner", "receiver", "sender"].map(Group::new);
        let (burner, receiver, sender) = (burner?, receiver?, sender?);
        let burn_ns = if guest::is_one() { "250000" } else { "100000" };
        let program = traffic::agent(&network.right, &["burn-xdp", "lan", burn_ns])?;
        let to = format!("{}:{PORT}", network.right_v4);
        let spin = agent(&burner, &network.left, RECEIVING_CPU, &["spin-one"])?;
        let sink = agent(&receiver, &network.right, OTHER_CPU, &["udp-sink", &to])?;
        let words = ["udp-bursts", &to, &BURST.to_string(), "50"];
        let bursts = agent(&sender, &network.left, OTHER_CPU, &words)?;
        let agents = vec![bursts, sink, spin, program];
        let sums = burn::sums()?;
        Ok(Bursts {
            _network: network,
            burner,
            receiver,
            _sender: sender,
            sums,
            agents,
        })
    }

    /// Waits for an interval whose slowest softirq is as it should be.
    fn wait_for(
        &self,
        followed: &mut Followed,
        is_expected: impl Fn(&SlowSoftirq) -> bool,
    ) -> Result<(Slowest, u64)> {
        let (mut timed, mut counted) = (0, 0);
        let describe = |last: &Snapshot| format!("{:#?}", last.sections.slowest);
        followed.find(describe, |snapshot| {
            counted += softirqs(snapshot)?;
            let slowest = snapshot.sections.slowest.clone().context("no section")?;
            ensure!(slowest.measured_ns == snapshot.interval_ns, "{slowest:?}");
            let lengths: Vec<u64> = slowest
                .softirqs
                .iter()
                .map(|softirq| softirq.length_ns)
                .collect();
            ensure!(lengths.is_sorted_by(|a, b| a >= b), "{lengths:?}");
            ensure!(slowest.timed >= lengths.len() as u64, "{slowest:?}");
            timed += slowest.timed;
            let burnt = burn::read(&self.sums)?;
            let burst_ns = burnt.time_ns / burnt.packets.max(1) * BURST;
            let is_as_long = |softirq: &SlowSoftirq| {
                softirq.length_ns >= burst_ns / 2 && softirq.length_ns <= 2 * burst_ns
            };
            let first = slowest.softirqs.first();
            if counted >= ENOUGH
                && first.is_some_and(|softirq| is_as_long(softirq) && is_expected(softirq))
            {
                let ratio = timed as f64 / counted as f64;
                ensure!(ALIKE.contains(&ratio), "{timed} timed, {counted} counted");
                return Ok(Some((slowest, burst_ns)));
            }
            Ok(None)
        })
    }
}

fn a_softirq_of_known_length_has_its_cpu_part_and_owners() -> Result<()> {
    let begun = SystemTime::now();
    let bursts = Bursts::new()?;
    let mut followed = Followed::start_with(&often("cgroup"))?;
    // On another CPU, so that netto itself is not what is interrupted.
    cpus::pin_process(followed.pid(), OTHER_CPU as usize)?;
    let (cause, payer) = (bursts.receiver.path(), bursts.burner.path());
    let (slowest, burst_ns) = bursts.wait_for(&mut followed, |softirq| {
        softirq.cpu == RECEIVING_CPU
            && softirq.softirq == "NET_RX"
            && softirq.part.as_deref() == Some("xdp_generic")
            && softirq.payer.cgroup == payer
            && softirq.cause.cgroup == cause
    })?;
    println!("\n{burst_ns} ns in truth, {:#?}", slowest.softirqs[0]);
    let began_ns = slowest.softirqs[0].began_unix_ns;
    let unix_ns = |time: SystemTime| -> Result<u64> {
        Ok(time.duration_since(UNIX_EPOCH)?.as_nanos() as u64)
    };
    let (first_ns, last_ns) = (unix_ns(begun)?, unix_ns(SystemTime::now())?);
    ensure!((first_ns..last_ns).contains(&began_ns), "{began_ns}");
    ensure!(slowest.timed_ns == slowest.measured_ns, "{slowest:?}");
    Ok(())
}

fn without_owners_the_interrupted_process_is_known_and_the_cause_is_not() -> Result<()> {
    let bursts = Bursts::new()?;
    let mut followed = Followed::start_with(&often("none"))?;
    cpus::pin_process(followed.pid(), OTHER_CPU as usize)?;
    let spinning = bursts.agents[2].pid();
    bursts.wait_for(&mut followed, |softirq| {
        softirq.softirq == "NET_RX"
            && softirq.cause.kind == OwnerKind::Unknown
            && softirq.payer.kind == OwnerKind::Process
            && softirq.payer.pid == spinning
    })?;
    Ok(())
}

fn where_softirqs_are_sampled_there_is_no_list_but_a_reason() -> Result<()> {
    let daemon = Daemon::start(&["--method", "sampling"])?;
    let info = daemon.info()?;
    let instrument = info
        .instruments
        .iter()
        .find(|instrument| instrument.name == "slowest");
    let instrument = instrument.context("the feature is not known")?;
    let Availability::Unavailable { reason } = &instrument.availability else {
        bail!("{instrument:?}");
    };
    ensure!(reason.contains("sampled"), "{reason}");
    Ok(())
}
