//! Latencies beside those of a plain script of bpftrace at the same functions, in the same run.
//!
//! By name only, in a guest of a kernel that allows fentry, which gets the program:
//! `cargo xtask vm --kernel 6.12 --icount --tool bpftrace -- bpftrace::`

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use metrics_common::latency::{Point, bounds};
use nix::time::{ClockId, clock_gettime};
use serde_json::Value;

use crate::child::{self, Owned};
use crate::cpus;
use crate::groups::Group;
use crate::lab::Network;
use crate::latency::{PORT, address, netns};
use crate::latency_delays::{limit, reader_in};
use crate::latency_talk::{Measured, MeasuredLatencies};
use crate::traffic;
use crate::trial::tests;

tests! {
    bpftrace::a_plain_script_at_the_same_functions_counts_the_same ["ip", "bpftrace"]
        = beside_bpftrace;
    bpftrace::softirqs_wait_as_long_by_a_plain_script ["ip", "bpftrace"] = softirqs;
}

/// Time to compile the script in an emulated guest.
const COMPILES: Duration = Duration::from_secs(240);
const MEASURED: Duration = Duration::from_secs(20);
const PER_SECOND: &str = "100";
/// It says that it begins before it is at all functions.
const ATTACHES: Duration = Duration::from_secs(3);
/// Tolerance of a bucket's counts.
const TOLERANCE: f64 = 0.02;

/// In a shorter bucket the time that one program takes before the other is more than that: with
/// counted instructions, which is with one CPU, a microsecond.
fn least_ns() -> Result<u64> {
    Ok(match cpus::count()? {
        1 => 1 << 16,
        _ => 1 << 24,
    })
}

/// Nanoseconds of a clock.
fn now_ns(clock: ClockId) -> Result<i64> {
    let now = clock_gettime(clock)?;
    Ok(now.tv_sec() * 1_000_000_000 + now.tv_nsec())
}

/// Histograms by powers of two, of what sockets of one port read: the stamp of each against the
/// clock of the day, which is what bpftrace's own is and this offset.
fn script(offset_ns: i64) -> String {
    let is_meant = format!("if (args->sk->__sk_common.skc_num == {PORT})");
    format!(
        "BEGIN {{ printf(\"ready\\n\"); }}\n\
         kfunc:skb_consume_udp {{ {is_meant} {{ \
         @udp = hist(nsecs + {offset_ns} - args->skb->tstamp); }} }}\n\
         kfunc:tcp_recv_timestamp {{ {is_meant} {{ \
         @tcp = hist(nsecs + {offset_ns} - args->tss->ts[0].tv_sec * 1000000000 \
         - args->tss->ts[0].tv_nsec); }} }}\n"
    )
}

/// Counts by the lower end of a power of two, as the script has them.
fn of_script(printed: &str, name: &str) -> Result<BTreeMap<u64, u64>> {
    let lines = printed
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut found = lines.filter_map(|line| Some(line["data"].get(format!("@{name}"))?.clone()));
    let buckets = found
        .next()
        .with_context(|| format!("no @{name} in {printed}"))?;
    let buckets = buckets.as_array().context("no histogram")?;
    let one = |bucket: &Value| Some((bucket["min"].as_u64()?, bucket["count"].as_u64()?));
    Ok(buckets
        .iter()
        .filter_map(one)
        .filter(|(_, count)| *count > 0)
        .collect())
}

/// The same of netto's.
fn of_netto(found: &MeasuredLatencies, point: Point) -> Result<BTreeMap<u64, u64>> {
    let all = found.of(point).context("not measured")?;
    let mut powers = BTreeMap::new();
    for (bucket, count) in all
        .counts()
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
    {
        let lower_ns = bounds(bucket).lower_ns;
        let power = lower_ns.checked_ilog2().map_or(0, |power| 1 << power);
        *powers.entry(power).or_insert(0) += count;
    }
    Ok(powers)
}

/// Runs a script; returns once it is at all of its hooks.
fn traced(script: &str) -> Result<Owned> {
    let mut file = tempfile::NamedTempFile::new()?;
    file.write_all(script.as_bytes())?;
    let mut command = child::mortal("bpftrace");
    command.args(["-f", "json"]).arg(file.path());
    let tracer = Owned::start(&mut command)?;
    child::within(COMPILES, || {
        let (stdout, complained) = (tracer.stdout(), tracer.stderr());
        ensure!(stdout.contains("ready"), "{stdout}{complained}");
        Ok(())
    })?;
    std::thread::sleep(ATTACHES);
    Ok(tracer)
}

