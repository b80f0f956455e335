//! The dashboard as a person meets it: a real browser on `netto demo`, whose
//! values are made up and therefore known. Needs no root.
//!
//! Where Chromium or its driver is missing, a test is skipped with a line that
//! says so; with `CI=true` that is a failure instead.

mod about;
mod browser;
#[allow(dead_code, reason = "the root tests use more of it")]
#[path = "../common/mod.rs"]
mod common;
mod demo;
mod endurance;
mod figures;
mod first_screen;
mod flame;
mod latency;
mod owners;
mod pictures;
#[allow(dead_code, reason = "the root tests use more of it")]
#[path = "../common/pty.rs"]
mod pty;
mod reader;
mod replay;
mod tasks;
mod views;

use std::process::ExitCode;

use common::{child, http, tiers, trial, webdriver};
use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // A test waits for intervals most of the time: two browsers take no more than two CPUs.
    arguments.test_threads.get_or_insert(2);
    let filter = arguments.filter.clone().unwrap_or_default();
    let trials = [
        views::TESTS,
        first_screen::TESTS,
        tasks::TESTS,
        reader::TESTS,
        figures::TESTS,
        replay::TESTS,
        flame::TESTS,
        about::TESTS,
        owners::TESTS,
        latency::TESTS,
        pictures::TESTS,
        endurance::TESTS,
    ]
    .into_iter()
    .flatten()
    .map(|test| {
        let is_left_out = tiers::is_left_out("dashboard", test.name, &filter);
        test.to_trial_of_anybody().with_ignored_flag(is_left_out)
    })
    .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    browser::end();
    demo::end();
    conclusion.exit_code()
}
