//! Whose networking's cost is: control groups that receive, and one that only burns CPU time and
//! is interrupted for it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use metrics_common::component::index_of;
use metrics_common::sections::OwnPart;
use metrics_common::{OwnerKind, Snapshot};

use crate::child::{self, Owned};
use crate::cpus;
use crate::daemon::Daemon;
use crate::flows::{
    ALONE, Flow, OTHER_CPU, RECEIVING_CPU, TOGETHER, TOLERANCE, agent, caused_by, caused_by_kind,
    compare, look, needs_two_cpus, often, owners, rate, steer, sums_hold, total,
};
use crate::follow::Followed;
use crate::groups::Group;
use crate::guest;
use crate::kernels::{self, Statistics};
use crate::lab::Network;
use crate::running::attached_at;
use crate::traffic;
use crate::trial::tests;
use crate::{owners_off, owners_pids};

tests! {
    owners::two_groups_that_receive_udp_cost_what_each_receives_and_a_third_one_pays ["ip"]
        = udp_costs_what_it_receives;
    owners::two_groups_that_receive_tcp_cost_what_each_receives ["ip"] = tcp_costs_what_it_receives;
    owners::two_groups_that_share_a_port_cost_what_each_receives ["ip"]
        = siblings_cost_what_they_receive;
    owners::what_a_bridge_forwards_is_the_interfaces_and_what_is_received_the_groups ["ip", "bridge"]
        = a_bridge_forwards;
    owners::what_a_router_forwards_is_the_interfaces_and_what_is_received_the_groups ["ip"]
        = a_router_forwards;
    owners::who_preempts_a_softirq_causes_none_of_its_time ["ip"]
        = who_preempts_a_softirq_causes_none_of_its_time;
    owners::of_each_cpu_and_interval_owners_sum_to_the_component_to_the_nanosecond ["ip"]
        = owners_sum_to_the_component;
    owners::processes_are_told_apart_within_a_group ["ip"] = processes_are_told_apart;
    owners::a_pid_that_two_processes_had_one_after_the_other_is_two_owners ["ip"]
        = owners_pids::a_pid_is_used_again;
    owners::what_finding_them_costs_is_what_the_kernel_says_of_its_programs ["ip"]
        = its_price_is_the_kernels;
    owners::a_note_says_that_owners_are_found_for_a_part_of_the_time_while_it_costs_too_much ["ip"]
        = || a_note_while_it_costs_too_much().map(drop);
    owners::the_note_is_withdrawn_when_finding_owners_fits_again ["ip"]
        = || note_becomes(&a_note_while_it_costs_too_much()?, false);
    owners::who_turns_them_off_has_no_program_nor_instruction_and_is_told_how_to_ask
        = owners_off::turned_off;
}

/// Largest share of an owner without a socket.
const NOTHING: f64 = 0.01;
/// Tolerance between costs and packets of siblings: the busier one is woken less often per packet.
const SIBLINGS: f64 = 0.25;
/// Of what the user is told while sockets are not met.
const DETACHED: &str = "Finding the owners of softirqs all the time would cost too much";
/// What netto's own price of its probes may be away from the kernel's, as a factor.
const PRICE: f64 = 2.5;
/// Packets a second of a flow.
const PACKETS: u64 = 1_500;

fn udp_costs_what_it_receives() -> Result<()> {
    needs_two_cpus()?;
    let network = Network::direct()?;
    steer(&network.right, "lan")?;
    let [one, two, senders, burner, modest] =
        ["one", "two", "senders", "burner", "modest"].map(Group::new);
    let (one, two, senders) = (one?, two?, senders?);
    let burners = [burner?, modest?];
    let mut followed = Followed::start_with(&often("cgroup"))?;
    // netto runs with the traffic, and would not be interrupted at random times.
    cpus::pin_process(followed.pid(), OTHER_CPU as usize)?;
    let burning = [
        agent(&burners[0], &network.left, RECEIVING_CPU, &["spin-one"])?,
        agent(
            &burners[1],
            &network.left,
            RECEIVING_CPU,
            &["modestly", "spin-one"],
        )?,
    ];
    // On an emulated CPU, a twentieth of the traffic would be too little to measure.
    let loads: &[(u16, u16, Duration)] = if guest::is_one() {
        &[(12, 4, TOGETHER)]
    } else {
        &[(12, 4, TOGETHER), (20, 1, Duration::from_secs(24))]
    };
    for &(many, few, together) in loads {
        let flow = |group, port, count| Flow {
            count,
            ..Flow::udp([group, &senders], &network, port, rate(PACKETS))
        };
        let flows = [flow(&one, 6001, many), flow(&two, 6101, few)];
        let mut before = None;
        let sum = compare(&flows, &mut followed, together, || {
            before = Some((waited(&burning)?, Instant::now()));
            Ok(())
        })?;
        let (before, begun) = before.context("both never ran together")?;
        let (after, length) = (waited(&burning)?, begun.elapsed().as_secs_f64());
        let busy = [0, 1].map(|one| 1.0 - (after[one] - before[one]) / length);
        pay(&sum, &burners, busy)?;
    }
    Ok(())
}

