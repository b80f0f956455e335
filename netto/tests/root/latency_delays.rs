//! Latencies: delays that are known beforehand, each of which comes out where it is and nowhere
//! else.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use metrics_common::latency::{Histogram, Point, bounds, bucket_of};

use crate::child::Owned;
use crate::groups::{Group, hierarchy};
use crate::kernels::Statistics;
use crate::lab::{Namespace, Network};
use crate::lab_itself::needs_kernel;
use crate::latency::{PORT, TURNS, address, answerer, ask, netns};
use crate::latency_talk::{Measured, MeasuredLatencies};
use crate::{bpf, burn, cpus, guest, programs, traffic, trial};

/// How long something is left to go on.
const MEASURED: Duration = Duration::from_secs(3);

fn median_ns(found: &MeasuredLatencies, point: Point) -> Result<u64> {
    let all = found.of(point).with_context(|| format!("no {point}"))?;
    let median = all.percentile(0.5);
    Ok(median.with_context(|| format!("nothing at {point}"))?.ns)
}

fn mean_ns(found: &MeasuredLatencies, point: Point) -> Result<u64> {
    let all = found.of(point).with_context(|| format!("no {point}"))?;
    ensure!(all.count() > 0, "nothing at {point}");
    Ok(all.sum_ns / all.count())
}

/// The same bucket, or one beside it.
fn is_within_a_bucket(found_ns: u64, expected_ns: u64) -> bool {
    match (bucket_of(found_ns), bucket_of(expected_ns)) {
        (Some(found), Some(expected)) => found.abs_diff(expected) <= 1,
        _ => false,
    }
}

fn talk(network: &Network) -> Result<MeasuredLatencies> {
    let to = address(network, PORT);
    let measured = Measured::start(&["--latency-netns", &netns(&network.right)?])?;
    let _answerer = answerer(&network.right, &to)?;
    ask(&network.left, &to, TURNS)?;
    measured.end()
}

/// The program runs before IP, and after the tracepoint that stands in for its beginning where
/// fentry is refused.
pub fn burnt() -> Result<()> {
    needs_kernel(6, 6, "tcx")?;
    let network = Network::direct()?;
    let without = talk(&network)?;
    let burn_ns = if guest::is_one() { "500000" } else { "50000" };
    let _program = traffic::agent(&network.right, &["burn", "lan", burn_ns])?;
    let sums = burn::sums()?;
    let with = talk(&network)?;
    let burnt = burn::read(&sums)?;
    let truth_ns = burnt.time_ns / burnt.packets.max(1);
    println!("\na program takes {truth_ns} ns of each packet; on average:");
    let by_fentry = with.method(Point::IpStart)?.contains("fentry");
    let behind = [
        Point::TcpStart,
        Point::UdpStart,
        Point::TcpSocketEnqueued,
        Point::UdpSocketEnqueued,
    ];
    let behind = behind
        .into_iter()
        .chain(by_fentry.then_some(Point::IpStart));
    for point in behind {
        let (base_ns, found_ns) = (mean_ns(&without, point)?, mean_ns(&with, point)?);
        println!("{point}: {base_ns} ns without it, {found_ns} with it");
        ensure!(
            is_within_a_bucket(found_ns, base_ns + truth_ns),
            "{point}: {found_ns} ns, not {base_ns} and {truth_ns}"
        );
    }
    if !by_fentry {
        let found_ns = mean_ns(&with, Point::IpStart)?;
        ensure!(found_ns < truth_ns, "ip-start: {found_ns} ns before it");
    }
    Ok(())
}

/// Programs before softirqs are enabled: so many that an interrupt of one of them hardly counts.
const COPIES: u64 = 8;

/// The programs run after the device of the other end was given a packet, which raises the softirq there,
/// and before softirqs are enabled again (`__dev_queue_xmit`).
pub fn raised() -> Result<()> {
    let network = Network::direct()?;
    let to = address(&network, PORT);
    let talk = || {
        let measured = Measured::start(&["--latency-points", "rx-softirq-wait"])?;
        let _answerer = answerer(&network.right, &to)?;
        ask(&network.left, &to, TURNS)?;
        measured.end()
    };
    let without = talk()?;
    let _statistics = Statistics::enable()?;
    let attached = (0..COPIES).map(|_| bpf::attach_working("raw_tp/net_dev_xmit"));
    let _programs = attached.collect::<Result<Vec<_>>>()?;
    let with = talk()?;
    let (runs, ran_ns) = programs::account(programs::by_kernel()?.id)?;
    let truth_ns = COPIES * ran_ns / runs.max(1);
    let [base_ns, found_ns] = [&without, &with].map(|found| mean_ns(found, Point::RxSoftirqWait));
    let (base_ns, found_ns) = (base_ns?, found_ns?);
    let count = with.count(Point::RxSoftirqWait)?;
    println!(
        "\n{COPIES} programs take {truth_ns} ns: {base_ns} ns without it, {found_ns} with it, {count} softirqs"
    );
    // Each message, and its answer, is a packet by itself.
    ensure!(count >= 4 * TURNS, "{count} softirqs");
    ensure!(
        is_within_a_bucket(found_ns, base_ns + truth_ns),
        "{found_ns} ns, not {base_ns} and {truth_ns}"
    );
    Ok(())
}

