//! The kernels of the matrix: which there are, which package has them, and how
//! they come to lie unpacked below `target/vm`. Nothing is installed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use super::architecture::Architecture;
use super::modules;
use crate::apt::Apt;

/// A kernel of Debian's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Debian 12's own.
    V6_1,
    /// The newer one for Debian 12.
    V6_12,
    /// Debian 12's own, built with PREEMPT_RT.
    Rt,
    /// The newer one for Debian 12, built with PREEMPT_RT, which does not say so in sysfs.
    Rt6_12,
    /// The newer one for Debian 12, for ARM.
    Arm6_12,
}

/// What can be asked for on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Choice {
    /// Linux 6.1
    #[value(name = "6.1")]
    V6_1,
    /// Linux 6.12
    #[value(name = "6.12")]
    V6_12,
    /// Linux 6.1 with PREEMPT_RT
    #[value(name = "rt")]
    Rt,
    /// Linux 6.12 with PREEMPT_RT
    #[value(name = "rt-6.12")]
    Rt6_12,
    /// Linux 6.12 for arm64, emulated, with netto compiled for it
    #[value(name = "arm64-6.12")]
    Arm6_12,
    /// 6.1 and 6.12
    #[value(name = "all")]
    All,
}

impl Choice {
    /// The kernels that are meant.
    pub fn kernels(self) -> &'static [Kernel] {
        match self {
            Choice::V6_1 => &[Kernel::V6_1],
            Choice::V6_12 => &[Kernel::V6_12],
            Choice::Rt => &[Kernel::Rt],
            Choice::Rt6_12 => &[Kernel::Rt6_12],
            Choice::Arm6_12 => &[Kernel::Arm6_12],
            Choice::All => MATRIX,
        }
    }
}

/// What `cargo xtask test` runs.
pub const MATRIX: &[Kernel] = &[Kernel::V6_1, Kernel::V6_12];

impl Kernel {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::V6_1 => "6.1",
            Kernel::V6_12 => "6.12",
            Kernel::Rt => "rt",
            Kernel::Rt6_12 => "rt-6.12",
            Kernel::Arm6_12 => "arm64-6.12",
        }
    }

    /// What it is for.
    pub fn architecture(self) -> Architecture {
        match self {
            Kernel::Arm6_12 => Architecture::Arm64,
            _ => Architecture::Amd64,
        }
    }

    /// The package that depends on the newest build of this kernel.
    fn meta_package(self) -> &'static str {
        match self {
            Kernel::V6_1 => "linux-image-amd64",
            Kernel::V6_12 => "linux-image-6.12-cloud-amd64",
            Kernel::Rt => "linux-image-rt-amd64",
            Kernel::Rt6_12 => "linux-image-6.12-rt-amd64",
            Kernel::Arm6_12 => "linux-image-6.12-cloud-arm64",
        }
    }

    /// How every release of this kernel begins, and how it ends.
    fn release(self) -> (&'static str, &'static str) {
        match self {
            Kernel::V6_1 => ("6.1.", "-amd64"),
            Kernel::V6_12 => ("6.12.", "-cloud-amd64"),
            Kernel::Rt => ("6.1.", "-rt-amd64"),
            Kernel::Rt6_12 => ("6.12.", "-rt-amd64"),
            Kernel::Arm6_12 => ("6.12.", "-cloud-arm64"),
        }
    }
}

/// A kernel that lies ready.
#[derive(Debug)]
pub struct Unpacked {
    /// The kernel itself.
    pub image: PathBuf,
    /// Every module of its by name.
    pub modules: BTreeMap<String, PathBuf>,
}

/// Finds the kernel below `folder`, and fetches it if it is not there yet.
///
/// # Errors
/// The package is not to be had, or not what it should be.
pub fn fetch(folder: &Path, kernel: Kernel) -> Result<Unpacked> {
    let home = folder.join(format!("linux-{}", kernel.name()));
    if !home.exists() {
        let apt = kernel.architecture().apt(folder)?;
        download(&home, kernel, &apt)
            .with_context(|| format!("cannot get the kernel {}", kernel.name()))?;
    }
    open(&home).with_context(|| {
        format!(
            "{} holds no kernel; remove it to fetch it anew",
            home.display()
        )
    })
}

