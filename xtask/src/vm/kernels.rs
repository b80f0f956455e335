//! The kernels of guests: which there are, which packages have them, and how they come to lie
//! unpacked below `target/vm`. Nothing is installed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result};

use super::architecture::Architecture;
use super::modules;
use crate::apt::Apt;

/// A kernel of Debian's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Debian 11's own, which netto refuses.
    V5_10,
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
    /// One that Debian's backports have now, by its version.
    Backport(u16, u16),
    /// The newest one that Debian's backports have now.
    Newest,
}

/// What can be asked for on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice(Vec<Kernel>);

/// What `cargo xtask test` runs.
pub const MATRIX: &[Kernel] = &[Kernel::V6_1, Kernel::V6_12];

/// Kernels with a name of their own.
const NAMED: &[Kernel] = &[
    Kernel::V5_10,
    Kernel::V6_1,
    Kernel::V6_12,
    Kernel::Rt,
    Kernel::Rt6_12,
    Kernel::Arm6_12,
    Kernel::Newest,
];

/// Archives of Debian that this machine's apt does not ask: address and suite.
const OLDER: [&str; 2] = ["http://deb.debian.org/debian-security", "bullseye-security"];
const BACKPORTS: [&str; 2] = ["http://deb.debian.org/debian", "trixie-backports"];

/// Packages that hold parts of a kernel: since 6.19 the image's package depends on the others.
const PARTS: [&str; 2] = ["linux-binary-", "linux-modules-"];

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Choice(MATRIX.to_vec()));
        }
        let mut named = NAMED.iter().copied();
        let backport = || {
            let (major, minor) = text.split_once('.')?;
            Some(Kernel::Backport(major.parse().ok()?, minor.parse().ok()?))
        };
        let kernel = named.find(|kernel| kernel.name() == text).or_else(backport);
        kernel.map(|kernel| Choice(vec![kernel])).ok_or_else(|| {
            let names: Vec<String> = NAMED.iter().map(|kernel| kernel.name()).collect();
            format!(
                "the kernels are all, {}, and a version that Debian's backports have, such as 6.16",
                names.join(", ")
            )
        })
    }
}

impl Choice {
    /// The kernels that are meant.
    pub fn kernels(&self) -> &[Kernel] {
        &self.0
    }
}

impl Kernel {
    /// As on the command line.
    pub fn name(self) -> String {
        let name = match self {
            Kernel::V5_10 => "5.10",
            Kernel::V6_1 => "6.1",
            Kernel::V6_12 => "6.12",
            Kernel::Rt => "rt",
            Kernel::Rt6_12 => "rt-6.12",
            Kernel::Arm6_12 => "arm64-6.12",
            Kernel::Backport(major, minor) => return format!("{major}.{minor}"),
            Kernel::Newest => "newest",
        };
        name.to_owned()
    }

    /// What it is for.
    pub fn architecture(self) -> Architecture {
        match self {
            Kernel::Arm6_12 => Architecture::Arm64,
            _ => Architecture::Amd64,
        }
    }

    /// What its guest runs if no test is asked for; nothing: the tests of every guest.
    pub fn tests(self) -> Vec<String> {
        match self {
            Kernel::V5_10 => vec!["--include-ignored".to_owned(), REFUSAL_TESTS.to_owned()],
            _ => Vec::new(),
        }
    }

    /// Where its packages are.
    fn apt(self, folder: &Path) -> Result<Apt> {
        match self {
            Kernel::V5_10 => Apt::of_suite(OLDER, &folder.join("apt-older")),
            Kernel::Backport(..) | Kernel::Newest => {
                Apt::of_suite(BACKPORTS, &folder.join("apt-backports"))
            }
            _ => self.architecture().apt(folder),
        }
    }

