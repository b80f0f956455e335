//! Tests of the real thing: real kernel, real packets, netto as a process, a real browser.
//!
//! One binary that needs nothing of the source tree, so that it can be copied
//! into a virtual machine: it makes its own network namespaces, is its own
//! traffic generator (`root agent …`), and runs the netto that `NETTO_BINARY`
//! names, or the one that cargo built with it. The tests measure, so they run
//! one after the other. Where there is no root, or a tool is missing, a test is
//! skipped with a line that says so; with `CI=true` that is a failure instead. So is one whose
//! figures would be others' traffic (`quiet.rs`). Statistics get a second chance (`repeat.rs`).
//! What runs when is in `common/tiers.rs`.

mod agent;
mod agreement;
mod bench;
mod board;
mod bpf;
mod browser;
mod budget;
mod burn;
mod burners;
mod calls;
mod changes;
mod churn;
mod clients;
#[path = "../common/mod.rs"]
mod common;
mod copies;
mod counting;
mod counting_around;
mod counting_times;
mod coverage;
mod cpus;
mod daemon;
mod diffs;
mod failures;
mod filters;
mod flame;
mod flow_change;
mod flow_cpu;
mod flow_daemon;
mod flow_export;
mod flow_loop;
mod flow_names;
mod flow_runs;
mod flow_table;
mod flows;
mod follow;
mod groups;
mod guest;
mod hidden;
mod hooks;
mod hostile;
mod idle;
mod intruders;
mod kernels;
mod lab;
mod lab_itself;
mod latency;
mod latency_changes;
mod latency_delays;
mod latency_depth;
mod latency_filters;
mod latency_script;
mod latency_talk;
mod limits;
mod loads;
mod log_disk;
mod measure;
mod messages;
mod owners;
mod owners_off;
mod owners_pids;
mod pace;
mod packets;
mod paths;
mod program_owners;
mod programs;
mod prometheus;
mod quiet;
mod repeat;
mod running;
mod sends;
mod slowest;
mod sparse;
mod stall;
mod sums;
mod sweep;
mod synth;
mod synth_memory;
mod ticks;
mod traffic;
mod truth;
mod uring;
mod websocket;

use std::process::ExitCode;

use common::{child, http, tiers, trial, turn, webdriver};
use libtest_mimic::Arguments;
use trial::Test;

fn main() -> anyhow::Result<ExitCode> {
    let mut words = std::env::args().skip(1);
    let first = words.next();
    match first.as_deref() {
        Some("agent") => return Ok(agent::main(&words.collect::<Vec<_>>())),
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
    let tests = [
        lab_itself::TESTS,
        running::TESTS,
        log_disk::TESTS,
        paths::TESTS,
        filters::TESTS,
        sends::TESTS,
        flame::TESTS,
        clients::TESTS,
        sums::TESTS,
        agreement::TESTS,
        sparse::TESTS,
        burners::TESTS,
        sweep::TESTS,
        diffs::TESTS,
        budget::TESTS,
        coverage::TESTS,
        idle::TESTS,
        pace::TESTS,
        messages::TESTS,
        latency::TESTS,
        latency_script::TESTS,
        packets::TESTS,
        hooks::TESTS,
        ticks::TESTS,
        programs::TESTS,
        slowest::TESTS,
        program_owners::TESTS,
        flow_export::TESTS,
        flow_loop::TESTS,
        flow_cpu::TESTS,
        flow_runs::TESTS,
        flow_names::TESTS,
        flow_daemon::TESTS,
        flow_change::TESTS,
        flow_table::TESTS,
        hidden::TESTS,
        owners::TESTS,
        truth::TESTS,
        churn::TESTS,
        failures::TESTS,
        limits::TESTS,
        hostile::TESTS,
        prometheus::TESTS,
        kernels::TESTS,
        counting::TESTS,
        changes::TESTS,
        synth::TESTS,
        synth_memory::TESTS,
        intruders::TESTS,
        stall::TESTS,
        browser::TESTS,
    ]
    .into_iter()
    .flatten();
    // A test was renamed.
    let named = tiers::TABLE.iter().filter(|row| row.program == "root");
    let mut named = named
        .map(|row| row.tests)
        .chain(daemon::SHARING.iter().copied());
    if let Some(gone) = named.find(|begin| !tests.clone().any(|test| test.name.starts_with(begin)))
    {
        anyhow::bail!("no test is called {gone}; see tests/common/tiers.rs and daemon.rs");
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
            test.to_trial(repeat::run)
                .with_ignored_flag(is_left_out(test.name))
        })
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    counting::end();
    daemon::end_shared();
    Ok(conclusion.exit_code())
}
