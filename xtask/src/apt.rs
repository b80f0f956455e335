//! Debian's packages, by apt: this machine's, which can be installed, and those of another
//! architecture or suite, which are only unpacked. Lists and downloads of the latter are kept in a folder of
//! their own: nothing of them is configured on this machine.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process;

/// Whose packages.
#[derive(Debug, Default)]
pub struct Apt {
    /// What keeps them apart from this machine's; empty for this machine's.
    options: Vec<OsString>,
}

/// How long apt waits for another one.
const LOCK_TIMEOUT_SECONDS: u32 = 600;
/// The keys of Debian's archives, which Debian's apt has.
const DEBIAN_KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// What apt locks, by record locks of whole files.
const LOCKS: [&str; 3] = [
    "/var/lib/dpkg/lock-frontend",
    "/var/lib/apt/lists/lock",
    "/var/cache/apt/archives/lock",
];

impl Apt {
    /// Packages of this machine's architecture.
    pub fn native() -> Self {
        Apt::default()
    }

    /// Packages of another architecture, by Debian's name of it, from the same archives; `folder`
    /// keeps their lists.
    ///
    /// # Errors
    /// The folder cannot be made, or the archives have no such packages.
    pub fn foreign(architecture: &str, folder: &Path) -> Result<Self> {
        let options = vec![
            format!("-oAPT::Architecture={architecture}").into(),
            format!("-oAPT::Architectures={architecture}").into(),
        ];
        Apt::apart(options, folder).with_context(|| {
            format!("the archives of this machine's apt have no packages for {architecture}")
        })
    }

    /// Packages of an archive of Debian that this machine's apt does not ask, by its address and
    /// suite; `folder` keeps their lists.
    ///
    /// # Errors
    /// The folder cannot be made, or the archive does not answer.
    pub fn of_suite([address, suite]: [&str; 2], folder: &Path) -> Result<Self> {
        create(folder)?;
        let list = folder.join("sources.list");
        std::fs::write(
            &list,
            format!("deb [signed-by={DEBIAN_KEYS}] {address} {suite} main\n"),
        )
        .with_context(|| format!("cannot write {}", list.display()))?;
        let options = vec![
            option("Dir::Etc::sourcelist", &list),
            option("Dir::Etc::sourceparts", Path::new("/dev/null")),
        ];
        Apt::apart(options, folder)
            .with_context(|| format!("cannot ask Debian's archive {suite} at {address}"))
    }

    /// Packages whose lists and downloads are kept apart from this machine's.
    fn apart(mut options: Vec<OsString>, folder: &Path) -> Result<Self> {
        let (state, cache) = (folder.join("state"), folder.join("cache"));
        for part in [state.join("lists/partial"), cache.join("archives/partial")] {
            create(&part)?;
        }
        options.extend([
            option("Dir::State", &state),
            // An empty status, so that nothing counts as installed.
            option("Dir::State::status", Path::new("/dev/null")),
            option("Dir::Cache", &cache),
        ]);
        let apt = Apt { options };
        if !state.join("lists/lock").exists() {
            apt.update()?;
        }
        Ok(apt)
    }

    fn is_foreign(&self) -> bool {
        !self.options.is_empty()
    }

    /// Whether this user may ask the archives what they have now.
    pub fn may_update(&self) -> bool {
        self.is_foreign() || process::is_root()
    }

    /// Asks the archives what they have now.
    ///
    /// # Errors
    /// Those of apt.
    pub fn update(&self) -> Result<()> {
        self.run(&["update", "--quiet"])
    }

    /// What packages depend on these, as apt-cache says it.
    ///
    /// # Errors
    /// Those of apt.
    pub fn depends(&self, package: &str) -> Result<String> {
        let mut command = Command::new("apt-cache");
        process::output(command.args(["depends", package]).args(&self.options))
    }

    /// The names of packages that begin like this, one a line.
    ///
    /// # Errors
    /// Those of apt.
    pub fn names(&self, begin: &str) -> Result<String> {
        let mut command = Command::new("apt-cache");
        process::output(command.args(["pkgnames", begin]).args(&self.options))
    }

