//! `cargo xtask soak`: netto for a long time with everything that changes on a host, and a verdict.
//!
//! The root tests' program does it (`root soak …`); this builds that and netto, and judges its table.

mod verdict;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::{build, process, setup, vm};

/// How long.
#[derive(clap::Args)]
pub struct Options {
    /// Minutes; the growth of memory is judged from the 17th on
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
    let folder = root.join("target/soak");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    // Copies, so that a build during the soak replaces neither.
    let kept = |name: &str, built: &Path| {
        let kept = folder.join(name);
        fs::copy(built, &kept)
            .with_context(|| format!("cannot copy {} to {}", built.display(), kept.display()))?;
        Ok::<_, anyhow::Error>(kept)
    };
    let netto = kept("netto", &build::netto(root, build::Profile::Release)?)?;
    let tests = kept("root-tests", &vm::root_tests(root)?)?;
    let mut soak = Command::new(tests);
    soak.args(["soak", &options.minutes.to_string()])
        .arg(&folder)
        .env("NETTO_BINARY", netto);
    process::run(&mut soak)?;
    let table = folder.join("soak.csv");
    let text =
        fs::read_to_string(&table).with_context(|| format!("cannot read {}", table.display()))?;
    let verdict = verdict::Verdict::of(&text)?;
    println!(
        "{verdict}\n\nthe table and the drawing are in {}",
        folder.display()
    );
    Ok(if verdict.is_good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