    /// The package that depends on the newest build of this kernel; `None` where the archive has
    /// several versions, of which one is chosen by name.
    fn meta_package(self) -> Option<&'static str> {
        match self {
            Kernel::V6_1 => Some("linux-image-amd64"),
            Kernel::V6_12 => Some("linux-image-6.12-cloud-amd64"),
            Kernel::Rt => Some("linux-image-rt-amd64"),
            Kernel::Rt6_12 => Some("linux-image-6.12-rt-amd64"),
            Kernel::Arm6_12 => Some("linux-image-6.12-cloud-arm64"),
            Kernel::V5_10 | Kernel::Backport(..) | Kernel::Newest => None,
        }
    }

    /// How every release of this kernel begins, and how it ends.
    fn release(self) -> (String, &'static str) {
        let (begin, end) = match self {
            Kernel::V5_10 => ("5.10.", "-cloud-amd64"),
            Kernel::V6_1 => ("6.1.", "-amd64"),
            Kernel::V6_12 => ("6.12.", "-cloud-amd64"),
            Kernel::Rt => ("6.1.", "-rt-amd64"),
            Kernel::Rt6_12 => ("6.12.", "-rt-amd64"),
            Kernel::Arm6_12 => ("6.12.", "-cloud-arm64"),
            Kernel::Backport(major, minor) => return (format!("{major}.{minor}."), "-cloud-amd64"),
            Kernel::Newest => ("", "-cloud-amd64"),
        };
        (begin.to_owned(), end)
    }
}

/// That netto refuses a kernel that is too old.
const REFUSAL_TESTS: &str = "refusal::";

/// A kernel that lies ready.
#[derive(Debug)]
pub struct Unpacked {
    /// The kernel itself.
    pub image: PathBuf,
    /// Every module of its by name.
    pub modules: BTreeMap<String, PathBuf>,
}

/// The name of the kernel's package, beside what was in it.
const PACKAGE: &str = "package";

/// Finds the kernel below `folder`, and fetches it if it is not there yet. What is newest changes:
/// the archive is asked each time.
///
/// # Errors
/// The package is not to be had, or not what it should be.
pub fn fetch(folder: &Path, kernel: Kernel) -> Result<Unpacked> {
    let home = home(folder, kernel)?;
    let hint = || {
        let home = home.display();
        format!("{home} holds no whole kernel; remove it to fetch it anew")
    };
    let unpacked = open(&home).with_context(hint)?;
    if unpacked.modules.is_empty() {
        return Err(anyhow::anyhow!("there is no module")).with_context(hint);
    }
    Ok(unpacked)
}

/// The image of a kernel, of which the archive may have no modules any more, and its package.
///
/// # Errors
/// As [`fetch`].
pub fn fetch_image(folder: &Path, kernel: Kernel) -> Result<(PathBuf, String)> {
    let home = home(folder, kernel)?;
    let package = std::fs::read_to_string(home.join(PACKAGE))
        .with_context(|| format!("remove {} to fetch it anew", home.display()))?;
    Ok((open(&home)?.image, package))
}

/// The folder in which a kernel lies unpacked.
fn home(folder: &Path, kernel: Kernel) -> Result<PathBuf> {
    let failure = || format!("cannot get the kernel {}", kernel.name());
    let mut home = folder.join(format!("linux-{}", kernel.name()));
    if kernel == Kernel::Newest {
        let apt = kernel.apt(folder)?;
        apt.update().with_context(failure)?;
        let package = resolve(kernel, &apt).with_context(failure)?;
        home = folder.join(package.replace("image-", ""));
    }
    if !home.exists() {
        download(&home, kernel, &kernel.apt(folder)?).with_context(failure)?;
    }
    Ok(home)
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
    // Unpacked into another folder first, so that the final one is always whole.
    let mut fresh = home.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = PathBuf::from(fresh);
    if fresh.exists() {
        std::fs::remove_dir_all(&fresh)
            .with_context(|| format!("cannot remove {}", fresh.display()))?;
    }
    let listing = apt.depends(&package)?;
    let parts =
        dependencies(&listing).filter(|name| PARTS.iter().any(|part| name.starts_with(part)));
    for part in parts.chain([package.as_str()]) {
        if let Err(error) = apt.unpack(part, &fresh) {
            // Of superseded versions archives may keep the kernel package alone.
            eprintln!("xtask: {part} is not to be had: {error:#}");
        }
    }
    let name = fresh.join(PACKAGE);
    std::fs::write(&name, &package).with_context(|| format!("cannot write {}", name.display()))?;
    std::fs::rename(&fresh, home).with_context(|| format!("cannot create {}", home.display()))
}

/// The package with the kernel itself.
fn resolve(kernel: Kernel, apt: &Apt) -> Result<String> {
    let (begin, end) = kernel.release();
    let Some(meta) = kernel.meta_package() else {
        let names = apt.names("linux-image-")?;
        return newest(names.lines(), &begin, end).with_context(|| {
            format!(
                "Debian's archive has no kernel {} (linux-image-{begin}…{end}) now",
                kernel.name()
            )
        });
    };
    let listing = apt
        .depends(meta)
        .context("the kernels come as Debian packages")?;
    kernel_package(&listing, &begin, end).with_context(|| {
        format!(
            "apt knows no package {meta} with a kernel; it is in Debian 12 (bookworm) and its security suite"
        )
    })
}

