//! Owners at the defaults, held against programs of the tests' own that time each packet of a
//! softirq: who caused its time, by port, and who paid for it, by interrupted control group.

use std::collections::BTreeMap;
use std::fs;
use std::iter::zip;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use metrics_common::component::{children, index_of};
use metrics_common::sections::{Bounds, OwnPart};
use metrics_common::{COMPONENTS, OwnerKind, Snapshot, confidence};
use netto_truth::Truth;

use crate::burners::softirq_counts;
use crate::child::Owned;
use crate::flows::{
    OTHER_CPU, RECEIVING_CPU, agent, caused_by, caused_by_kind, look, needs_two_cpus, owners,
    steer, total,
};
use crate::follow::Followed;
use crate::groups::Group;
use crate::kernels::{self, Statistics};
use crate::lab::Network;
use crate::trial::tests;

tests! {
    truth::ten_seconds_have_causes_and_payers_that_are_nearly_true ["ip"] = ten_seconds;
    truth::of_1000_packets_a_second_causes_and_payers_are_true ["ip"] = || inline([750, 250]);
    truth::of_10000_packets_a_second_causes_and_payers_are_true ["ip"] = || inline([7_500, 2_500]);
    truth::of_40000_packets_a_second_causes_and_payers_are_true ["ip"]
        = || inline([30_000, 10_000]);
    truth::of_the_most_packets_a_second_causes_and_payers_are_true ["ip"]
        = most;
    truth::of_packets_steered_to_another_cpu_causes_and_payers_are_true ["ip"] = steered;
    truth::of_steered_packets_at_3_to_1_beside_a_victim_causes_and_payers_are_true ["ip"]
        = || steered_beside_a_victim(Network::direct()?, [(30_000, 64), (10_000, 64)]);
    truth::of_steered_packets_at_20_to_1_beside_a_victim_causes_and_payers_are_true ["ip"]
        = || steered_beside_a_victim(Network::direct()?, [(38_100, 64), (1_900, 64)]);
    truth::of_steered_packets_of_64_and_1400_bytes_beside_a_victim_causes_and_payers_are_true ["ip"]
        = || steered_beside_a_victim(Network::direct()?, [(20_000, 64), (20_000, 1_400)]);
    truth::of_1000_steered_packets_beside_a_victim_causes_and_payers_are_true ["ip"]
        = || steered_beside_a_victim(Network::direct()?, [(750, 64), (250, 64)]);
    truth::of_10000_steered_packets_beside_a_victim_causes_and_payers_are_true ["ip"]
        = || steered_beside_a_victim(Network::direct()?, [(7_500, 64), (2_500, 64)]);
    truth::of_the_most_steered_packets_beside_a_victim_causes_and_payers_are_true ["ip"]
        = || steered_beside_a_victim(Network::direct()?, [(3_000_000, 64), (1_000_000, 64)]);
    truth::of_packets_steered_to_their_reader_beside_a_victim_causes_and_payers_are_true ["ip"]
        = steered_to_their_reader;
    truth::of_packets_steered_behind_a_bridge_beside_a_victim_causes_and_payers_are_true ["ip", "bridge"]
        = || steered_beside_a_victim(Network::bridged()?, [(30_000, 64), (10_000, 64)]);
    truth::of_a_router_beside_busy_sockets_causes_and_payers_are_true ["ip"] = router;
    truth::of_a_tcp_bulk_sender_causes_and_payers_are_true ["ip"] = tcp_bulk;
    truth::of_processes_causes_and_payers_are_true ["ip"] = processes;
    truth::of_a_host_with_many_groups_causes_and_payers_are_true ["ip"] = many_groups;
}

/// How long a scene is measured, and what is asked of it.
struct Asked {
    /// Before it: prices are learnt, and windows begin.
    warm_up: Duration,
    length: Duration,
    /// Of netto, per cent of a CPU.
    max_overhead: &'static str,
    /// Of netto, too.
    owners: &'static str,
    period_ms: &'static str,
    /// Tolerance of a share, and of the whole, to which probes add that are always attached.
    tolerance: f64,
    of_whole: f64,
    /// Whether the whole is measured once more without the truth's programs: where softirqs are about
    /// as short as these, and the call of a second program at a tracepoint, these are much of what
    /// netto times. The mean length of a softirq by netto and by the truth are then compared.
    is_alone: bool,
    /// Largest part of the time whose cause is unknown.
    unknown: f64,
}