/// How long the threads of a process were ready to run and did not, as the kernel says. Of one that
/// always wants to run, the rest is when it was on its CPU; whether its own CPU time has the
/// interrupts of that is a question of how the kernel was built.
fn waited_seconds(pid: u32) -> Result<f64> {
    let mut waited_ns = 0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        let field = text.split(' ').nth(1).context("no such format")?;
        waited_ns += field.parse::<u64>()?;
    }
    Ok(waited_ns as f64 / 1e9)
}

fn waited(burning: &[Owned; 2]) -> Result<[f64; 2]> {
    Ok([
        waited_seconds(burning[0].pid())?,
        waited_seconds(burning[1].pid())?,
    ])
}

/// Who has no socket causes nothing, and pays for the softirqs of its CPU while it runs there. Two
/// of them did so for these parts of all time: as much pays each of what both do, and both at
/// least for as much of all softirqs.
fn pay(sum: &Snapshot, burners: &[Group; 2], busy: [f64; 2]) -> Result<()> {
    ensure!(
        busy[0] > 1.5 * busy[1] && busy[1] > 0.1,
        "they had {busy:.2?} of their CPU"
    );
    let rx_ns = total(sum, "rx_softirq")?;
    let owners = owners(sum)?;
    let column = sum.cpus.iter().position(|cpu| *cpu == RECEIVING_CPU);
    let column = column.context("no such CPU")?;
    let mut softirqs_ns = 0;
    for slug in ["rx_softirq", "tx_softirq"] {
        let row = index_of(slug).context("no such row")?;
        softirqs_ns += sum.cost().cpu_ns(row).map_or(0, |row| row[column]);
    }
    let mut paid = [0.0; 2];
    for (burner, paid) in burners.iter().zip(&mut paid) {
        let caused = caused_by(sum, burner, "rx_softirq")? / rx_ns;
        ensure!(
            caused < NOTHING,
            "who has no socket caused {caused:.3} of it"
        );
        let is_burner = |place: u32| owners.owners[place as usize].cgroup == burner.path();
        let taken = owners.taken.iter().filter(|taken| is_burner(taken.payer));
        let paid_ns: u64 = taken.map(|taken| taken.ns).sum();
        *paid = paid_ns as f64 / softirqs_ns as f64;
    }
    println!(
        "they paid {paid:.3?} of the softirqs of their CPU, where they ran {busy:.3?} of the time"
    );
    let (share, expected) = (paid[0] / (paid[0] + paid[1]), busy[0] / (busy[0] + busy[1]));
    ensure!(
        (share / expected - 1.0).abs() <= TOLERANCE,
        "of what both paid, one paid {share:.3}, though it had {expected:.3} of their time"
    );
    let (paid, busy) = (paid[0] + paid[1], busy[0] + busy[1]);
    ensure!(
        paid >= busy * (1.0 - TOLERANCE),
        "both paid {paid:.3} of all, and ran {busy:.3} of the time"
    );
    Ok(())
}

fn tcp_costs_what_it_receives() -> Result<()> {
    needs_two_cpus()?;
    let network = Network::direct()?;
    steer(&network.right, "lan")?;
    let [one, two, senders, burner] = ["one", "two", "senders", "burner"].map(Group::new);
    let (one, two, senders, burner) = (one?, two?, senders?, burner?);
    let mut followed = Followed::start_with(&often("cgroup"))?;
    // A CPU that idled between two loads would make each packet of the smaller one dearer.
    let _burning = agent(&burner, &network.left, RECEIVING_CPU, &["spin-one"])?;
    // A burst of writes is one segment, so the load is made of connections.
    let flow = |group, port, count| Flow {
        group,
        senders: &senders,
        network: &network,
        port,
        roles: ["tcp-paced", "tcp-sink"],
        rate: rate(4_000),
        count,
    };
    let flows = [flow(&one, 6001, 12), flow(&two, 6021, 4)];
    compare(&flows, &mut followed, TOGETHER, || Ok(())).map(drop)
}

