//! A disk of the tests' own: a loop device over a file, past the page cache, with a file system if wanted;
//! and limits of how often a program may use the disk below it, and of its page cache.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::child;
use crate::trial::NotOnThisKernel;

const BYTES: u64 = 64 << 20;
/// What the file system would read by itself would be among the requests.
const OPTIONS: &str = "noatime,noinit_itable,no_prefetch_block_bitmaps";
/// Version 1 of control groups, which limits disks.
const LIMITS: &str = "/sys/fs/cgroup/blkio";
const MEMORY: &str = "/sys/fs/cgroup/memory";

/// A loop device, detached when dropped.
pub struct Disk {
    /// Its name: `loop0`.
    pub name: String,
    /// The disk below it, as `major:minor`.
    below: String,
    mounted: Option<PathBuf>,
    folder: tempfile::TempDir,
}

impl Disk {
    /// A new one, whose requests go to the disk below.
    pub fn new() -> Result<Self> {
        // Files in memory take no direct requests.
        let folder = tempfile::tempdir_in("/var/tmp").or_else(|_| tempfile::tempdir())?;
        let image = folder.path().join("disk");
        let file = fs::File::create(&image)?;
        file.set_len(BYTES)?;
        let below = file.metadata()?.dev();
        let below = whole_disk(&format!("{}:{}", libc::major(below), libc::minor(below)))?;
        let mut attach = Command::new("losetup");
        attach
            .args(["--direct-io=on", "--find", "--show"])
            .arg(&image);
        let device = child::run(&mut attach)
            .map_err(|error| NotOnThisKernel(format!("no loop device is to be had: {error:#}")))?;
        let name = device.trim().trim_start_matches("/dev/").to_owned();
        Ok(Disk {
            name,
            below,
            mounted: None,
            folder,
        })
    }

    /// Its file in /dev.
    pub fn device(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }

    /// Puts a file system on it.
    pub fn mount(&mut self) -> Result<&Path> {
        let place = self.folder.path().join("at");
        fs::create_dir_all(&place)?;
        // What ext4 does later by itself would be among the requests.
        let options = "lazy_itable_init=0,lazy_journal_init=0";
        let mut make = Command::new("mkfs.ext4");
        child::run(make.args(["-q", "-E", options]).arg(self.device()))?;
        let mut mount = Command::new("mount");
        child::run(mount.args(["-o", OPTIONS]).arg(self.device()).arg(&place))?;
        Ok(self.mounted.insert(place).as_path())
    }

    /// Lets go of all that the page cache has of its files.
    pub fn forget(&self) -> Result<()> {
        let place = self.mounted.as_ref().context("it is not mounted")?;
        child::run(Command::new("umount").arg(place))?;
        let mut mount = Command::new("mount");
        child::run(mount.args(["-o", OPTIONS]).arg(self.device()).arg(place)).map(drop)
    }
}

/// The disk that a partition is of, which alone has limits; itself of anything else.
fn whole_disk(number: &str) -> Result<String> {
    let path = Path::new("/sys/dev/block").join(number);
    Ok(if path.join("partition").exists() {
        fs::read_to_string(path.join("../dev"))?.trim().to_owned()
    } else {
        number.to_owned()
    })
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(place) = &self.mounted {
            let _ = child::run(Command::new("umount").arg(place));
        }
        let _ = child::run(Command::new("losetup").arg("--detach").arg(self.device()));
    }
}

/// A group of version 1 of control groups; removed when dropped, by when its programs must have ended.
struct Group {
    folder: PathBuf,
}

impl Group {
    /// A new one below this folder, which has this file if groups there have limits.
    fn new(below: &str, file: &str, name: &str) -> Result<Self> {
        let below = Path::new(below);
        if !below.join(file).exists() {
            let why = format!(
                "version 1 of control groups, with {file}, is not mounted at {}",
                below.display()
            );
            return Err(NotOnThisKernel(why).into());
        }
        let folder = below.join(format!("nettotest-{}-{name}", std::process::id()));
        fs::create_dir(&folder)?;
        Ok(Group { folder })
    }

    fn set(&self, file: &str, value: &str) -> Result<()> {
        fs::write(self.folder.join(file), value)
            .with_context(|| format!("cannot write {value} to {file}"))
    }

    /// Takes a process in, and what it starts from now on.
    fn take(&self, pid: u32) -> Result<()> {
        self.set("cgroup.procs", &pid.to_string())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let left = || fs::remove_dir(&self.folder).map_err(Into::into);
        let _ = child::within(std::time::Duration::from_secs(10), left);
    }
}

/// A group whose programs may use the disk below only so often.
pub struct Limit {
    group: Group,
    below: String,
}

impl Limit {
    /// A group without a limit.
    pub fn new(name: &str, disk: &Disk) -> Result<Self> {
        Ok(Limit {
            group: Group::new(LIMITS, "blkio.throttle.read_iops_device", name)?,
            below: disk.below.clone(),
        })
    }

    /// Takes a process in, and what it starts from now on.
    pub fn take(&self, pid: u32) -> Result<()> {
        self.group.take(pid)
    }

    /// Sets how often its programs may read, and how often they may write, a second; 0: as often as they
    /// want.
    pub fn set(&self, requests: u32) -> Result<()> {
        let line = format!("{} {requests}", self.below);
        for direction in ["read", "write"] {
            let file = format!("blkio.throttle.{direction}_iops_device");
            self.group.set(&file, &line)?;
        }
        Ok(())
    }
}

/// A group whose programs have only so much memory, the page cache of what they read included.
pub struct Memory(Group);

impl Memory {
    /// A group with this limit.
    pub fn new(name: &str, bytes: u64) -> Result<Self> {
        const LIMIT: &str = "memory.limit_in_bytes";
        let group = Group::new(MEMORY, LIMIT, name)?;
        group.set(LIMIT, &bytes.to_string())?;
        Ok(Memory(group))
    }

    /// Takes a process in, and what it starts from now on.
    pub fn take(&self, pid: u32) -> Result<()> {
        self.0.take(pid)
    }
}
