//! What `--health` costs on this kernel: a look into the page cache, and a request of a device. In a guest
//! that counts instructions, a nanosecond is one.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use nix::time::ClockId;

use crate::child;
use crate::daemon::Daemon;
use crate::disks::Disk;
use crate::kernels::{self, Statistics};
use crate::trial::tests;

tests! {
    health_price::of_a_read_and_of_a_request_is_told;
}

const READS: u64 = 50_000;
const REQUESTS: u64 = 2_000;
const RECORD: usize = 1_024;
const BLOCK: usize = 4_096;
/// No budget takes the programs away.
const OPTIONS: [&str; 3] = ["--health", "--max-overhead", "100"];

/// A file system in memory whose files are read through the page cache, as those of a disk are; tmpfs has
/// reads of its own.
pub struct Memory(tempfile::TempDir);

impl Memory {
    /// A new one.
    pub fn mount() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut mount = Command::new("mount");
        child::run(mount.args(["-t", "ramfs", "none"]).arg(folder.path()))?;
        Ok(Memory(folder))
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = child::run(Command::new("umount").arg(self.0.path()));
    }
}

fn of_a_read_and_of_a_request_is_told() -> Result<()> {
    let memory = Memory::mount()?;
    let path = memory.path().join("record");
    fs::write(&path, [7; RECORD])?;
    let file = File::open(&path)?;
    read_ns(&file)?;
    let alone = read_ns(&file)?;
    let daemon = Daemon::start(&OPTIONS)?;
    let with = read_ns(&file)?;
    println!("\na read of 1 KB that the page cache has: {alone:.0} ns, {with:.0} ns with --health");
    let _statistics = Statistics::enable()?;
    let looks = ["netto_health_pages", "netto_health_read"];
    let count = runs(&daemon, &looks, || read_ns(&file).map(drop))?;
    // On this kernel there may be no such program.
    let is_missed = daemon.snapshot()?["health"]["cache_lookups"].is_null();
    ensure!(count >= READS || is_missed, "{count} of {READS}");
    // A guest has no such device.
    let Ok(disk) = Disk::new() else {
        return Ok(());
    };
    let programs = ["netto_health_issue", "netto_health_complete"];
    let count = runs(&daemon, &programs, || read_past_the_cache(&disk.device()))?;
    ensure!(count >= 2 * REQUESTS, "{count} of {REQUESTS}");
    Ok(())
}

/// Prints what a run of each of these programs takes during this work; how often they ran.
fn runs(daemon: &Daemon, names: &[&str], work: impl FnOnce() -> Result<()>) -> Result<u64> {
    let pid = daemon.process.pid();
    let before = kernels::programs(pid)?;
    work()?;
    let mut all = 0;
    for (name, after) in kernels::programs(pid)? {
        let last = before.get(&name);
        let runs = after.runs - last.map_or(0, |program| program.runs);
        let ns = after.run_time_ns - last.map_or(0, |program| program.run_time_ns);
        if names.contains(&&*name) && runs > 0 {
            println!("{name}: {:.1} ns a run, of {runs}", ns as f64 / runs as f64);
            all += runs;
        }
    }
    Ok(all)
}

/// The mean CPU time of a read that finds all in the page cache: netto may share the CPU.
fn read_ns(file: &File) -> Result<f64> {
    let now = || ClockId::CLOCK_THREAD_CPUTIME_ID.now();
    let mut record = [0; RECORD];
    let begun = now()?;
    for _ in 0..READS {
        file.read_exact_at(&mut record, 0)?;
    }
    let took = Duration::from(now()?) - Duration::from(begun);
    Ok(took.as_nanos() as f64 / READS as f64)
}

fn read_past_the_cache(device: &Path) -> Result<()> {
    let mut options = File::options();
    let file = options
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(device)?;
    // Direct requests need an aligned place.
    let mut room = vec![0_u8; 2 * BLOCK];
    let from = room.as_ptr().align_offset(BLOCK);
    for block in 0..REQUESTS {
        file.read_exact_at(&mut room[from..from + BLOCK], block * BLOCK as u64)?;
    }
    Ok(())
}
