//! Makes the machine ready: looks first, fetches only what is missing, says what it does.
//!
//! System packages come by apt where this is root; otherwise the exact line to
//! type is the error. Nothing is started or configured on the machine: the one
//! package that would start a service (Prometheus) is only unpacked below `target`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::packages::{self, Need, Sign};
use crate::{process, wasm};

/// What the machine is to be made ready for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Building and running.
    Build,
    /// That, and the tests.
    Test,
    /// Building, and measuring what netto costs.
    Bench,
}

/// Fetches what is missing.
///
/// # Errors
/// Something is missing that cannot be fetched; the message says what to type.
pub fn ensure(root: &Path, purpose: Purpose) -> Result<()> {
    toolchain(purpose)?;
    let mut needs: Vec<&Need> = packages::BUILD.iter().collect();
    match purpose {
        Purpose::Build => {}
        Purpose::Test => needs.extend(packages::TEST.iter().chain(packages::GUESTS)),
        Purpose::Bench => needs.extend(packages::BENCH),
    }
    let missing = packages::missing(needs, is_there);
    let wasm_packages = wasm::debian_packages_needed()
        .unwrap_or_default()
        .iter()
        .map(|&package| package.to_owned());
    let wanted: BTreeSet<String> = missing
        .iter()
        .map(|need| need.package.to_owned())
        .chain(wasm_packages)
        .collect();
    if !wanted.is_empty() {
        for need in &missing {
            eprintln!(
                "xtask: {} is missing, needed for {}",
                packages::name(need.sign),
                need.purpose
            );
        }
        if missing.is_empty() {
            eprintln!("xtask: a compiler for WebAssembly is missing, needed for the dashboard");
        }
        install(&wanted)?;
        let still = packages::missing(missing, is_there);
        if let Some(need) = still.first() {
            bail!(
                "the package {} was installed, but {} is not there",
                need.package,
                packages::name(need.sign)
            );
        }
    }
    if purpose == Purpose::Test {
        prometheus(root)?;
    }
    Ok(())
}

fn is_there(sign: Sign) -> bool {
    match sign {
        Sign::Program(name) => process::find_program(name).is_some(),
        Sign::File(places) => places.iter().any(|place| Path::new(place).exists()),
    }
}

/// rustfmt tidies generated code while netto is built; clippy is part of the tests.
/// rustup puts stand-ins for both into PATH, so only the tool chain's own folder tells.
fn toolchain(purpose: Purpose) -> Result<()> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot = process::output(Command::new(rustc).args(["--print", "sysroot"]))
        .context("netto is built by Rust; get it from https://rustup.rs")?;
    let mut components = vec![("rustfmt", "rustfmt")];
    if purpose == Purpose::Test {
        components.push(("cargo-clippy", "clippy"));
    }
    for (program, component) in components {
        let own = Path::new(&sysroot).join("bin").join(program);
        if process::is_executable(&own) || is_foreign(&sysroot, program) {
            continue;
        }
        process::run(Command::new("rustup").args(["component", "add", component]))
            .with_context(|| format!("netto's build needs {component}"))?;
    }
    Ok(())
}

/// Whether the tool chain is not rustup's (then a program in PATH is the real one).
fn is_foreign(sysroot: &str, program: &str) -> bool {
    !sysroot.contains("toolchains") && process::find_program(program).is_some()
}

fn install(wanted: &BTreeSet<String>) -> Result<()> {
    let names: Vec<&str> = wanted.iter().map(String::as_str).collect();
    if process::find_program("apt-get").is_none() {
        bail!(
            "this is not Debian or Ubuntu; install what these packages of Debian hold, then try again: {}",
            names.join(" ")
        );
    }
    if !process::is_root() {
        bail!(
            "system packages are missing; type this, then try again:\n  sudo apt-get update && sudo apt-get install --no-install-recommends {}",
            names.join(" ")
        );
    }
    eprintln!("xtask: installing {}", names.join(" "));
    update_package_lists()?;
    let mut arguments = vec!["install", "--yes", "--quiet", "--no-install-recommends"];
    arguments.extend(&names);
    apt(&arguments).context("cannot install the system packages that netto's build needs")
}

fn apt(arguments: &[&str]) -> Result<()> {
    process::run(
        Command::new("apt-get")
            .args(arguments)
            // Without it dpkg draws progress, which fills a log with noise.
            .args(["-o", "Dpkg::Use-Pty=0"])
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(std::process::Stdio::null()),
    )
}

/// Where programs are unpacked that are only for the tests.
fn tools(root: &Path) -> PathBuf {
    root.join("target/tools")
}

/// Folders to add to PATH for the tests.
pub fn tool_folders(root: &Path) -> Vec<PathBuf> {
    vec![tools(root).join("usr/bin")]
}

/// Debian's package starts a Prometheus server as soon as it is installed, which is
/// not ours to do to a machine. Its two programs work as they are unpacked.
fn prometheus(root: &Path) -> Result<()> {
    let unpacked = tools(root).join("usr/bin");
    let there = |name: &str| {
        process::find_program(name).is_some() || process::is_executable(&unpacked.join(name))
    };
    if there("prometheus") && there("promtool") {
        return Ok(());
    }
    if process::find_program("apt-get").is_none() {
        bail!("prometheus and promtool are missing, needed for testing what netto exports");
    }
    eprintln!("xtask: unpacking prometheus below target/tools, for testing what netto exports");
    unpack_package("prometheus", &tools(root))?;
    if !there("prometheus") || !there("promtool") {
        bail!("the package prometheus does not hold prometheus and promtool");
    }
    Ok(())
}

/// Downloads a Debian package and unpacks it into this folder, without installing it.
///
/// # Errors
/// The package is not to be had.
pub fn unpack_package(package: &str, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    // Another user may not read this folder, and apt would rather not download as root.
    let mut download = Command::new("apt-get");
    download
        .args(["download", "--quiet", package])
        .current_dir(folder);
    if process::is_root() {
        download.args(["-o", "APT::Sandbox::User=root"]);
    }
    if process::run(&mut download).is_err() {
        if !process::is_root() {
            bail!(
                "cannot download the package {package}; type this, then try again: sudo apt-get update"
            );
        }
        update_package_lists()?;
        process::run(&mut download)?;
    }
    let archive = std::fs::read_dir(folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|ending| ending == "deb"))
        .context("apt-get download left no package behind")?;
    process::run(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(folder))?;
    std::fs::remove_file(&archive).with_context(|| format!("cannot remove {}", archive.display()))
}

/// Asks the archives what they have now; for root only.
pub fn update_package_lists() -> Result<()> {
    apt(&["update", "--quiet"])
}
