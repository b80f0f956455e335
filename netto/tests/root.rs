//! Tests of the real thing: real kernel, real packets, netto as a process, a real browser.
//!
//! One binary that needs nothing of the source tree, so that it can be copied
//! into a virtual machine: it makes its own network namespaces, is its own
//! traffic generator (`root agent …`), and runs the netto that `NETTO_BINARY`
//! names, or the one that cargo built with it. The tests measure, so they run
//! one after the other. Where there is no root, or a tool is missing, a test is
//! skipped with a line that says so; with `CI=true` that is a failure instead. So is one whose
//! figures would be others' traffic: see `root/quiet.rs`.

#[path = "root/agent.rs"]
mod agent;
#[path = "root/agreement.rs"]
mod agreement;
#[path = "root/bpf.rs"]
mod bpf;
#[path = "root/browser.rs"]
mod browser;
#[path = "root/burners.rs"]
mod burners;
#[path = "root/calls.rs"]
mod calls;
#[path = "root/changes.rs"]
mod changes;
#[path = "root/child.rs"]
mod child;
#[path = "root/clients.rs"]
mod clients;
#[path = "root/copies.rs"]
mod copies;
#[path = "root/counting.rs"]
mod counting;
#[path = "root/coverage.rs"]
mod coverage;
#[path = "root/daemon.rs"]
mod daemon;
#[path = "root/failures.rs"]
mod failures;
#[path = "root/filters.rs"]
mod filters;
#[path = "root/flame.rs"]
mod flame;
#[path = "root/follow.rs"]
mod follow;
#[path = "root/guest.rs"]
mod guest;
#[path = "root/hidden.rs"]
mod hidden;
#[path = "root/hostile.rs"]
mod hostile;
#[path = "root/http.rs"]
mod http;
#[path = "root/idle.rs"]
mod idle;
#[path = "root/kernels.rs"]
mod kernels;
#[path = "root/lab.rs"]
mod lab;
#[path = "root/lab_itself.rs"]
mod lab_itself;
#[path = "root/limits.rs"]
mod limits;
#[path = "root/loads.rs"]
mod loads;
#[path = "root/log_disk.rs"]
mod log_disk;
#[path = "root/measure.rs"]
mod measure;
#[path = "root/pace.rs"]
mod pace;
#[path = "root/paths.rs"]
mod paths;
#[path = "root/prometheus.rs"]
mod prometheus;
#[path = "root/quiet.rs"]
mod quiet;
#[path = "root/running.rs"]
mod running;
#[path = "root/sends.rs"]
mod sends;
#[path = "root/sparse.rs"]
mod sparse;
#[path = "root/sums.rs"]
mod sums;
#[path = "root/traffic.rs"]
mod traffic;
#[path = "root/trial.rs"]
mod trial;
#[path = "root/uring.rs"]
mod uring;
#[path = "root/webdriver.rs"]
mod webdriver;
#[path = "root/websocket.rs"]
mod websocket;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some("agent") {
        return agent::main(&words.collect::<Vec<_>>());
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
        coverage::TESTS,
        idle::TESTS,
        pace::TESTS,
        hidden::TESTS,
        failures::TESTS,
        limits::TESTS,
        hostile::TESTS,
        prometheus::TESTS,
        kernels::TESTS,
        counting::TESTS,
        changes::TESTS,
        browser::TESTS,
    ]
    .into_iter()
    .flatten();
    let gone = guest::without_a_test(tests.clone().map(|test| test.name));
    if !gone.is_empty() {
        eprintln!("root: no test is called {gone:?}; see tests/root/guest.rs");
        return ExitCode::FAILURE;
    }
    let gone = quiet::without_a_test(tests.clone().map(|test| test.name));
    if !gone.is_empty() {
        eprintln!("root: no test is called {gone:?}; see tests/root/quiet.rs");
        return ExitCode::FAILURE;
    }
    let all = !guest::is_one() || arguments.filter.is_some();
    let trials = tests
        .filter(|test| all || guest::is_selected(test.name))
        .map(|test| test.to_trial(quiet::wait_for))
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    counting::end();
    conclusion.exit_code()
}
