//! Invariants under any load: parts sum to their whole, and never exceed the time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use metrics_common::Info;
use serde_json::Value;

use crate::child::{Owned, PATIENCE};
use crate::daemon::Shared;
use crate::lab::Network;
use crate::traffic;
use crate::trial::tests;

tests! {
    sums::parts_add_up_to_their_whole_and_no_cpu_works_longer_than_time_passes ["ip", "bridge"];
    sums::counters_never_exceed_the_time_since_the_start ["ip"];
    sums::an_unavailable_component_has_a_reason_and_no_number;
}

/// Snapshots that are looked at, and for how long at most.
const WATCHED: usize = 30;

/// More processes than CPUs, of every kind: switches, migrations, softirqs inside sends and receives.
fn stress(direct: &Network, bridged: &Network) -> Result<Vec<Owned>> {
    let mut all = Vec::new();
    all.extend(traffic::udp(&direct.left, &direct.right, direct.right_v6)?);
    all.extend(traffic::tcp(
        &bridged.left,
        &bridged.right,
        bridged.right_v4,
    )?);
    all.extend(traffic::tcp(&direct.left, &direct.right, direct.right_v4)?);
    all.push(traffic::udp_blast(&bridged.left, bridged.nobody_v4)?);
    Ok(all)
}

fn parts_add_up_to_their_whole_and_no_cpu_works_longer_than_time_passes() -> Result<()> {
    let (direct, bridged) = (Network::direct()?, Network::bridged()?);
    let daemon = Shared::take()?;
    let info = daemon.info()?;
    let _stress = stress(&direct, &bridged)?;
    let mut seen = BTreeMap::new();
    let deadline = Instant::now() + PATIENCE;
    // Each has boundaries that may be wrong.
    while seen.len() < WATCHED && Instant::now() < deadline {
        let snapshot = daemon.snapshot()?;
        let sequence = snapshot["sequence"].as_u64().context("no sequence")?;
        if seen.insert(sequence, ()).is_none() {
            check(&info, &snapshot).with_context(|| format!("snapshot {sequence}: {snapshot}"))?;
        }
        std::thread::sleep(Duration::from_millis(30));
    }
    // A starved reader still sees a dozen.
    ensure!(seen.len() >= 12, "only {} snapshots in time", seen.len());
    Ok(())
}

/// A component's time on each CPU, nanoseconds; `None` if it is not measured.
fn row(snapshot: &Value, slug: &str) -> Option<Vec<u64>> {
    snapshot["components"][slug]["cpu_ns"]
        .as_array()?
        .iter()
        .map(Value::as_u64)
        .collect()
}

fn check(info: &Info, snapshot: &Value) -> Result<()> {
    let interval_ns = snapshot["interval_ns"].as_u64().context("no interval")?;
    let cpus = snapshot["cpus"].as_array().context("no CPUs")?.len();
    let mut busy_ns = vec![0; cpus];
    for component in &info.components {
        let Some(cpus_ns) = row(snapshot, &component.slug) else {
            ensure!(
                !component.availability.is_available(),
                "{} is available but has no numbers",
                component.slug
            );
            continue;
        };
        ensure!(
            cpus_ns.len() == cpus,
            "{} has {} CPUs",
            component.slug,
            cpus_ns.len()
        );
        // What is carved out of others, or estimated beside them, takes time like the rest. Rows
        // with a whole above them are in it already; that they are is checked below.
        if component.parent.is_none() {
            for (sum, value) in busy_ns.iter_mut().zip(&cpus_ns) {
                *sum += value;
            }
        }
        let total = snapshot["components"][&component.slug]["total_ns"].as_u64();
        ensure!(
            total == Some(cpus_ns.iter().sum()),
            "{}: total_ns is {total:?}, its CPUs have {cpus_ns:?}",
            component.slug
        );
        let parts: Vec<Vec<u64>> = info
            .components
            .iter()
            .filter(|part| part.parent.as_deref() == Some(&component.slug))
            .filter_map(|part| row(snapshot, &part.slug))
            .collect();
        if parts.is_empty() {
            continue;
        }
        for cpu in 0..cpus {
            let sum: u64 = parts.iter().map(|part| part[cpu]).sum();
            ensure!(
                sum == cpus_ns[cpu],
                "the parts of {} on CPU {cpu} are {sum} ns, itself {} ns",
                component.slug,
                cpus_ns[cpu]
            );
        }
    }
    for (cpu, busy_ns) in busy_ns.into_iter().enumerate() {
        ensure!(
            busy_ns <= interval_ns,
            "CPU {cpu} was busy for {busy_ns} ns in an interval of {interval_ns} ns"
        );
    }
    Ok(())
}

fn counters_never_exceed_the_time_since_the_start() -> Result<()> {
    let network = Network::direct()?;
    let daemon = Shared::take()?;
    let _traffic = traffic::udp(&network.left, &network.right, network.right_v4)?;
    std::thread::sleep(Duration::from_secs(3));
    let page = crate::http::get_ok(daemon.at, "/metrics")?.body;
    let passed = daemon.started.elapsed().as_secs_f64();
    let mut by_cpu: BTreeMap<String, f64> = BTreeMap::new();
    for sample in crate::measure::parse(&page)? {
        if sample.name == "netto_cpu_seconds_total" {
            ensure!(sample.value >= 0.0, "{sample:?} is negative");
            *by_cpu.entry(sample.label("cpu").to_owned()).or_default() += sample.value;
        }
    }
    ensure!(!by_cpu.is_empty(), "no netto_cpu_seconds_total");
    for (cpu, seconds) in by_cpu {
        ensure!(
            seconds <= passed,
            "CPU {cpu} has {seconds:.3} s in {passed:.3} s"
        );
    }
    Ok(())
}

fn an_unavailable_component_has_a_reason_and_no_number() -> Result<()> {
    let daemon = Shared::take()?;
    let info = daemon.info()?;
    let snapshot = daemon.snapshot()?;
    for component in &info.components {
        let shown = &snapshot["components"][&component.slug];
        if component.availability.is_available() {
            ensure!(
                shown["unavailable"].is_null(),
                "{}: {shown}",
                component.slug
            );
        } else {
            ensure!(
                shown["unavailable"].as_str().is_some_and(|r| r.len() > 5)
                    && shown["cpu_ns"].is_null(),
                "{}: {shown}",
                component.slug
            );
        }
    }
    Ok(())
}
