//! Tests of the real thing: real kernel, real packets, netto as a process, a real browser.
//!
//! One binary that needs nothing of the source tree, so that it can be copied
//! into a virtual machine: it makes its own network namespaces, is its own
//! traffic generator (`root agent …`), and runs the netto that `NETTO_BINARY`
//! names, or the one that cargo built with it. The tests measure, so they run
//! one after the other. Where there is no root, or a tool is missing, a test is
//! skipped with a line that says so; with `CI=true` that is a failure instead.

#[path = "root/agent.rs"]
mod agent;
#[path = "root/bpf.rs"]
mod bpf;
#[path = "root/browser.rs"]
mod browser;
#[path = "root/child.rs"]
mod child;
#[path = "root/daemon.rs"]
mod daemon;
#[path = "root/failures.rs"]
mod failures;
#[path = "root/filters.rs"]
mod filters;
#[path = "root/http.rs"]
mod http;
#[path = "root/lab.rs"]
mod lab;
#[path = "root/lab_itself.rs"]
mod lab_itself;
#[path = "root/measure.rs"]
mod measure;
#[path = "root/paths.rs"]
mod paths;
#[path = "root/prometheus.rs"]
mod prometheus;
#[path = "root/running.rs"]
mod running;
#[path = "root/sums.rs"]
mod sums;
#[path = "root/traffic.rs"]
mod traffic;
#[path = "root/trial.rs"]
mod trial;
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
    let trials = [
        lab_itself::TESTS,
        running::TESTS,
        paths::TESTS,
        filters::TESTS,
        sums::TESTS,
        failures::TESTS,
        prometheus::TESTS,
        browser::TESTS,
    ]
    .into_iter()
    .flatten()
    .map(trial::Test::to_trial)
    .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