/// With `SO_REUSEPORT` the kernel chooses the socket by flow; each reports its received packets.
fn siblings_cost_what_they_receive() -> Result<()> {
    needs_two_cpus()?;
    let network = Network::direct()?;
    steer(&network.right, "lan")?;
    let [one, two, senders, burner] = ["one", "two", "senders", "burner"].map(Group::new);
    let (one, two, senders, burner) = (one?, two?, senders?, burner?);
    let mut followed = Followed::start_with(&often("cgroup"))?;
    let _burning = agent(&burner, &network.left, RECEIVING_CPU, &["spin-one"])?;
    let to = std::net::SocketAddr::new(network.right_v4, 6001).to_string();
    let sink = |group| agent(group, &network.right, OTHER_CPU, &["udp-shared-sink", &to]);
    let sinks = [sink(&one)?, sink(&two)?];
    let (rate, cpu) = (rate(PACKETS / 2).to_string(), OTHER_CPU.to_string());
    let words = ["udp-paced", &to, &rate, &cpu];
    let source = |_| agent(&senders, &network.left, OTHER_CPU, &words);
    // The kernel divides sources at random: with few, one receiver could get nearly all of them, and the
    // other would wake for each packet.
    let _sources: Vec<Owned> = (0..24).map(source).collect::<Result<_>>()?;
    let before = [received(&sinks[0]), received(&sinks[1])];
    let sum = look(&mut followed, TOGETHER)?;
    let got = [0, 1].map(|at| received(&sinks[at]) - before[at]);
    let cost = [
        caused_by(&sum, &one, "rx_softirq")?,
        caused_by(&sum, &two, "rx_softirq")?,
    ];
    ensure!(got[0].min(got[1]) > 0.0, "all flows went to one of them");
    let (ratio, expected) = (cost[0] / cost[1], got[0] / got[1]);
    println!("\npackets as {expected:.2} to 1, cost as {ratio:.2} to 1");
    ensure!((ratio / expected - 1.0).abs() <= SIBLINGS);
    Ok(())
}

/// How many packets a sink has said that it received.
fn received(sink: &Owned) -> f64 {
    let stdout = sink.stdout();
    let mut counts = stdout.lines().rev().filter_map(|line| line.parse().ok());
    counts.next().unwrap_or(0.0)
}

/// Forwarding belongs to the interface, since there is no socket, and the rest to the receiver.
fn forwarded(network: &Network, part: &str) -> Result<()> {
    let (one, two, senders) = (
        Group::new("one")?,
        Group::new("two")?,
        Group::new("senders")?,
    );
    let mut followed = Followed::start_with(&often("cgroup"))?;
    let flow = |group, port, count| Flow {
        count,
        ..Flow::udp([group, &senders], network, port, rate(PACKETS))
    };
    let flows = [flow(&one, 6001, 12), flow(&two, 6101, 4)];
    let sum = compare(&flows, &mut followed, TOGETHER, || Ok(()))?;
    let whole = total(&sum, part)?;
    ensure!(whole > 0.0, "nothing was forwarded");
    // On a bridge a packet still knows the socket that sent it.
    let owned = caused_by_kind(&sum, OwnerKind::Interface, part)?
        + caused_by(&sum, &senders, part)?
        + caused_by(&sum, &one, part)?
        + caused_by(&sum, &two, part)?;
    let nobody = caused_by_kind(&sum, OwnerKind::Nobody, part)? / whole;
    println!("{part}: {:.3} known, {nobody:.3} nobody's", owned / whole);
    ensure!(owned / whole > 0.9 && nobody < 0.1);
    Ok(())
}

fn a_bridge_forwards() -> Result<()> {
    forwarded(&Network::bridged()?, "bridging")
}

fn a_router_forwards() -> Result<()> {
    forwarded(&Network::routed()?, "forwarding_v4")
}