/// Readers that may not run for most of the time: latencies of all lengths, most of them far longer
/// than what one program at a function takes before the other, which is tenths of a millisecond
/// where all is emulated. At points that packets reach sooner it would be in the figures.
fn beside_bpftrace() -> Result<()> {
    let group = Group::new("script")?;
    limit(&group)?;
    let network = Network::direct()?;
    let to = address(&network, PORT);
    let netns = netns(&network.right)?;
    let options = [
        "--latency-netns",
        &netns,
        "--latency-points",
        "tcp-socket-read,udp-socket-read",
    ];
    let measured = Measured::start(&options)?;
    let offset_ns = now_ns(ClockId::CLOCK_REALTIME)? - now_ns(ClockId::CLOCK_BOOTTIME)?;
    let mut tracer = traced(&script(offset_ns))?;
    let readers = [
        reader_in(&group, &network.right, &["udp-spin-sink", &to])?,
        reader_in(&group, &network.right, &["tcp-reads", &to])?,
    ];
    let senders = [
        traffic::agent(&network.left, &["udp-paced", &to, PER_SECOND, "0"])?,
        traffic::agent(&network.left, &["tcp-ticks", &to, PER_SECOND])?,
    ];
    std::thread::sleep(MEASURED);
    drop(senders);
    // Reads the remaining messages.
    std::thread::sleep(Duration::from_secs(1));
    drop(readers);
    tracer.signal("INT")?;
    tracer.wait_within(COMPILES)?;
    let stdout = tracer.stdout();
    let found = measured.end()?;
    let least_ns = least_ns()?;
    println!();
    for (name, point) in [("udp", Point::UdpSocketRead), ("tcp", Point::TcpSocketRead)] {
        let (script, netto) = (of_script(&stdout, name)?, of_netto(&found, point)?);
        let long = script.range(least_ns..).map(|(_, count)| count);
        let total: u64 = long.sum();
        ensure!(total > 500, "only {total} packets: {stdout}");
        println!("{point}: {script:?} by the script, {netto:?} by netto");
        let powers: BTreeSet<_> = script.keys().chain(netto.keys()).collect();
        for power in powers.into_iter().filter(|power| **power >= least_ns) {
            let count = |of: &BTreeMap<u64, u64>| of.get(power).copied().unwrap_or(0);
            let (by_script, by_netto) = (count(&script), count(&netto));
            // One packet at each border of a bucket is no difference.
            let allowed = (TOLERANCE * by_script.max(by_netto) as f64).max(2.0);
            ensure!(
                by_script.abs_diff(by_netto) as f64 <= allowed,
                "{point}: {by_script} packets from {power} ns on by the script, {by_netto} by netto"
            );
        }
    }
    Ok(())
}

/// From the first raise to the begin, by CPU.
const SOFTIRQS: &str = "\
    BEGIN { printf(\"ready\\n\"); }\n\
    tracepoint:irq:softirq_raise /args->vec == 3 && @raised[cpu] == 0/ { @raised[cpu] = nsecs; }\n\
    tracepoint:irq:softirq_entry /args->vec == 3 && @raised[cpu] != 0/ \
    { @rx = hist(nsecs - @raised[cpu]); @raised[cpu] = 0; }\n";

/// A flood, whose softirqs are raised and begin some ten thousand times a second.
fn softirqs() -> Result<()> {
    let network = Network::direct()?;
    let mut tracer = traced(SOFTIRQS)?;
    let measured = Measured::start(&["--latency-points", "rx-softirq-wait"])?;
    let load = traffic::udp(&network.left, &network.right, network.right_v4)?;
    std::thread::sleep(MEASURED);
    drop(load);
    let found = measured.end()?;
    tracer.signal("INT")?;
    tracer.wait_within(COMPILES)?;
    let script = of_script(&tracer.stdout(), "rx")?;
    let netto = of_netto(&found, Point::RxSoftirqWait)?;
    println!("\n{script:?} by the script, {netto:?} by netto");
    let count = |of: &BTreeMap<u64, u64>| of.values().sum::<u64>();
    let (by_script, by_netto) = (count(&script), count(&netto));
    // The script runs longer.
    ensure!(
        by_netto > 1_000 && by_netto <= by_script && by_netto * 10 >= by_script * 8,
        "{by_netto} of {by_script}"
    );
    // Each of the two lengthens what the other sees, and buckets of netto's below 64 ns are one.
    for share in [0.5, 0.9, 0.99] {
        let power = |of: &BTreeMap<u64, u64>| {
            let mut below = 0.0;
            let all = count(of) as f64;
            let mut powers = of.iter().map(|(lower_ns, count)| (lower_ns, *count as f64));
            let found = powers.find(|(_, count)| {
                below += count;
                below >= share * all
            });
            found.map_or(0, |(lower_ns, _)| {
                lower_ns.checked_ilog2().unwrap_or(0).max(6)
            })
        };
        let (by_script, by_netto) = (power(&script), power(&netto));
        println!("{share}: 2^{by_script} ns by the script, 2^{by_netto} by netto");
        ensure!(by_script.abs_diff(by_netto) <= 1, "{share} of them");
    }
    Ok(())
}
