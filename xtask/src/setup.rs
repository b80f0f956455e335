//! Makes the machine ready: looks first, fetches only what is missing, says what it does.
//!
//! System packages come by apt where this is root; otherwise the exact line to
//! type is the error. Nothing is started or configured on the machine: the one
//! package that would start a service (Prometheus) is only unpacked below `target`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::apt::Apt;
use crate::packages::{self, Need, Sign};
use crate::{process, wasm};

/// What the machine is to be made ready for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Building and running.
    Build,
    /// That, and the tests.
    Test,
    /// That, and the tests that take long.
    LongTest,
    /// Building, and measuring what netto costs.
    Bench,
}

/// Fetches what is missing.
///
/// # Errors
/// Something is missing that cannot be fetched; the message says what to type.
pub fn ensure(root: &Path, purpose: Purpose) -> Result<()> {
    ensure_packages(purpose)?;
    match purpose {
        Purpose::Test | Purpose::LongTest => fetch_test_tools(root),
        Purpose::Build | Purpose::Bench => Ok(()),
    }
}

/// Fetches what only tests need when they run, and nothing that is compiled.
///
/// # Errors
/// As for [`ensure`].
pub fn fetch_test_tools(root: &Path) -> Result<()> {
    prometheus(root)?;
    axe(root)?;
    readers_of_exports(root)
}

/// Installs the tool chain's parts and system packages that are missing.
///
/// # Errors
/// As for [`ensure`].
pub fn ensure_packages(purpose: Purpose) -> Result<()> {
    toolchain(purpose)?;
    let mut needs: Vec<&Need> = packages::BUILD.iter().collect();
    match purpose {
        Purpose::Build => {}
        Purpose::Test => needs.extend(packages::TEST.iter().chain(packages::GUESTS)),
        Purpose::LongTest => needs.extend(
            packages::TEST
                .iter()
                .chain(packages::GUESTS)
                .chain(packages::LONG_TEST),
        ),
        Purpose::Bench => needs.extend(packages::BENCH.iter().chain(packages::GUESTS)),
    }
    let wasm_packages = wasm::debian_packages_needed().unwrap_or_default();
    ensure_needs(needs, wasm_packages)
}

/// Installs those of these that are missing, and these packages.
///
/// # Errors
/// As for [`ensure`].
pub fn ensure_needs<'a>(
    needs: impl IntoIterator<Item = &'a Need>,
    packages: &[&str],
) -> Result<()> {
    let missing = packages::missing(needs, is_there);
    let packages = packages.iter().map(|&package| package.to_owned());
    let wanted: BTreeSet<String> = missing
        .iter()
        .map(|need| need.package.to_owned())
        .chain(packages)
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
    if matches!(purpose, Purpose::Test | Purpose::LongTest) {
        components.push(("cargo-clippy", "clippy"));
    }
    for (program, component) in components {
        let path = Path::new(&sysroot).join("bin").join(program);
        if process::is_executable(&path) || is_foreign(&sysroot, program) {
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
    Apt::native().update()?;
    let mut arguments = vec!["install", "--yes", "--quiet", "--no-install-recommends"];
    arguments.extend(&names);
    Apt::native()
        .run(&arguments)
        .context("cannot install the system packages that netto's build needs")
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
    Apt::native().unpack("prometheus", &tools(root))?;
    if !there("prometheus") || !there("promtool") {
        bail!("the package prometheus does not hold prometheus and promtool");
    }
    Ok(())
}

/// The package of axe-core in npm's registry, and its checksum.
const AXE: &str = "https://registry.npmjs.org/axe-core/-/axe-core-4.10.3.tgz";
const AXE_SHA256: &str = "0f2b4d7dcdf7d1219df8d1959ad68e565f51d14c3f0d88bb71cd59abeb956292";

/// The checker of accessibility that the dashboard's tests load into the page.
fn axe(root: &Path) -> Result<()> {
    let script = tools(root).join("axe/axe.min.js");
    if script.exists() {
        return Ok(());
    }
    let folder = tools(root).join("axe.new");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    eprintln!("xtask: fetching axe-core, for testing whether everybody can read the dashboard");
    let archive = folder.join("axe-core.tgz");
    let mut fetch = Command::new("curl");
    fetch.args(["--silent", "--show-error", "--fail", "--location"]);
    fetch.args(["--retry", "3", "--max-time", "120", "--output"]);
    process::run(fetch.arg(&archive).arg(AXE))
        .context("cannot fetch axe-core, needed for the dashboard's tests")?;
    let sum = process::output(Command::new("sha256sum").arg(&archive))?;
    if !sum.starts_with(AXE_SHA256) {
        bail!("{AXE} is not what it was: its checksum is {sum}");
    }
    let mut unpack = Command::new("tar");
    unpack.arg("-xzf").arg(&archive).arg("-C").arg(&folder);
    process::run(unpack.args(["--strip-components=1", "package/axe.min.js"]))?;
    let made = tools(root).join("axe");
    std::fs::create_dir_all(&made).with_context(|| format!("cannot create {}", made.display()))?;
    std::fs::rename(folder.join("axe.min.js"), &script)
        .with_context(|| format!("cannot put {} in its place", script.display()))?;
    std::fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))
}

/// DuckDB, pandas, Polars and Prometheus' client, which read what netto writes: about 300 MB, installed below
/// `target/tools` in a Python environment of their own.
fn readers_of_exports(root: &Path) -> Result<()> {
    let environment = tools(root).join("python");
    let python = environment.join("bin/python3");
    let has_all = |python: &Path| {
        let mut import = Command::new(python);
        import.args(["-c", "import duckdb, pandas, polars, prometheus_client"]);
        process::is_executable(python) && process::output(&mut import).is_ok()
    };
    if has_all(&python) {
        return Ok(());
    }
    eprintln!(
        "xtask: installing DuckDB, pandas, Polars and Prometheus' client below target/tools, for testing what netto exports"
    );
    python_environment(&environment)?;
    process::run(
        Command::new(&python)
            .args(["-m", "pip", "install", "--quiet"])
            .args(["--disable-pip-version-check", "--only-binary=:all:"])
            .args(READERS),
    )
    .context(
        "cannot install DuckDB, pandas, Polars and Prometheus' client from PyPI, which the tests need",
    )?;
    if !has_all(&python) {
        bail!(
            "DuckDB, pandas, Polars and Prometheus' client were installed, but cannot be imported"
        );
    }
    Ok(())
}

/// Makes a Python environment in this folder.
///
/// # Errors
/// There is no Python, or nothing that makes environments.
pub fn python_environment(folder: &Path) -> Result<()> {
    let create = || {
        let mut command = Command::new("python3");
        process::run(command.args(["-m", "venv", "--clear"]).arg(folder))
    };
    // Debian has what creates environments in a package of its own.
    if create().is_err() {
        install(&BTreeSet::from(["python3-venv".to_owned()]))?;
        create()?;
    }
    Ok(())
}

/// As pip understands it.
const READERS: [&str; 5] = [
    "duckdb==2.*",
    "pandas==3.*",
    "polars==2.*",
    "prometheus-client==0.*",
    // DuckDB needs it to return times with a zone.
    "pytz",
];

/// PATH with the tests' own tools, and the administrator's programs, at its end.
///
/// # Errors
/// A folder's name cannot stand in it.
pub fn path_with_tools(root: &Path) -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path)
        .chain(tool_folders(root))
        .chain(["/usr/sbin".into(), "/sbin".into()]);
    std::env::join_paths(folders).context("PATH holds a folder that cannot be written in it")
}