/// A receiver that runs before all others works so long on each packet that its softirq would be nearly
/// all of what is charged, if that were the softirq's. On PREEMPT_RT it works before the softirq ends.
fn who_preempts_a_softirq_causes_none_of_its_time() -> Result<()> {
    const WORK_NS: &str = "5000000";
    const RATE: &str = "20";
    const LENGTH: Duration = Duration::from_secs(20);
    /// Of what both cause. Both get as many packets; to switch to a receiver at once is dearer.
    const MOST: f64 = 0.85;
    let network = Network::direct()?;
    let [urgent, patient, senders] = ["urgent", "patient", "senders"].map(Group::new);
    let (urgent, patient, senders) = (urgent?, patient?, senders?);
    let mut followed = Followed::start_with(&often("cgroup"))?;
    let to = |port| std::net::SocketAddr::new(network.right_v4, port).to_string();
    let sink = |group, words: &[&str]| agent(group, &network.right, OTHER_CPU, words);
    let _sinks = [
        sink(
            &urgent,
            &["urgently", "udp-works-first", &to(6001), WORK_NS],
        )?,
        sink(&patient, &["udp-sink", &to(6101)])?,
    ];
    let source = |port| {
        let words = ["udp-paced-bytes", &to(port), RATE, "64"];
        agent(&senders, &network.left, OTHER_CPU, &words)
    };
    let _sources = [source(6001)?, source(6101)?];
    // It times softirqs from begin to end, whoever preempts them.
    let truth = netto_truth::Truth::attach()?;
    let sum = look(&mut followed, LENGTH)?;
    let lasted_ns = |port| -> Result<u64> {
        let charged = truth.charged()?.into_iter();
        Ok(charged
            .filter(|charge| charge.ports[1] == port)
            .map(|charge| charge.ns)
            .sum())
    };
    println!(
        "\nfrom begin to end {} and {} ns",
        lasted_ns(6001)?,
        lasted_ns(6101)?
    );
    let [urgent, patient] = [&urgent, &patient].map(|group| caused_by(&sum, group, "rx_softirq"));
    let (urgent, patient) = (urgent?, patient?);
    let share = urgent / (urgent + patient);
    let whole_ns = total(&sum, "rx_softirq")?;
    println!("\n{share:.3} of both; {urgent:.0} and {patient:.0} of {whole_ns:.0} ns");
    ensure!(patient > 0.0 && share <= MOST);
    Ok(())
}

fn owners_sum_to_the_component() -> Result<()> {
    let network = Network::direct()?;
    let (one, senders) = (Group::new("one")?, Group::new("senders")?);
    let mut followed = Followed::start_with(&["--owners", "process"])?;
    let _load = Flow::udp([&one, &senders], &network, 6001, rate(20_000)).start()?;
    followed.catch_up()?;
    let mut figures = 0;
    for _ in 0..30 {
        figures += sums_hold(&followed.next()?)?;
    }
    ensure!(figures > 100, "only {figures} figures were not 0");
    Ok(())
}

fn processes_are_told_apart() -> Result<()> {
    let network = Network::direct()?;
    let (one, senders) = (Group::new("one")?, Group::new("senders")?);
    let mut followed = Followed::start_with(&often("process"))?;
    let flow = |port, rate| Flow::udp([&one, &senders], &network, port, rate);
    let loads = [
        flow(6001, rate(30_000)).start()?,
        flow(6002, rate(10_000)).start()?,
    ];
    // The holder of a socket is searched when it is first seen.
    std::thread::sleep(Duration::from_secs(2));
    let sum = look(&mut followed, ALONE)?;
    let owners = owners(&sum)?;
    let row = index_of("rx_softirq").context("no such row")?;
    let of_pid = |pid: u32| {
        let is_of_process = |place: &usize| owners.owners[*place].pid == pid;
        let places = (0..owners.owners.len()).filter(is_of_process);
        places
            .map(|place| owners.caused_ns(place as u32, row) as f64)
            .sum::<f64>()
    };
    let [[[_, many]], [[_, few]]] = [&loads[0][..], &loads[1][..]] else {
        bail!("not one receiver each");
    };
    let (many_ns, few_ns) = (of_pid(many.pid()), of_pid(few.pid()));
    println!("\n{many_ns:.0} ns and {few_ns:.0} ns");
    ensure!(
        few_ns > 0.0,
        "the process with fewer packets caused nothing"
    );
    let ratio = many_ns / few_ns;
    ensure!(
        (2.0..=4.0).contains(&ratio),
        "three times the packets cost {ratio:.2} times as much"
    );
    let whole = total(&sum, "rx_softirq")?;
    ensure!(
        (many_ns + few_ns) / whole > 0.8,
        "of the RX softirq both have {:.2}",
        (many_ns + few_ns) / whole
    );
    Ok(())
}

