//! `cargo xtask dist`: what others install, in `target/dist`.
//!
//! Two binaries of the same source: one for packages, which needs glibc 2.31 and nothing else, and
//! a static one for images. Packages are made by cargo-deb and cargo-generate-rpm from what
//! netto/Cargo.toml says, images by buildah.

mod check;
mod pack;
mod tools;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{build, packages, process, setup, sysroot, tree};

/// What can be asked for.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Also install, start, upgrade and purge what was made, in a Debian 11 of its own (as root)
    #[arg(long)]
    check: bool,
    /// Also build everything a second time, from a clone elsewhere, and compare each byte
    #[arg(long)]
    twice: bool,
}

/// The only architecture that packages are made for.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// How the binary is linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Linkage {
    /// With the oldest glibc that is supported, and libelf and zlib within.
    Glibc,
    /// With everything within.
    Static,
}

/// One making of everything.
#[derive(Debug)]
struct Dist {
    /// The source.
    root: PathBuf,
    /// Where programs and chroots are kept, beyond one making.
    tools: PathBuf,
    /// What is made.
    out: PathBuf,
    /// The time that all files get: the commit's.
    epoch: String,
    version: String,
}

impl Dist {
    fn of(root: &Path, tools: &Path) -> Result<Self> {
        let mut log = Command::new("git");
        log.current_dir(root).args(["log", "-1", "--format=%ct"]);
        let epoch = process::output(&mut log).context("the time of the files is the commit's")?;
        Ok(Dist {
            root: root.to_owned(),
            tools: tools.to_owned(),
            out: root.join("target/dist"),
            epoch,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }

    /// What packages are made of.
    fn files(&self) -> PathBuf {
        self.out.join("files")
    }

    /// A command whose files have the commit's time.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.root)
            .env("SOURCE_DATE_EPOCH", &self.epoch)
            .env("TZ", "UTC")
            .env("LC_ALL", "C");
        command
    }

    /// Builds netto for others; paths of this machine are not in it.
    fn binary(&self, linkage: Linkage) -> Result<PathBuf> {
        let sysroot = sysroot::development(&self.tools)?;
        let crates = tools::cargo_home()?.join("registry/src");
        let remap = |flag: &str| {
            let (root, crates) = (self.root.display(), crates.display());
            format!("{flag}={root}=. {flag}={crates}=crates")
        };
        let target = TARGET.replace('-', "_");
        let mut cargo = build::cargo_with_product(&self.root)?;
        cargo
            .args(["rustc", "--release", "--locked", "--package", "netto"])
            .args(["--bin", "netto", "--features", "netto-sys/static"])
            .args(["--target", TARGET, "--"])
            .env("SOURCE_DATE_EPOCH", &self.epoch)
            .env("LIBBPF_SYS_LIBRARY_PATH", sysroot::libraries(&self.tools)?)
            .env(
                format!("CFLAGS_{target}"),
                format!(
                    "--sysroot={} {}",
                    sysroot.display(),
                    remap("-ffile-prefix-map")
                ),
            )
            .env(
                format!("CARGO_TARGET_{}_RUSTFLAGS", target.to_uppercase()),
                format!(
                    "-Clink-arg=--sysroot={} {}",
                    sysroot.display(),
                    remap("--remap-path-prefix")
                ),
            );
        // These flags are for the last crate only, so that both linkages share all other compiled crates.
        match linkage {
            Linkage::Glibc => {
                let libraries = sysroot.join(sysroot::LIBRARIES);
                // Named explicitly, because gcc looks beside itself before it looks into the root.
                cargo.args(
                    ["B", "L"].map(|flag| format!("-Clink-arg=-{flag}{}", libraries.display())),
                )
            }
            // This machine's glibc, not the root's: before 2.34 a static one cannot look up names.
            Linkage::Static => {
                cargo.args(["-Ctarget-feature=+crt-static", "-Clink-arg=--sysroot=/"])
            }
        };
        process::run(&mut cargo)?;
        let built = tree::target_folder(&self.root)
            .join(TARGET)
            .join("release/netto");
        let name = match linkage {
            Linkage::Glibc => "netto",
            Linkage::Static => "netto-static",
        };
        let kept = self.files().join(name);
        std::fs::copy(&built, &kept)
            .with_context(|| format!("cannot copy {} to {}", built.display(), kept.display()))?;
        Ok(kept)
    }

    /// Makes everything.
    fn make(&self) -> Result<()> {
        if self.out.exists() {
            std::fs::remove_dir_all(&self.out)
                .with_context(|| format!("cannot remove {}", self.out.display()))?;
        }
        std::fs::create_dir_all(self.files())
            .with_context(|| format!("cannot create {}", self.files().display()))?;
        self.binary(Linkage::Glibc)?;
        self.binary(Linkage::Static)?;
        tools::install(&self.tools)?;
        pack::all(self)
    }
}

/// Makes everything, and checks what was asked for.
///
/// # Errors
/// Something cannot be made, or is not as it should be.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    ensure!(
        process::is_root(),
        "the chroot of Debian 11 that netto is linked in, and tried in, needs root: sudo -E cargo xtask dist"
    );
    setup::ensure(root, setup::Purpose::Build)?;
    setup::ensure_needs(packages::DIST, &[])?;
    let tools = root.join("target/tools/dist");
    let dist = Dist::of(root, &tools)?;
    dist.make()?;
    if options.twice {
        check::twice(&dist)?;
    }
    if options.check {
        check::all(&dist)?;
    }
    eprintln!("xtask: made {}", dist.out.display());
    Ok(())
}
