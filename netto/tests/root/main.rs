//! Tests of the real thing: real kernel, real packets, netto as a process, a real browser.
//!
//! One binary that needs nothing of the source tree, so that it can be copied
//! into a virtual machine: it makes its own network namespaces, is its own
//! traffic generator (`root agent …`), and runs the netto that `NETTO_BINARY`
//! names, or the one that cargo built with it. The tests measure, so they run
//! one after the other. Where there is no root, or a tool is missing, a test is
//! skipped with a line that says so; with `CI=true` that is a failure instead. So is one whose
//! figures would be others' traffic (`quiet.rs`). A test that failed is
//! tried again (`../common/repeat.rs`).
//! What runs when is in `common/tiers.rs`.

mod agent;
mod bench;
mod board;
mod bpf;
mod burn;
mod calls;
#[path = "../common/mod.rs"]
mod common;
mod copies;
mod counting_around;
mod counting_times;
mod cpus;
mod daemon;
mod delay;
mod disk_loads;
mod disks;
mod flows;
mod follow;
mod groups;
mod guest;
mod lab;
mod latency_changes;
mod latency_delays;
mod latency_depth;
mod latency_filters;
mod latency_talk;
mod loads;
mod measure;
mod owners_off;
mod owners_pids;
#[path = "../common/pty.rs"]
mod pty;
mod quiet;
mod replicas;
mod soak;
mod store;
mod tap_echo;
mod traffic;
mod uring;
mod websocket;

/// Files with tests, in the order in which these run.
macro_rules! suites {
    ($($file:ident,)+) => {
        $(mod $file;)+
        const SUITES: &[&[Test]] = &[$($file::TESTS),+];
    };
}

suites! {
    lab_itself, running, log_disk, paths, filters, sends, flame, clients, sums, agreement,
    agreement_perf, sparse, burners, sweep, diffs, budget, coverage, idle, pace, messages, latency,
    latency_arrivals, latency_script, packets, hooks, ticks, programs, slowest, program_owners, flow_export,
    flow_loop, flow_cpu, flow_runs, flow_names, flow_daemon, flow_change, flow_table, hidden,
    owners, taps, truth, allocations, churn, failures, limits, hostile, faults, prometheus, kernels, counting, changes,
    synth, synth_memory, gone, intruders, advice, advice_scenes, anomalies, health, health_price, balance, stall, browser, fleet,
}

use std::process::ExitCode;

use common::{child, http, repeat, tiers, trial, turn, webdriver};
use libtest_mimic::Arguments;
use trial::Test;

fn main() -> anyhow::Result<ExitCode> {
    let mut words = std::env::args().skip(1);
    let first = words.next();
    match first.as_deref() {
        Some("agent") => return Ok(agent::main(&words.collect::<Vec<_>>())),
        Some("soak") => return soak::main(&words.collect::<Vec<_>>()),
        Some("bench") => return Ok(bench::main(&words.collect::<Vec<_>>())),
        _ => {}
    }
    let mut arguments = Arguments::from_args();
    // The tests measure the whole host: two at a time would measure each other.
    arguments.test_threads = Some(1);
    let _turn = (!arguments.list).then(turn::wait).transpose()?;
    if !arguments.list {
        lab::remove_leftovers();
        groups::remove_leftovers();
    }
    let tests = SUITES.iter().copied().flatten();
    // A test was renamed.
    let named = tiers::TABLE.iter().filter(|row| row.program == "root");
    let mut named = named
        .map(|row| row.tests)
        .chain(daemon::SHARING.iter().copied());
    if let Some(missing) =
        named.find(|begin| !tests.clone().any(|test| test.name.starts_with(begin)))
    {
        anyhow::bail!("no test is called {missing}; see tests/common/tiers.rs and daemon.rs");
    }
    let filter = arguments.filter.clone().unwrap_or_default();
    let is_guests = |name: &str| tiers::rows("root", name).any(|row| row.is_guest);
    let is_chosen = |name: &str| match std::env::var("NETTO_TESTS").as_deref() {
        Ok("guest") => !filter.is_empty() || is_guests(name),
        Ok("quick") => tiers::rows("root", name).any(|row| row.is_quick),
        _ => true,
    };
    let is_left_out = |name: &str| {
        let is_meant_here = guest::is_one() && is_guests(name);
        !is_meant_here && tiers::is_left_out("root", name, &filter)
    };
    let mut chosen: Vec<&'static Test> = tests.filter(|test| is_chosen(test.name)).collect();
    chosen.sort_by_key(|test| {
        let mut sharing = daemon::SHARING.iter();
        let place = sharing.position(|begin| test.name.starts_with(begin));
        place.unwrap_or(daemon::SHARING.len())
    });
    let trials = chosen
        .into_iter()
        .map(|test| {
            test.to_trial(|test| {
                end_daemons_of_others(test.name);
                repeat::run(test.name, || {
                    quiet::wait_for(test.name)?;
                    (test.body)()
                })
            })
            .with_ignored_flag(is_left_out(test.name))
        })
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    counting::end();
    faults::end();
    daemon::end_shared();
    Ok(conclusion.exit_code())
}

/// In a guest, where one test runs after the other, ends the daemons that earlier tests shared: they would
/// make calls of their own beside this one.
fn end_daemons_of_others(test: &str) {
    if !guest::is_one() {
        return;
    }
    if !test.starts_with("counting::") {
        counting::end();
    }
    if !test.starts_with("machine::") {
        faults::end();
    }
}