/// The price of a probe is measured seldom, and the kernel's own counts are in steps of a clock.
fn its_price_is_the_kernels() -> Result<()> {
    const PROGRAMS: [&str; 9] = [
        "netto_arrives",
        "netto_ready",
        "netto_readable",
        "netto_segment",
        "netto_no_room",
        "netto_leaves",
        "netto_dropped",
        "netto_tag_in",
        "netto_tag_out",
    ];
    let network = Network::direct()?;
    let (one, senders) = (Group::new("one")?, Group::new("senders")?);
    let mut followed = Followed::start_with(&["--owners", "cgroup", "--max-overhead", "5"])?;
    let _statistics = Statistics::enable()?;
    let _load = Flow::udp([&one, &senders], &network, 6001, rate(10_000)).start()?;
    // Prices are measured again five seconds after a load has become another.
    std::thread::sleep(Duration::from_secs(8));
    let pid = followed.pid();
    let spent_ns = || -> Result<u64> {
        let programs = kernels::programs(pid)?;
        let of = |name: &str| programs.get(name).map_or(0, |program| program.run_time_ns);
        Ok(PROGRAMS.into_iter().map(of).sum())
    };
    let before_ns = spent_ns()?;
    let sum = look(&mut followed, ALONE)?;
    let kernel_ns = (spent_ns()? - before_ns) as f64;
    let own_cost = sum.sections.own.as_ref().context("no own cost")?;
    let told_ns = own_cost
        .part_total_ns(OwnPart::Owners)
        .context("not known")? as f64;
    println!("\nthe kernel says {kernel_ns:.0} ns, netto {told_ns:.0} ns");
    ensure!(kernel_ns > 1e6, "the probes hardly ran");
    ensure!((1.0 / PRICE..=PRICE).contains(&(told_ns / kernel_ns)));
    Ok(())
}

/// Probes go after an interval or two that show it, and stay away for ten seconds at least.
fn note_becomes(daemon: &Daemon, is_told: bool) -> Result<()> {
    child::eventually(|| {
        let notes = daemon.info()?.notes;
        let count = notes.iter().filter(|note| note.contains(DETACHED)).count();
        ensure!(count == usize::from(is_told), "{notes:?}");
        Ok(())
    })
}

/// A daemon that tells so, and whose load has ended.
fn a_note_while_it_costs_too_much() -> Result<Daemon> {
    let network = Network::direct()?;
    // With less, windows may be a minute apart.
    let daemon = Daemon::start(&["--owners", "cgroup", "--max-overhead", "0.5"])?;
    let _load = traffic::udp_blast(&network.left, network.right_v4)?;
    note_becomes(&daemon, true)?;
    // Other features at the same hooks keep programs of their own.
    child::eventually(|| {
        let attached = attached_at(daemon.process.pid())?;
        let at = |hook: &str| attached.get(hook).cloned().unwrap_or_default();
        let (dropped, left) = (at("kfree_skb"), at("net_dev_queue"));
        let is_of_drops = |name: &String| name == "netto_drop";
        ensure!(dropped.iter().all(is_of_drops), "at kfree_skb {dropped:?}");
        ensure!(left.is_empty(), "at net_dev_queue {left:?}");
        Ok(())
    })?;
    met_in_windows(daemon.process.pid())?;
    Ok(daemon)
}

/// While they are not attached for good, packets are met for a part of each second.
fn met_in_windows(pid: u32) -> Result<()> {
    let _statistics = Statistics::enable()?;
    let runs = || -> Result<u64> {
        let programs = kernels::programs(pid)?;
        Ok(programs
            .get("netto_leaves")
            .map_or(0, |program| program.run_time_ns))
    };
    let before = runs()?;
    child::eventually(|| {
        ensure!(runs()? > before, "no packet was met in any window");
        Ok(())
    })
}