fn download(home: &Path, kernel: Kernel, apt: &Apt) -> Result<()> {
    let package = match resolve(kernel, apt) {
        Ok(package) => package,
        Err(_) if apt.may_update() => {
            apt.update()?;
            resolve(kernel, apt)?
        }
        Err(error) => return Err(error),
    };
    eprintln!("xtask: fetching {package} for the virtual machines");
    // Through a folder of its own: what is at home is always whole.
    let mut fresh = home.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = PathBuf::from(fresh);
    if fresh.exists() {
        std::fs::remove_dir_all(&fresh)
            .with_context(|| format!("cannot remove {}", fresh.display()))?;
    }
    apt.unpack(&package, &fresh)?;
    std::fs::rename(&fresh, home).with_context(|| format!("cannot create {}", home.display()))
}

/// The package with the kernel itself, on which the meta package depends.
fn resolve(kernel: Kernel, apt: &Apt) -> Result<String> {
    let meta = kernel.meta_package();
    let listing = apt
        .depends(meta)
        .context("the kernels come as Debian packages")?;
    kernel_package(&listing, kernel.release()).with_context(|| {
        format!(
            "apt knows no package {meta} with a kernel; it is in Debian 12 (bookworm) and its security suite"
        )
    })
}

fn kernel_package(listing: &str, (begin, end): (&str, &str)) -> Option<String> {
    listing
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|package| {
            package
                .strip_prefix("linux-image-")
                .is_some_and(|release| release.starts_with(begin) && release.ends_with(end))
        })
        .map(str::to_owned)
}

fn open(home: &Path) -> Result<Unpacked> {
    let mut image = None;
    for entry in read_folder(&home.join("boot"))? {
        let name = entry.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("vmlinuz-") {
            image = Some(entry);
        }
    }
    let mut found = BTreeMap::new();
    let mut folders = vec![home.join("lib/modules")];
    while let Some(folder) = folders.pop() {
        for path in read_folder(&folder)? {
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if let Some(name) = path
                .file_name()
                .and_then(|name| modules::name_of_file(name.to_str()?))
            {
                found.insert(name, path);
            }
        }
    }
    if found.is_empty() {
        bail!("there is no module");
    }
    Ok(Unpacked {
        image: image.context("there is no vmlinuz")?,
        modules: found,
    })
}

fn read_folder(folder: &Path) -> Result<Vec<PathBuf>> {
    std::fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .with_context(|| format!("cannot read {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_itself_is_found_behind_the_meta_package() {
        let listing = "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n";
        let found = |kernel: Kernel| kernel_package(listing, kernel.release());
        assert_eq!(
            found(Kernel::V6_1).as_deref(),
            Some("linux-image-6.1.0-56-amd64")
        );
        assert_eq!(found(Kernel::V6_12), None, "a newer Debian has another one");
        assert_eq!(found(Kernel::Rt), None);
        let cloud = "  Depends: linux-image-6.12.117+deb12-cloud-amd64\n";
        assert!(kernel_package(cloud, Kernel::V6_12.release()).is_some());
        assert_eq!(kernel_package("", Kernel::V6_1.release()), None);
    }

    #[test]
    fn all_is_the_matrix_and_others_are_asked_for_by_name() {
        assert_eq!(Choice::All.kernels(), MATRIX);
        assert!(!MATRIX.contains(&Kernel::Rt));
        assert_eq!(Choice::Rt.kernels(), [Kernel::Rt]);
        let of_this_machine = |kernel: &Kernel| kernel.architecture() == Architecture::Amd64;
        assert!(MATRIX.iter().all(of_this_machine));
    }
}