const MINUTE: Asked = Asked {
    warm_up: Duration::from_secs(15),
    length: Duration::from_secs(60),
    max_overhead: "1",
    owners: "cgroup",
    period_ms: "500",
    tolerance: 0.10,
    of_whole: 0.10,
    is_alone: false,
    unknown: 0.05,
};
/// Whatever else the host does.
const ROUGHLY: Asked = Asked {
    // Whatever it costs, there is nothing to learn.
    warm_up: Duration::from_secs(2),
    length: Duration::from_secs(10),
    max_overhead: "100",
    owners: "cgroup",
    period_ms: "500",
    tolerance: 0.40,
    of_whole: 1.0,
    is_alone: false,
    unknown: 0.2,
};
/// Least share that is held to the tolerance, but for receivers': of less there are too few samples in a
/// minute. A receiver's share is held to its interval, where that is wider.
const HELD: f64 = 0.25;
/// Ports of flows to the first group, to the second, and to nobody.
const PORTS: [u16; 3] = [6001, 6101, 6201];

/// Who receives and who sends.
struct Groups {
    one: Group,
    two: Group,
    senders: Group,
    /// Who only burns CPU time.
    victim: Group,
}

impl Groups {
    fn new() -> Result<Groups> {
        Ok(Groups {
            one: Group::new("one")?,
            two: Group::new("two")?,
            senders: Group::new("senders")?,
            victim: Group::new("victim")?,
        })
    }

