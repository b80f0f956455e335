//! What the active Rust toolchain compiles for, and what rustup adds to it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process;

/// Where the active toolchain lives.
///
/// # Errors
/// There is no Rust compiler.
pub fn sysroot() -> Result<PathBuf> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(&rustc)
        .args(["--print", "sysroot"])
        .output()
        .with_context(|| format!("cannot run {rustc:?}, the Rust compiler"))?;
    let text = String::from_utf8(output.stdout).context("rustc --print sysroot")?;
    if !output.status.success() || text.trim().is_empty() {
        bail!(
            "{rustc:?} --print sysroot failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(PathBuf::from(text.trim()))
}

/// The active toolchain's compiler with lints.
///
/// # Errors
/// The toolchain has none.
pub fn clippy_driver() -> Result<PathBuf> {
    let beside = sysroot()?.join("bin/clippy-driver");
    if process::is_executable(&beside) {
        return Ok(beside);
    }
    process::find_program("clippy-driver").context(
        "there is no clippy-driver, by which the tests are linted: `rustup component add clippy`",
    )
}

/// Whether a compiled standard library for this target stands in this sysroot.
pub fn has_target(sysroot: &Path, target: &str) -> bool {
    let libraries = sysroot.join("lib/rustlib").join(target).join("lib");
    std::fs::read_dir(libraries).is_ok_and(|entries| {
        entries
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-"))
    })
}

/// Asks rustup for the target; `false` where there is no rustup, where it cannot
/// fetch, and where the active compiler is not rustup's.
pub fn add_target(sysroot: &Path, target: &str) -> bool {
    Command::new("rustup")
        .args(["target", "add", target])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
        && has_target(sysroot, target)
}