/// The packages in what apt-cache says of dependencies.
fn dependencies(listing: &str) -> impl Iterator<Item = &str> {
    listing
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
}

/// The numbers in a text, by which versions are sorted.
pub fn numbers(text: &str) -> Vec<u32> {
    let numbers = text.split(|letter: char| !letter.is_ascii_digit());
    numbers.filter_map(|number| number.parse().ok()).collect()
}

fn is_release(package: &str, begin: &str, end: &str) -> bool {
    package
        .strip_prefix("linux-image-")
        .is_some_and(|release| release.starts_with(begin) && release.ends_with(end))
}

/// The package of the newest such kernel, of names without an order.
fn newest<'a>(names: impl Iterator<Item = &'a str>, begin: &str, end: &str) -> Option<String> {
    // Meta packages of a series have the same ending, but no release number.
    let kernels = names.filter(|name| is_release(name, begin, end) && numbers(name).len() > 3);
    kernels.max_by_key(|name| numbers(name)).map(str::to_owned)
}

fn kernel_package(listing: &str, begin: &str, end: &str) -> Option<String> {
    dependencies(listing)
        .find(|package| is_release(package, begin, end))
        .map(str::to_owned)
}

/// Where kernels and their modules are. Newer packages have both below `/usr`.
const PLACES: [&str; 3] = ["boot", "lib/modules", "usr/lib/modules"];

fn open(home: &Path) -> Result<Unpacked> {
    let mut image = None;
    let mut found = BTreeMap::new();
    let places = PLACES.iter().map(|place| home.join(place));
    let mut folders: Vec<PathBuf> = places.filter(|place| place.exists()).collect();
    while let Some(folder) = folders.pop() {
        for path in read_folder(&folder)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if name.starts_with("vmlinuz") {
                image = Some(path);
            } else if let Some(name) = modules::name_of_file(&name) {
                found.insert(name, path);
            }
        }
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
        let found = |kernel: Kernel| {
            let (begin, end) = kernel.release();
            kernel_package(listing, &begin, end)
        };
        assert_eq!(
            found(Kernel::V6_1).as_deref(),
            Some("linux-image-6.1.0-56-amd64")
        );
        assert_eq!(found(Kernel::V6_12), None, "a newer Debian has another one");
        assert_eq!(found(Kernel::Rt), None);
        let cloud = "  Depends: linux-image-6.12.117+deb12-cloud-amd64\n";
        assert!(kernel_package(cloud, "6.12.", "-cloud-amd64").is_some());
        assert_eq!(kernel_package("", "6.1.", "-amd64"), None);
    }

    #[test]
    fn the_newest_kernel_is_so_by_its_numbers() {
        let names = [
            "linux-image-cloud-amd64",
            "linux-image-6.1-cloud-amd64",
            "linux-image-6.9.2+deb13-cloud-amd64",
            "linux-image-6.16.9+deb13-cloud-amd64",
            "linux-image-6.16.12+deb13-cloud-amd64",
            "linux-image-7.3.4+deb13-rt-amd64",
        ];
        let found = |kernel: Kernel| {
            let (begin, end) = kernel.release();
            newest(names.into_iter(), &begin, end)
        };
        assert_eq!(found(Kernel::Newest).as_deref(), Some(names[4]));
        assert_eq!(found(Kernel::Backport(6, 9)).as_deref(), Some(names[2]));
        assert_eq!(found(Kernel::Backport(6, 1)), None, "that is no release");
    }

    #[test]
    fn all_is_the_matrix_and_others_are_asked_for_by_name() {
        let chosen = |text: &str| text.parse::<Choice>().map(|choice| choice.0);
        assert_eq!(chosen("all").as_deref(), Ok(MATRIX));
        assert!(!MATRIX.contains(&Kernel::Rt));
        for kernel in NAMED {
            assert_eq!(chosen(&kernel.name()), Ok(vec![*kernel]));
        }
        assert_eq!(chosen("6.16"), Ok(vec![Kernel::Backport(6, 16)]));
        assert!(chosen("six").is_err_and(|error| error.contains("newest")));
        let of_this_machine = |kernel: &Kernel| kernel.architecture() == Architecture::Amd64;
        assert!(MATRIX.iter().all(of_this_machine));
    }
}