/// What arrives is sent through another device first, whose queue holds it back. The kernel takes
/// the stamp away there, and stamps again behind it (`skb_set_redirected`).
pub fn held_back_on_the_way_in() -> Result<()> {
    const DELAY_NS: u64 = 20_000_000;
    let network = Network::direct()?;
    let right = &network.right;
    right.ip("link add late type ifb")?;
    right.ip("link set late up")?;
    if right
        .run("tc", "qdisc add dev late root netem delay 20ms")
        .is_err()
    {
        return Err(trial::NotOnThisKernel("this kernel has no netem".to_owned()).into());
    }
    right.run("tc", "qdisc add dev lan ingress")?;
    right.run(
        "tc",
        "filter add dev lan parent ffff: protocol all matchall action mirred egress redirect dev late",
    )?;
    let found = talk(&network)?;
    found.print();
    let queued_ns = median_ns(&found, Point::Qdisc)?;
    ensure!(
        is_within_a_bucket(queued_ns, DELAY_NS),
        "in the queue for {queued_ns} ns, not {DELAY_NS}"
    );
    for point in [
        Point::IpStart,
        Point::TcpStart,
        Point::UdpStart,
        Point::UdpSocketEnqueued,
    ] {
        let found_ns = median_ns(&found, point)?;
        ensure!(found_ns < DELAY_NS / 2, "{point}: {found_ns} ns");
    }
    Ok(())
}

/// Most CPU time of a group in each period.
const QUOTA_NS: u64 = 10_000_000;
const PERIOD_NS: u64 = 100_000_000;
/// Datagrams a second to it.
const PER_SECOND: &str = "150";

/// An agent in a group.
pub fn in_group(group: &Group, at: &Namespace, words: &[&str]) -> Result<Owned> {
    let binary = std::env::current_exe()?;
    let binary = binary.to_str().context("no UTF-8 path")?;
    let mut inner = at.command(binary);
    inner.arg("agent").args(words);
    let mut agent = Owned::start(&mut group.command(&inner))?;
    agent.wait_for_line("ready")?;
    Ok(agent)
}

/// Lets a group run for a part of each period only.
pub fn limit(group: &Group) -> Result<()> {
    if fs::write(hierarchy()?.join("cgroup.subtree_control"), "+cpu").is_err() {
        let reason = "CPU time of control groups cannot be limited here";
        return Err(trial::NotOnThisKernel(reason.to_owned()).into());
    }
    let quota = format!("{} {}", QUOTA_NS / 1000, PERIOD_NS / 1000);
    fs::write(group.folder().join("cpu.max"), quota).context("no quota")
}

/// An agent in a group, on the last CPU.
pub fn reader_in(group: &Group, at: &Namespace, words: &[&str]) -> Result<Owned> {
    let cpu = (cpus::count()? - 1).to_string();
    in_group(group, at, &[&["on", &cpu], words].concat())
}

/// A reader that never sleeps, and may not run for most of the time: it reads at once or when its
/// next period begins.
pub fn throttled() -> Result<()> {
    let group = Group::new("throttled")?;
    limit(&group)?;
    let network = Network::direct()?;
    let to = address(&network, PORT);
    let measured = Measured::start(&["--latency-netns", &netns(&network.right)?])?;
    let reader = reader_in(&group, &network.right, &["udp-spin-sink", &to])?;
    let sender = traffic::agent(&network.left, &["udp-paced", &to, PER_SECOND, "0"])?;
    std::thread::sleep(MEASURED);
    drop((sender, reader));
    let found = measured.end()?;
    found.print();
    // Nearly all come while it may not run, and wait for anything up to all of that.
    let longest_ns = PERIOD_NS - QUOTA_NS;
    for point in [Point::UdpSocketRead, Point::UdpReadWait] {
        let all = found.of(point).context("not measured")?;
        let found_ns = all.percentile(0.9).map_or(0, |found| found.ns);
        let expected_ns = longest_ns - PERIOD_NS / 10;
        ensure!(
            is_within_a_bucket(found_ns, expected_ns),
            "{point}: nine of ten {found_ns} ns and less, not {expected_ns}"
        );
        let median_ns = median_ns(&found, point)?;
        ensure!(median_ns > longest_ns / 10, "{point}: {median_ns} ns");
    }
    let enqueued_ns = median_ns(&found, Point::UdpSocketEnqueued)?;
    ensure!(
        enqueued_ns < PERIOD_NS / 100,
        "enqueued after {enqueued_ns} ns"
    );
    Ok(())
}

