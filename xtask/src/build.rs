//! Builds the dashboard, and netto with the dashboard embedded.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::wasm::{self, Page};
use crate::{process, rustup, tree};

/// The variable by which netto's build script finds the built dashboard.
pub const DASHBOARD_VARIABLE: &str = "NETTO_DASHBOARD_DIR";

/// How netto is optimised. The dashboard has a profile of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// As delivered.
    Release,
    /// Optimised crate by crate: built in less time, and larger.
    Quick,
    /// Not optimised.
    Debug,
}

impl Profile {
    /// Debug if asked for.
    pub fn from_debug(debug: bool) -> Self {
        if debug {
            Profile::Debug
        } else {
            Profile::Release
        }
    }

    /// Its name for cargo, and its folder in the target directory.
    fn name_and_folder(self) -> [&'static str; 2] {
        match self {
            Profile::Release => ["release"; 2],
            Profile::Quick => ["quick"; 2],
            Profile::Debug => ["dev", "debug"],
        }
    }
}

/// A cargo command that sees the dashboard for tests.
pub fn cargo_with_dashboard(root: &Path) -> Result<Command> {
    cargo_with(root, Page::Tests)
}

/// The same with a compiler that also lints the crates of the workspace, and refuses a crate with a warning:
/// `cargo clippy` would read all crates, dependencies too, a second time. Every command that tests must be
/// made here, or cargo would compile the workspace again for each compiler.
pub fn cargo_for_tests(root: &Path) -> Result<Command> {
    let mut command = cargo_with_dashboard(root)?;
    command
        .env("RUSTC_WORKSPACE_WRAPPER", rustup::clippy_driver()?)
        // What `cargo clippy -- -D warnings` tells it.
        .env(
            "CLIPPY_ARGS",
            "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__",
        );
    Ok(command)
}

/// Builds the dashboard for tests.
pub fn dashboard_for_tests(root: &Path) -> Result<()> {
    wasm::build_dashboard(root, Page::Tests).map(drop)
}

/// A cargo command that sees the dashboard as delivered.
pub fn cargo_with_product(root: &Path) -> Result<Command> {
    cargo_with(root, Page::Product)
}

fn cargo_with(root: &Path, page: Page) -> Result<Command> {
    let dashboard = wasm::build_dashboard(root, page)?;
    let mut command = process::cargo();
    command.current_dir(root).env(DASHBOARD_VARIABLE, dashboard);
    Ok(command)
}

/// Builds netto and names the binary. A quick build leaves out Parquet and OTLP, which take a tenth of its
/// time; such a netto says how to get them where they are asked for.
pub fn netto(root: &Path, profile: Profile) -> Result<PathBuf> {
    let [name, folder] = profile.name_and_folder();
    let mut command = cargo_with_product(root)?;
    command.arg("build");
    if profile == Profile::Quick {
        command.arg("--no-default-features");
    }
    command.args(["--package", "netto", "--profile", name]);
    process::run(&mut command)?;
    Ok(tree::target_folder(root).join(folder).join("netto"))
}
