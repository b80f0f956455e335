//! Tests of the real thing: real kernel, real packets, netto as a process, a real browser.
//!
//! One binary that needs nothing of the source tree, so that it can be copied
//! into a virtual machine: it makes its own network namespaces, is its own
//! traffic generator (`root agent …`), and runs the netto that `NETTO_BINARY`
//! names, or the one that cargo built with it. The tests measure, so they run
//! one after the other. Where there is no root, or a tool is missing, a test is
//! skipped with a line that says so; with `CI=true` that is a failure instead. So is one whose
//! figures would be others' traffic (`quiet.rs`). Statistics get a second chance (`repeat.rs`).

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
mod flows;
mod follow;
mod groups;
mod guest;
mod hidden;
mod hostile;
mod house;
mod idle;
mod kernels;
mod lab;
mod lab_itself;
mod latency;
mod latency_changes;
mod latency_delays;
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
mod prometheus;
mod quiet;
mod repeat;
mod running;
mod sends;
mod sparse;
mod sums;
mod sweep;
mod ticks;
mod traffic;
mod uring;
mod websocket;

use std::process::ExitCode;

use common::{child, http, trial, webdriver};
use libtest_mimic::Arguments;

/// What takes minutes runs only if it is asked for by the begin of its name.
const BY_NAME: &[&str] = &[
    diffs::TWENTY_PAIRS,
    churn::WHOLE_MINUTE,
    latency_script::BESIDE_BPFTRACE,
];

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let first = words.next();
    match first.as_deref() {
        Some("agent") => return agent::main(&words.collect::<Vec<_>>()),
        Some("bench") => return bench::main(&words.collect::<Vec<_>>()),
        _ => {}
    }
    let mut arguments = Arguments::from_args();
    // The tests measure the whole host: two at a time would measure each other.
    arguments.test_threads = Some(1);
    let mut _turn = None;
    if !arguments.list {
        match lab::wait_for_turn() {
            Ok(turn) => _turn = Some(turn),
            Err(error) => {
                eprintln!("error: {error:#}");
                return ExitCode::FAILURE;
            }
        }
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
        ticks::TESTS,
        hidden::TESTS,
        owners::TESTS,
        churn::TESTS,
        failures::TESTS,
        limits::TESTS,
        hostile::TESTS,
        prometheus::TESTS,
        kernels::TESTS,
        counting::TESTS,
        changes::TESTS,
        browser::TESTS,
        house::tests(),
    ]
    .into_iter()
    .flatten();
    for (file, begins) in [
        ("guest", guest::SELECTION),
        ("quiet", quiet::STATISTICAL),
        ("quiet", quiet::COUNTED),
        ("repeat", repeat::REPEATED_TOO),
    ] {
        let is_one = |begin: &&&str| tests.clone().any(|test| test.name.starts_with(**begin));
        // A test was renamed.
        if let Some(gone) = begins.iter().find(|begin| !is_one(begin)) {
            eprintln!("root: no test is called {gone}; see tests/root/{file}.rs");
            return ExitCode::FAILURE;
        }
    }
    let all = !guest::is_one() || arguments.filter.is_some();
    let asks_for = |name: &str| {
        let filter = arguments.filter.as_deref().unwrap_or_default();
        !filter.is_empty() && name.starts_with(filter)
    };
    let trials = tests
        .filter(|test| all || guest::is_selected(test.name))
        .filter(|test| !BY_NAME.contains(&test.name) || asks_for(test.name))
        .map(|test| test.to_trial(repeat::run))
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    counting::end();
    conclusion.exit_code()
}
