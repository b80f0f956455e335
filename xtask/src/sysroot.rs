//! Debians below `target`: a Debian 11, whose glibc is the oldest that netto supports, to link with
//! and to try packages in; and one of another architecture, to link with and to take programs of.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::apt::Apt;
use crate::process;

const RELEASE: &str = "bullseye";
/// What linking needs beside a compiler.
const TO_LINK_WITH: [&str; 3] = ["libc6-dev", "libelf-dev", "zlib1g-dev"];
/// Where its libraries are.
pub const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// Makes a folder once: under another name until it is whole.
fn once(place: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if place.exists() {
        return Ok(());
    }
    let half = place.with_extension("half");
    remove(&half)?;
    make(&half)?;
    std::fs::rename(&half, place).with_context(|| format!("cannot name {}", place.display()))
}

/// Removes a folder, if it is there.
pub fn remove(folder: &Path) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    std::fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))
}

/// Copies a system with its owners and links.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    remove(to)?;
    process::run(Command::new("cp").arg("-a").arg(from).arg(to))
}

/// The smallest Debian 11, to be copied and not to be changed.
pub fn base(tools: &Path) -> Result<PathBuf> {
    let place = tools.join(RELEASE);
    once(&place, |half| {
        let mut debootstrap = Command::new("debootstrap");
        debootstrap.args(["--variant=minbase", RELEASE]).arg(half);
        process::run(&mut debootstrap).context("Debian 11 is not to be had")
    })?;
    Ok(place)
}

/// That, with what linking needs.
pub fn development(tools: &Path) -> Result<PathBuf> {
    let place = tools.join("sysroot");
    let base = base(tools)?;
    once(&place, |half| {
        copy(&base, half)?;
        let mut install = Command::new("chroot");
        install
            .arg(half)
            .args([
                "apt-get",
                "install",
                "--yes",
                "--quiet",
                "--no-install-recommends",
            ])
            .args(TO_LINK_WITH)
            .env("DEBIAN_FRONTEND", "noninteractive");
        process::run(&mut install)?;
        // glibc's linker script names the loader by its whole path.
        for folder in [LIBRARIES, "usr/lib64"] {
            within(half, &half.join(folder))?;
        }
        Ok(())
    })?;
    Ok(place)
}

/// A system of another architecture, by GNU's name of it, with what linking needs and these
/// packages. Nothing of it runs here, so that nothing is installed in it: packages are unpacked.
pub fn foreign(place: &Path, apt: &Apt, gnu: &str, packages: &[&str]) -> Result<()> {
    once(place, |half| {
        let packages: Vec<&str> = TO_LINK_WITH.iter().chain(packages).copied().collect();
        apt.unpack_system(&packages, half)?;
        for folder in ["sbin", &format!("usr/lib/{gnu}")] {
            within(half, &half.join(folder))?;
        }
        Ok(())
    })
}

/// Links that name a file of the system by its whole path would name one of this machine.
fn within(root: &Path, folder: &Path) -> Result<()> {
    let entries =
        std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let link = entry?.path();
        let Ok(to) = std::fs::read_link(&link) else {
            continue;
        };
        let Ok(to) = to.strip_prefix("/") else {
            continue;
        };
        let up = folder.strip_prefix(root)?.iter().map(|_| "..");
        let relative = up.collect::<PathBuf>().join(to);
        std::fs::remove_file(&link)?;
        std::os::unix::fs::symlink(relative, &link)
            .with_context(|| format!("cannot link {}", link.display()))?;
    }
    Ok(())
}

/// A folder with libelf and zlib, to be linked statically, and nothing else.
pub fn libraries(tools: &Path) -> Result<PathBuf> {
    let place = tools.join("libs");
    let sysroot = development(tools)?;
    once(&place, |half| {
        std::fs::create_dir_all(half)?;
        for name in ["libelf.a", "libz.a"] {
            let from = sysroot.join(LIBRARIES).join(name);
            std::fs::copy(&from, half.join(name))
                .with_context(|| format!("cannot copy {}", from.display()))?;
        }
        Ok(())
    })?;
    Ok(place)
}