    fn all(&self) -> [(&'static str, &Group); 4] {
        [
            ("one", &self.one),
            ("two", &self.two),
            ("senders", &self.senders),
            ("victim", &self.victim),
        ]
    }
}

/// A sender of datagrams at this rate, on the CPU that does not receive steered packets.
fn source(
    groups: &Groups,
    network: &Network,
    to: SocketAddr,
    (rate, bytes): (u64, usize),
) -> Result<Owned> {
    let (rate, bytes, to) = (rate.to_string(), bytes.to_string(), to.to_string());
    let words = ["udp-paced-bytes", &to, &rate, &bytes];
    agent(&groups.senders, &network.left, OTHER_CPU, &words)
}

fn sink(group: &Group, network: &Network, role: &str, port: u16) -> Result<(Owned, SocketAddr)> {
    let at = SocketAddr::new(network.right_v4, port);
    let sink = agent(
        group,
        &network.right,
        RECEIVING_CPU,
        &[role, &at.to_string()],
    )?;
    Ok((sink, at))
}

/// Flows of small packets to both groups.
fn flows(groups: &Groups, network: &Network, rates: [u64; 2]) -> Result<Vec<Owned>> {
    flows_of(groups, network, "udp-sink", rates.map(|rate| (rate, 64)))
}

/// Flows of these rates and sizes to both groups.
fn flows_of(
    groups: &Groups,
    network: &Network,
    reader: &str,
    flows: [(u64, usize); 2],
) -> Result<Vec<Owned>> {
    let mut agents = Vec::new();
    for ((group, port), flow) in [&groups.one, &groups.two].into_iter().zip(PORTS).zip(flows) {
        let (sink, at) = sink(group, network, reader, port)?;
        agents.push(sink);
        agents.push(source(groups, network, at, flow)?);
    }
    Ok(agents)
}

/// Softirqs run on the CPU that sends, on top of the sender.
fn inline(rates: [u64; 2]) -> Result<()> {
    inline_with(rates, &MINUTE)
}

fn inline_with(rates: [u64; 2], asked: &Asked) -> Result<()> {
    needs_two_cpus()?;
    let (groups, network) = (Groups::new()?, Network::direct()?);
    let _agents = flows(&groups, &network, rates)?;
    held_against_the_truth(&groups, asked)
}

/// As many packets as the senders can.
fn most() -> Result<()> {
    let asked = Asked {
        is_alone: true,
        ..MINUTE
    };
    inline_with([3_000_000, 1_000_000], &asked)
}

/// Every packet is met, whatever that costs.
fn ten_seconds() -> Result<()> {
    inline_with([22_500, 7_500], &ROUGHLY)
}

/// Softirqs of sockets run on the other CPU; those of the sending CPU only wake it.
fn steered() -> Result<()> {
    needs_two_cpus()?;
    let (groups, network) = (Groups::new()?, Network::direct()?);
    steer(&network.right, "lan")?;
    let _agents = flows(&groups, &network, [20_000, 8_000])?;
    held_against_the_truth(&groups, &MINUTE)
}

/// The same at the defaults, and with somebody who keeps the receivers' CPU busy.
fn steered_beside_a_victim(network: Network, flows: [(u64, usize); 2]) -> Result<()> {
    needs_two_cpus()?;
    let groups = Groups::new()?;
    steer(&network.right, "lan")?;
    beside_a_victim(&groups, &network, "udp-sink", flows)
}

fn beside_a_victim(
    groups: &Groups,
    network: &Network,
    reader: &str,
    flows: [(u64, usize); 2],
) -> Result<()> {
    let _agents = flows_of(groups, network, reader, flows)?;
    let _victim = agent(&groups.victim, &network.left, RECEIVING_CPU, &["spin-one"])?;
    let asked = Asked {
        period_ms: "1000",
        ..MINUTE
    };
    held_against_the_truth(groups, &asked)
}

/// Packets go to the CPU on which their socket is read (RFS), which the kernel notes of connected ones.
fn steered_to_their_reader() -> Result<()> {
    needs_two_cpus()?;
    let (groups, network) = (Groups::new()?, Network::direct()?);
    let _flows = FlowTable::new()?;
    let both = "echo 3 > /sys/class/net/lan/queues/rx-0/rps_cpus; echo 4096 > /sys/class/net/lan/queues/rx-0/rps_flow_cnt";
    network.right.run_script(both)?;
    let flows = [(30_000, 64), (10_000, 64)];
    beside_a_victim(&groups, &network, "udp-connected-sink", flows)
}

/// The host's table of the CPUs on which flows are read, which is given back.
struct FlowTable(String);

impl FlowTable {
    const PATH: &str = "/proc/sys/net/core/rps_sock_flow_entries";

