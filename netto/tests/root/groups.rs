//! Control groups of the tests' own, and processes that begin in one.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::{child, trial};

const PREFIX: &str = "nettotest";
/// Mount point in a guest, where nothing else mounts it.
const IN_GUESTS: &str = "/sys/fs/cgroup";
/// Until processes that were killed have left.
const LEAVES: Duration = Duration::from_secs(10);

/// A control group of version 2, removed when dropped, and those in it; their processes must have
/// ended by then.
pub struct Group {
    folder: PathBuf,
    path: String,
}

/// The mount point of control groups of version 2; mounts them if necessary.
pub fn hierarchy() -> Result<PathBuf> {
    if let Some(place) = mounted()? {
        return Ok(place);
    }
    child::run(Command::new("mount").args(["-t", "cgroup2", "none", IN_GUESTS]))?;
    mounted()?.context("control groups of version 2 are not to be had")
}

fn mounted() -> Result<Option<PathBuf>> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mut mounts = mounts.lines().map(|line| line.split(' '));
    Ok(mounts.find_map(|mut words| {
        let place = words.nth(1)?;
        (words.next()? == "cgroup2").then(|| PathBuf::from(place))
    }))
}

impl Group {
    /// A new one of this name.
    pub fn new(name: &str) -> Result<Group> {
        let path = format!("/{PREFIX}-{}-{name}", std::process::id());
        let folder = hierarchy()?.join(&path[1..]);
        fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Group { folder, path })
    }

    /// Its path from the root of the hierarchy.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Its number, as the kernel's programs have it.
    pub fn id(&self) -> Result<u64> {
        Ok(fs::metadata(&self.folder)?.ino())
    }

    /// Its folder, in which further groups can be made.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The same command, begun in this group.
    pub fn command(&self, inner: &Command) -> Command {
        // A shell may have a program of that name built in, which is another.
        let program = inner.get_program();
        let found = program.to_str().and_then(trial::find_program);
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo 0 > \"$0\" && exec \"$@\""])
            .arg(self.folder.join("cgroup.procs"))
            .arg(found.map_or_else(|| program.to_owned(), PathBuf::into_os_string))
            .args(inner.get_args());
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(error) = child::within(LEAVES, || remove(&self.folder)) {
            eprintln!("cannot remove {}: {error:#}", self.folder.display());
        }
    }
}

/// Removes a group and those in it, of which none may have groups itself.
fn remove(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir(entry.path())?;
        }
    }
    Ok(fs::remove_dir(folder)?)
}

/// Removes groups left by a killed run.
pub fn remove_leftovers() {
    let Ok(Some(place)) = mounted() else {
        return;
    };
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let mut parts = name.to_str().unwrap_or_default().split('-');
        let (Some(PREFIX), Some(pid)) = (parts.next(), parts.next()) else {
            continue;
        };
        if !Path::new("/proc").join(pid).exists() {
            // A group that still has processes is kept.
            let _ = remove(&entry.path());
        }
    }
}
