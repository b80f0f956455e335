//! netto's build automation: `cargo xtask <command>`, nothing else needed.
//!
//! Owns the command line; each command lives in a module of its own. Needs
//! nothing but cargo to build itself, so that it can fetch all the rest.

mod apt;
mod bench;
mod build;
mod dist;
mod fuzz;
mod packages;
mod process;
mod rustup;
mod screenshots;
mod setup;
mod slowest;
mod soak;
mod suite;
mod sysroot;
mod tally;
mod tidy;
#[allow(dead_code, reason = "the root tests use more of it")]
#[path = "../../netto/tests/common/tiers.rs"]
mod tiers;
mod tree;
mod vm;
mod wasm;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

/// Builds, runs and tests netto; sets up what that needs.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Fetch whatever is missing to build, run and test netto
    Setup,
    /// Build the dashboard and netto, the dashboard embedded in it
    Build {
        /// Build netto without optimisation
        #[arg(long)]
        debug: bool,
    },
    /// Build netto and run it, through sudo unless root
    Run {
        /// Arguments for netto
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Check and test everything; with a filter, run only the tests it names
    Test(suite::Options),
    /// Run the root tests on other kernels, each in a virtual machine
    Vm(vm::Options),
    /// Measure what netto costs on this machine, and in a guest (as root; about an hour)
    Bench(bench::Options),
    /// Feed netto's readers of foreign bytes whatever libFuzzer finds (needs a nightly compiler)
    Fuzz(fuzz::Options),
    /// Run netto for a long time while everything changes around it, and judge its growth (as root)
    Soak(soak::Options),
    /// Make the packages, the image and the chart, in target/dist (as root)
    Dist(dist::Options),
    /// Check that the source keeps to the project's own rules
    Tidy,
    /// Take the documentation's pictures of the dashboard anew
    Screenshots,
}

fn main() -> ExitCode {
    match dispatch(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: Command) -> Result<ExitCode> {
    let root = workspace_root()?;
    match command {
        Command::Setup => {
            setup::ensure(&root, setup::Purpose::Test)?;
            eprintln!("xtask: everything is here");
            Ok(ExitCode::SUCCESS)
        }
        Command::Build { debug } => {
            setup::ensure(&root, setup::Purpose::Build)?;
            let binary = build::netto(&root, build::Profile::from_debug(debug))?;
            eprintln!("xtask: built {}", binary.display());
            Ok(ExitCode::SUCCESS)
        }
        Command::Run { args } => {
            setup::ensure(&root, setup::Purpose::Build)?;
            let binary = build::netto(&root, build::Profile::Quick)?;
            Err(process::exec_as_root(&binary, &args))
        }
        Command::Bench(options) => {
            bench::run(&root, &options)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Fuzz(options) => fuzz::run(&root, &options),
        Command::Soak(options) => soak::run(&root, &options),
        Command::Dist(options) => {
            dist::run(&root, &options)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Test(options) => suite::run(&root, &options),
        Command::Vm(options) => vm::run(&root, &options),
        Command::Screenshots => {
            setup::ensure(&root, setup::Purpose::Test)?;
            screenshots::capture(&root)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Tidy => {
            let findings = tidy::check_tree(&root)?;
            for finding in &findings {
                println!("{finding}");
            }
            eprintln!("xtask: tidy found {} problems", findings.len());
            Ok(if findings.is_empty() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            })
        }
    }
}

/// The folder that holds the workspace; xtask's own folder lies in it.
fn workspace_root() -> Result<PathBuf> {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR")
        .context("xtask is run by cargo: type `cargo xtask …`")?;
    let root = Path::new(&folder)
        .parent()
        .context("the folder of xtask has no parent")?;
    Ok(root.to_owned())
}