    /// Runs apt-get; both update and install wait for the lock of whoever installs now: systems
    /// update themselves when they like.
    ///
    /// # Errors
    /// Those of apt.
    pub fn run(&self, arguments: &[&str]) -> Result<()> {
        if !self.is_foreign()
            && let Some(lock) = LOCKS.iter().find(|lock| is_held(Path::new(lock)))
        {
            eprintln!(
                "xtask: another program is installing packages (it holds {lock}): waiting for it, \
                 for {} minutes at most",
                LOCK_TIMEOUT_SECONDS / 60
            );
        }
        process::run(&mut self.command(arguments))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("apt-get");
        command
            .args(arguments)
            // Without it dpkg draws progress, which fills a log with noise.
            .args(["-o", "Dpkg::Use-Pty=0"])
            .args(["-o", &format!("DPkg::Lock::Timeout={LOCK_TIMEOUT_SECONDS}")])
            .args(&self.options)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null());
        // Another user may not read the folders, and apt would rather not download as root.
        if self.is_foreign() && process::is_root() {
            command.args(["-o", "APT::Sandbox::User=root"]);
        }
        command
    }

    /// Downloads a package and unpacks it into this folder, without installing it.
    ///
    /// # Errors
    /// The package is not to be had.
    pub fn unpack(&self, package: &str, folder: &Path) -> Result<()> {
        create(folder)?;
        let mut download = self.command(&["download", "--quiet", package]);
        download.current_dir(folder);
        if process::is_root() && !self.is_foreign() {
            download.args(["-o", "APT::Sandbox::User=root"]);
        }
        if process::run(&mut download).is_err() {
            if !self.may_update() {
                bail!(
                    "cannot download the package {package}; type this, then try again: sudo apt-get update"
                );
            }
            self.update()?;
            process::run(&mut download)?;
        }
        if unpack_archives(folder, folder)? == 0 {
            bail!("apt-get download left no package behind");
        }
        Ok(())
    }

    /// Downloads these packages of another architecture and all that they depend on, and unpacks
    /// them into this folder: a system that runs, though no package in it is configured.
    ///
    /// # Errors
    /// A package is not to be had.
    pub fn unpack_system(&self, packages: &[&str], folder: &Path) -> Result<()> {
        create(folder)?;
        let archives = folder.join("archives");
        create(&archives.join("partial"))?;
        let mut option = OsString::from("-oDir::Cache::archives=");
        option.push(&archives);
        let mut download = self.command(&["install", "--download-only", "--yes", "--quiet"]);
        download.arg("--no-install-recommends").arg(option);
        if process::run(download.args(packages)).is_err() {
            self.update()?;
            process::run(&mut download)?;
        }
        unpack_archives(&archives, folder)?;
        std::fs::remove_dir_all(&archives)
            .with_context(|| format!("cannot remove {}", archives.display()))
    }
}

fn option(name: &str, value: &Path) -> OsString {
    let mut option = OsString::from(format!("-o{name}="));
    option.push(value);
    option
}

fn create(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

/// Unpacks every package that lies in a folder, and removes it there; says how many there were.
fn unpack_archives(from: &Path, to: &Path) -> Result<usize> {
    let entries =
        std::fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
    let packages: BTreeSet<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "deb"))
        .collect();
    for package in &packages {
        process::output(Command::new("dpkg-deb").arg("-x").arg(package).arg(to))?;
        std::fs::remove_file(package)
            .with_context(|| format!("cannot remove {}", package.display()))?;
    }
    Ok(packages.len())
}

/// Whether somebody has locked this file, by the kernel's list of locks.
fn is_held(file: &Path) -> bool {
    let (Ok(file), Ok(locks)) = (
        std::fs::metadata(file),
        std::fs::read_to_string("/proc/locks"),
    ) else {
        return false;
    };
    names(&locks, file.ino())
}

/// Whether a line of `/proc/locks` is about this file: `1: POSIX ADVISORY WRITE 77 fe:00:4711 0 EOF`.
/// A device may be called by other numbers there than in the file's status.
fn names(locks: &str, inode: u64) -> bool {
    locks.lines().any(|line| {
        let place = line
            .split_whitespace()
            .find(|word| word.matches(':').count() == 2);
        place.and_then(|place| place.rsplit(':').next()?.parse().ok()) == Some(inode)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apt_waits_for_the_lock_of_another_one() {
        for arguments in [&["update", "--quiet"][..], &["install", "--yes", "clang"]] {
            let shown = process::display(&Apt::native().command(arguments));
            assert!(shown.contains("-o DPkg::Lock::Timeout=600"), "{shown}");
        }
    }

    #[test]
    fn nothing_of_another_architecture_touches_this_machines_packages() {
        let folder = std::env::temp_dir().join(format!("netto-apt-{}", std::process::id()));
        create(&folder.join("state/lists")).unwrap();
        std::fs::write(folder.join("state/lists/lock"), "").unwrap();
        let apt = Apt::foreign("arm64", &folder).unwrap();
        let shown = process::display(&apt.command(&["update"]));
        std::fs::remove_dir_all(&folder).unwrap();
        let place = folder.display();
        for option in [
            "-oAPT::Architecture=arm64".to_owned(),
            "-oDir::State::status=/dev/null".to_owned(),
            format!("-oDir::State={place}/state"),
            format!("-oDir::Cache={place}/cache"),
        ] {
            assert!(shown.contains(&option), "no {option} in {shown}");
        }
    }

    #[test]
    fn a_lock_is_found_by_the_number_of_its_file() {
        let locks = "1: POSIX  ADVISORY  WRITE 77 fe:00:4711 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 78 00:1a:12 0 EOF\n\
                     2: -> POSIX  ADVISORY  WRITE 79 fe:00:99 0 EOF\n";
        assert!(names(locks, 4711) && names(locks, 12) && names(locks, 99));
        assert!(!names(locks, 77) && !names(locks, 0) && !names("", 4711));
    }
}
