//! `cargo xtask soak`: netto for a long time with everything that changes on a host, and a verdict.
//!
//! The root tests' program does it (`root soak …`); this builds that and netto.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::{build, process, setup, vm};

/// How long.
#[derive(clap::Args)]
pub struct Options {
    /// Minutes; the first five are no part of the verdict
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(3..=10_000))]
    minutes: u64,
}

/// Runs it; fails if netto's use of memory or descriptors grows, or anything was lost.
///
/// # Errors
/// If it cannot be built or ended early.
pub fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    if !process::is_root() {
        bail!("soaking loads BPF programs and makes network namespaces: run it as root");
    }
    setup::ensure(root, setup::Purpose::Bench)?;
    let netto = build::netto(root, build::Profile::Release)?;
    let tests = vm::root_tests(root)?;
    let status = Command::new(tests)
        .args(["soak", &options.minutes.to_string()])
        .arg(root.join("target/soak"))
        .env("NETTO_BINARY", netto)
        .status()
        .context("cannot start the root tests")?;
    Ok(match status.success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
