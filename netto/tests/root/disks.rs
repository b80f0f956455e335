//! A disk of the tests' own: a loop device over a file, past the page cache, with a file system if wanted;
//! and a limit of how often a program may read the disk below it.

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
    Ok(match path.join("partition").exists() {
        true => fs::read_to_string(path.join("../dev"))?.trim().to_owned(),
        false => number.to_owned(),
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

/// A group whose programs may read the disk below only so often; removed when dropped, by when they must
/// have ended.
pub struct Limit {
    folder: PathBuf,
    below: String,
}

impl Limit {
    /// A group without a limit.
    pub fn new(name: &str, disk: &Disk) -> Result<Self> {
        let folder = Path::new(LIMITS).join(format!("nettotest-{}-{name}", std::process::id()));
        if !Path::new(LIMITS)
            .join("blkio.throttle.read_iops_device")
            .exists()
        {
            let why = "version 1 of control groups, which limits disks, is not mounted";
            return Err(NotOnThisKernel(why.to_owned()).into());
        }
        fs::create_dir(&folder)?;
        Ok(Limit {
            folder,
            below: disk.below.clone(),
        })
    }

    /// Takes a process in, and what it starts from now on.
    pub fn take(&self, pid: u32) -> Result<()> {
        Ok(fs::write(
            self.folder.join("cgroup.procs"),
            pid.to_string(),
        )?)
    }

    /// Sets how often its programs may read, a second; 0: as often as they want.
    pub fn set(&self, reads: u32) -> Result<()> {
        let line = format!("{} {reads}", self.below);
        Ok(fs::write(
            self.folder.join("blkio.throttle.read_iops_device"),
            line,
        )?)
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        let left = || fs::remove_dir(&self.folder).map_err(Into::into);
        let _ = child::within(std::time::Duration::from_secs(10), left);
    }
}
