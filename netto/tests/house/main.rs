//! All of netto has a feature that is in its list: the example, `ticks`, and here `faulty`, which
//! fails at its third tick. The netto of this workspace, which has neither, runs beside it.
//!
//! This program is that netto, too (`house netto …`). Its tests need root.

#[allow(dead_code, reason = "the root tests use more of it")]
#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code, reason = "the root tests use more of it")]
#[path = "../root/daemon.rs"]
mod daemon;
mod faulty;
mod features;
#[path = "../root/guest.rs"]
mod guest;
mod pages;
mod with;

use std::ffi::OsString;
use std::process::ExitCode;

use common::{child, http, trial, turn, webdriver};
use libtest_mimic::Arguments;
use trial::Test;

fn main() -> anyhow::Result<ExitCode> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if words.first().is_some_and(|word| word == with::NETTO) {
        let for_tests = [netto_ticks::FEATURE, faulty::FEATURE];
        let features = [&for_tests, netto::features::FEATURES].concat();
        return Ok(netto::main(features.leak(), &words));
    }
    let mut arguments = Arguments::from_args();
    // Daemons measure the whole host: two at a time would measure each other.
    arguments.test_threads = Some(1);
    let _turn = (!arguments.list).then(turn::wait).transpose()?;
    let tests = [features::TESTS, pages::TESTS].into_iter().flatten();
    let trials = tests.map(|test: &'static Test| test.to_trial(|test| (test.body)()));
    Ok(libtest_mimic::run(&arguments, trials.collect()).exit_code())
}