    fn new() -> Result<FlowTable> {
        let before = fs::read_to_string(Self::PATH)?;
        fs::write(Self::PATH, "4096")?;
        Ok(FlowTable(before))
    }
}

impl Drop for FlowTable {
    fn drop(&mut self) {
        let _ = fs::write(Self::PATH, self.0.trim());
    }
}

/// Packets that are forwarded, and dropped behind the router, on the CPU on which others receive.
fn router() -> Result<()> {
    needs_two_cpus()?;
    let (groups, network, routed) = (Groups::new()?, Network::direct()?, Network::routed()?);
    let _agents = flows(&groups, &network, [6_000, 3_000])?;
    let nobody = SocketAddr::new(routed.nobody_v4, PORTS[2]);
    let _forwarded = source(&groups, &routed, nobody, (10_000, 64))?;
    held_against_the_truth(&groups, &MINUTE)
}

/// Data to one group, and acknowledgements to the senders.
fn tcp_bulk() -> Result<()> {
    needs_two_cpus()?;
    let (groups, network) = (Groups::new()?, Network::direct()?);
    let (_sink, to) = sink(&groups.one, &network, "tcp-sink", PORTS[0])?;
    let words = ["tcp-blast", &to.to_string()];
    let _source = agent(&groups.senders, &network.left, OTHER_CPU, &words)?;
    held_against_the_truth(&groups, &MINUTE)
}

/// Owners are the processes that hold sockets, each of which is in a group of the scene.
fn processes() -> Result<()> {
    needs_two_cpus()?;
    let (groups, network) = (Groups::new()?, Network::direct()?);
    let _agents = flows(&groups, &network, [7_500, 2_500])?;
    let asked = Asked {
        owners: "process",
        ..MINUTE
    };
    held_against_the_truth(&groups, &asked)
}

/// So many that no program is attached to them: sockets are met otherwise.
fn many_groups() -> Result<()> {
    needs_two_cpus()?;
    let others = Group::new("others")?;
    for number in 0..1_001 {
        fs::create_dir(others.folder().join(number.to_string()))?;
    }
    let (groups, network) = (Groups::new()?, Network::direct()?);
    let _agents = flows(&groups, &network, [7_500, 2_500])?;
    held_against_the_truth(&groups, &MINUTE)
}

/// Shares of the time of RX softirqs: caused and paid, by name.
type Shares = BTreeMap<(&'static str, &'static str), f64>;

/// Runs netto at its defaults and the truth's programs beside the load.
fn held_against_the_truth(groups: &Groups, asked: &Asked) -> Result<()> {
    let options = [
        ["--user-period", asked.period_ms],
        ["--max-overhead", asked.max_overhead],
        ["--owners", asked.owners],
    ];
    let mut followed = Followed::start_with(&options.concat())?;
    std::thread::sleep(asked.warm_up);
    let truth = Truth::attach()?;
    let sum = look(&mut followed, asked.length)?;
    let charged = truth.charged()?;
    let number = truth.number()? as f64;
    let run_ns = runs_ns()?;
    // One of them is in a softirq's time by netto: that at its end where netto's were attached later,
    // and that at its begin otherwise.
    let own_ns = number * run_ns[0].max(run_ns[2]);
    drop(truth);
    let rx = index_of("rx_softirq").context("a component")?;
    println!(
        "RX softirq: {:?}",
        followed.info.components[rx].availability
    );
    println!("{:?}", followed.info.notes);
    let probes = followed.info.probes.iter();
    let meeting = probes.filter(|probe| probe.purpose == "owners" && probe.failure.is_none());
    println!("{:?}", meeting.map(|probe| &probe.name).collect::<Vec<_>>());
    let shares = of_netto(groups, &sum)?;
    let mut true_shares = of_truth(groups, &charged)?;
    // What was found and is not true counts as well.
    for what in shares.keys() {
        true_shares.entry(*what).or_default();
    }
    let intervals = intervals_of(groups, &sum)?;
    println!();
    let mut wrong = Vec::new();
    for (what, expected) in &true_shares {
        let found = shares.get(what).copied().unwrap_or(0.0);
        let interval = intervals.get(what).map_or_else(String::new, |(low, high)| {
            format!(" ({low:.3} to {high:.3})")
        });
        println!(
            "{} {:10} {found:.3}{interval}, in truth {expected:.3}",
            what.0, what.1
        );
        let is_receiver = ["one", "two"].contains(&what.1) && what.0 == "caused";
        let is_within = intervals
            .get(what)
            .is_some_and(|(low, high)| (low..=high).contains(&expected));
        let is_right = if is_receiver || *expected >= HELD {
            (found / expected - 1.0).abs() <= asked.tolerance || is_within
        } else {
            (found - expected).abs() <= HELD * asked.tolerance
        };
        if !is_right {
            wrong.push(what);
        }
    }
    let whole = total(&sum, "rx_softirq")?;
    let of_kind = |kind| caused_by_kind(&sum, kind, "rx_softirq").map(|ns| ns / whole);
    let unknown = of_kind(OwnerKind::Unknown)?;
    tell_of_cpus(&sum)?;
    println!(
        "nobody {:.3}, unknown {unknown:.3}",
        of_kind(OwnerKind::Nobody)?
    );
    let true_ns = charged.iter().map(|charge| charge.ns).sum::<u64>() as f64;
    let most_ns = true_ns + own_ns;
    let bounds = confidence::of_component(&followed.info, &sum, rx);
    let seconds = |(low, high)| [low, high].map(|ns: u64| ns as f64 / 1e9);
    println!(
        "{:.3} s ({:.3?}), in truth {:.3} s, with its own programs {:.3} s",
        whole / 1e9,
        bounds.map(seconds),
        true_ns / 1e9,
        most_ns / 1e9
    );
    let own_cost = sum
        .sections
        .own
        .as_ref()
        .context("netto's own cost is unknown")?;
    for part in OwnPart::ALL {
        let Some(cpus_ns) = own_cost.part_ns(part) else {
            continue;
        };
        let ratios = cpus_ns
            .iter()
            .map(|ns| *ns as f64 / sum.interval_ns as f64 * 100.0);
        println!("{} {:.3?} %", part.slug(), ratios.collect::<Vec<_>>());
    }
    let relative_error = if asked.is_alone {
        // A softirq has one packet here, and the truth's program at it.
        let expected_ns = true_ns / number - run_ns[1];
        let [low, found, high] = means_of_netto_ns(&mut followed, asked, rx)?;
        println!(
            "a softirq without the truth's programs: {found:.0} ns ({low:.0} to {high:.0}), in truth {expected_ns:.0}"
        );
        ensure!(
            (low..=high).contains(&expected_ns),
            "the interval of the mean does not have the truth"
        );
        (found / expected_ns - 1.0).abs()
    } else {
        (whole / whole.clamp(true_ns, most_ns) - 1.0).abs()
    };
    ensure!(
        relative_error <= asked.of_whole,
        "the whole is {relative_error:.3} off"
    );
    ensure!(unknown <= asked.unknown, "unknown: {unknown:.3}");
    ensure!(wrong.is_empty(), "wrong: {wrong:?}");
    Ok(())
}

/// Prints what each CPU's part of the RX softirq took, and how much of it has no owner.
fn tell_of_cpus(sum: &Snapshot) -> Result<()> {
    let owners = owners(sum)?;
    for part in children(index_of("rx_softirq").context("a component")?) {
        let Some(times) = sum.cost().cpu_ns(*part) else {
            continue;
        };
        let of_kind = |kind, column: usize| {
            let caused = owners.caused.iter().filter(|share| {
                share.component as usize == *part
                    && owners.owners[share.owner as usize].kind == kind
            });
            caused.map(|share| share.cpu_ns[column]).sum::<u64>()
        };
        let slug = COMPONENTS[*part].slug;
        for (column, ns) in times.iter().enumerate().filter(|(_, ns)| **ns > 1_000_000) {
            let [nobody, unknown] =
                [OwnerKind::Nobody, OwnerKind::Unknown].map(|kind| of_kind(kind, column));
            println!(
                "CPU {column} {slug}: {} ms, nobody {}, unknown {}",
                ns / 1_000_000,
                nobody / 1_000_000,
                unknown / 1_000_000
            );
        }
    }
    for basis in owners
        .basis
        .iter()
        .filter(|basis| basis.total_ns() > 1_000_000)
    {
        println!("{} {basis:?}", COMPONENTS[basis.component as usize].slug);
    }
    Ok(())
}

/// The mean length of a NET_RX softirq by netto with its 95 % interval, nanoseconds, once netto has
/// forgotten what was before.
fn means_of_netto_ns(followed: &mut Followed, asked: &Asked, rx: usize) -> Result<[f64; 3]> {
    std::thread::sleep(asked.length);
    let number = || anyhow::Ok(softirq_counts()?["NET_RX"]);
    let before = number()?;
    let sum = look(followed, asked.length)?;
    let number = (number()? - before) as f64;
    let bounds = confidence::of_component(&followed.info, &sum, rx);
    let (low, high) = bounds.context("no interval")?;
    let whole = total(&sum, "rx_softirq")?;
    Ok([low as f64, whole, high as f64].map(|ns| ns / number))
}

/// What a run of the truth's programs takes at the begin of a softirq, at a packet, and at the end, by the
/// kernel's statistics, nanoseconds. Their own looks at the clock are in it, and the call is not.
fn runs_ns() -> Result<[f64; 3]> {
    let _statistics = Statistics::enable()?;
    std::thread::sleep(Duration::from_millis(500));
    let programs = kernels::programs(std::process::id())?;
    let mut runs_ns = [0.0; 3];
    for (run_ns, name) in runs_ns
        .iter_mut()
        .zip(["truth_in", "truth_packet", "truth_out"])
    {
        let program = programs.get(name).with_context(|| format!("no {name}"))?;
        ensure!(program.runs > 0, "{name} did not run");
        *run_ns = program.run_time_ns as f64 / program.runs as f64;
    }
    println!("runs of the truth's programs: {runs_ns:.0?} ns");
    Ok(runs_ns)
}

/// A softirq without a packet wakes another CPU for packets, and is caused as packets are.
fn of_truth(groups: &Groups, charged: &[netto_truth::Charged]) -> Result<Shares> {
    let sum = |wanted: &dyn Fn(&&netto_truth::Charged) -> bool| {
        charged
            .iter()
            .filter(wanted)
            .map(|charge| charge.ns)
            .sum::<u64>() as f64
    };
    let (whole, received) = (sum(&|_| true), sum(&|charge| charge.ports != [0, 0]));
    ensure!(received > 0.0, "no packet was received");
    let mut shares = Shares::new();
    for charge in charged {
        let [from, to] = charge.ports;
        let cause = match PORTS.iter().position(|port| *port == to) {
            Some(_) if charge.is_bridged => Some("interface"),
            Some(0) => Some("one"),
            Some(1) => Some("two"),
            Some(_) => Some("interface"),
            None => PORTS.contains(&from).then_some("senders"),
        };
        if let Some(cause) = cause {
            *shares.entry(("caused", cause)).or_default() += charge.ns as f64 / received;
        }
        for (name, group) in groups.all() {
            if charge.cgroup == group.id()? {
                *shares.entry(("paid", name)).or_default() += charge.ns as f64 / whole;
            }
        }
    }
    Ok(shares)
}

fn of_netto(groups: &Groups, sum: &Snapshot) -> Result<Shares> {
    let whole = total(sum, "rx_softirq")?;
    let owners = owners(sum)?;
    let mut shares = Shares::new();
    for (name, group) in groups.all() {
        let caused = caused_by(sum, group, "rx_softirq")? / whole;
        shares.insert(("caused", name), caused);
        let of_group = |place: u32| owners.owners[place as usize].cgroup == group.path();
        let paid = owners.taken.iter().filter(|taken| of_group(taken.payer));
        let paid_ns: u64 = paid.map(|taken| taken.ns).sum();
        shares.insert(("paid", name), paid_ns as f64 / whole);
    }
    let of_interfaces = caused_by_kind(sum, OwnerKind::Interface, "rx_softirq")? / whole;
    shares.insert(("caused", "interface"), of_interfaces);
    Ok(shares)
}

/// From and to.
type Intervals = BTreeMap<(&'static str, &'static str), (f64, f64)>;

/// The 95 % intervals of these shares, of groups that are one owner.
fn intervals_of(groups: &Groups, sum: &Snapshot) -> Result<Intervals> {
    let whole = total(sum, "rx_softirq")?;
    let event = index_of("rx_softirq").context("a component")?;
    let owners = owners(sum)?.of_component(event);
    let accounts = owners.intervals().accounts;
    let share = |(low, high): Bounds| (low as f64 / whole, high as f64 / whole);
    let mut intervals = BTreeMap::new();
    for (name, group) in groups.all() {
        let path = group.path();
        let of_group = zip(&owners.owners, &accounts)
            .filter(|(owner, _)| owner.cgroup == path && owner.kind != OwnerKind::Interface);
        let [(_, account)] = of_group.collect::<Vec<_>>()[..] else {
            continue;
        };
        for (what, bounds) in [
            ("caused", account.caused_interval_ns),
            ("paid", account.stalled_interval_ns),
        ] {
            if let Some(bounds) = bounds {
                intervals.insert((what, name), share(bounds));
            }
        }
    }
    Ok(intervals)
}