/// Three of twenty segments are lost, every other one, lest the kernel makes one of what waits
/// between them, with one stamp (`tcp_ooo_try_coalesce`). The first is sent again when three more
/// have come.
const SEGMENTS_A_SECOND: &str = "20";
/// Longer latencies occur only after a lost segment.
const LONG_NS: u64 = 40_000_000;
/// Long enough for some losses.
const SENT: Duration = Duration::from_secs(8);

fn share_of_long(found: &MeasuredLatencies) -> Result<f64> {
    let all: Histogram = found.of(Point::TcpSocketRead).context("not measured")?;
    let counts = all.counts().iter().enumerate();
    let long = counts.filter(|(bucket, _)| bounds(*bucket).lower_ns >= LONG_NS);
    let long: u64 = long.map(|(_, count)| *count).sum();
    ensure!(all.count() > 40, "only {} segments", all.count());
    Ok(long as f64 / all.count() as f64)
}

pub fn blocked_by_an_earlier_segment() -> Result<()> {
    let network = Network::direct()?;
    for host in [&network.left, &network.right] {
        // A feature that would resend a lost segment before three more have arrived.
        host.sysctl("net/ipv4/tcp_early_retrans", "0")?;
        host.sysctl("net/ipv4/tcp_recovery", "0")?;
    }
    network.right.nft(&format!(
        "table ip lossy {{\nchain in {{\ntype filter hook prerouting priority -300;\n\
         tcp dport {PORT} meta length > 200 numgen inc mod 20 vmap {{ 5 : drop, 7 : drop, 9 : drop }}\n}}\n}}\n"
    ))?;
    let to = address(&network, PORT);
    let netns = netns(&network.right)?;
    let mut shares = Vec::new();
    for option in ["--latency-include-hol=false", "--latency-include-hol"] {
        let measured = Measured::start(&[option, "--latency-netns", &netns])?;
        let reader = traffic::agent(&network.right, &["tcp-reads", &to])?;
        let sender = traffic::agent(&network.left, &["tcp-ticks", &to, SEGMENTS_A_SECOND])?;
        std::thread::sleep(SENT);
        drop((sender, reader));
        shares.push(share_of_long(&measured.end()?)?);
    }
    println!(
        "\nof segments read, {:.3} were older than {LONG_NS} ns, with those that waited for an \
         earlier one {:.3}",
        shares[0], shares[1]
    );
    ensure!(shares[0] < 0.005 && shares[1] > 0.015);
    Ok(())
}

/// Two answerers in groups of their own; one is asked twice as often.
pub fn grouped_by_owner() -> Result<()> {
    let network = Network::direct()?;
    let netns = netns(&network.right)?;
    let groups = [Group::new("asked")?, Group::new("asked-twice")?];
    let measured = Measured::start(&["--latency-group", "owner", "--latency-netns", &netns])?;
    let mut answerers = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        let to = address(&network, PORT + number as u16);
        answerers.push(in_group(group, &network.right, &["answer-late", &to, "0"])?);
        ask(&network.left, &to, TURNS * (1 + number as u64))?;
    }
    let found = measured.end()?;
    for point in [
        Point::UdpSocketEnqueued,
        Point::UdpSocketRead,
        Point::TcpSocketRead,
    ] {
        for (number, group) in groups.iter().enumerate() {
            let all = found.0.iter().flat_map(|latency| &latency.groups);
            let of_group = all.filter(|distribution| {
                distribution.point == point && distribution.name.as_deref() == Some(group.path())
            });
            let count: u64 = of_group
                .map(|distribution| distribution.histogram.count())
                .sum();
            let expected = TURNS * (1 + number as u64);
            ensure!(
                count == expected,
                "{count} packets of {} at {point}, of {expected}",
                group.path()
            );
        }
        ensure!(found.count(point)? == 3 * TURNS);
    }
    Ok(())
}
