//! The log on a real disk that fills and is freed again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use metrics_common::codec::{Gap, ServerMessage};
use netto_log_format::LogReader;

use crate::child;
use crate::daemon::Daemon;
use crate::trial::tests;

tests! {
    log_disk::a_full_disk_costs_nothing_once_there_is_room_again ["mount", "umount"];
    log_disk::a_disk_that_is_taken_away_is_waited_for ["mount", "umount"];
}

/// A file system of 256 kB in memory, unmounted when dropped.
struct Disk(tempfile::TempDir);

impl Disk {
    fn new() -> Result<Disk> {
        let disk = Disk(tempfile::tempdir()?);
        disk.mount()?;
        Ok(disk)
    }

    fn mount(&self) -> Result<()> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=256k", "none"]);
        child::run(mount.arg(self.0.path())).map(drop)
    }

    fn unmount(&self) -> Result<()> {
        // Lazily: netto may have a file open.
        child::run(Command::new("umount").arg("-l").arg(self.0.path())).map(drop)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // It may have been unmounted already.
        let _ = self.unmount();
    }
}

/// The numbers of the snapshots in an undamaged log, and the gaps that it records.
pub fn read(path: &Path) -> Result<(Vec<u64>, Vec<Gap>)> {
    let (sequences, gaps, is_cut) = read_so_far(path)?;
    ensure!(!is_cut, "damaged");
    Ok((sequences, gaps))
}

/// The same of one that grows, and whether it ends within a message.
pub fn read_so_far(path: &Path) -> Result<(Vec<u64>, Vec<Gap>, bool)> {
    let mut reader = LogReader::new(fs::File::open(path)?)?;
    let (mut sequences, mut gaps) = (Vec::new(), Vec::new());
    for message in reader.by_ref() {
        match message? {
            ServerMessage::Snapshot(snapshot) => sequences.push(snapshot.sequence),
            ServerMessage::Gap(gap) => gaps.push(gap),
            _ => {}
        }
    }
    ensure!(reader.damaged_stretches() == 0, "damaged");
    Ok((sequences, gaps, reader.is_cut()))
}

fn logging_to(path: &Path) -> Result<Daemon> {
    let path = path.to_string_lossy();
    Daemon::start(&[
        "--user-period",
        "100",
        "--log-flush",
        "100",
        "--log-file",
        &path,
    ])
}

fn says(daemon: &Daemon, words: &str) -> Result<()> {
    child::eventually(|| {
        let stderr = daemon.process.stderr();
        ensure!(stderr.contains(words), "no {words:?} in: {stderr}");
        Ok(())
    })
}

/// Whether no number is missing.
pub fn is_consecutive(sequences: &[u64]) -> bool {
    sequences.windows(2).all(|pair| pair[1] == pair[0] + 1)
}

fn a_full_disk_costs_nothing_once_there_is_room_again() -> Result<()> {
    let disk = Disk::new()?;
    let path = disk.path("netto.log");
    let mut daemon = logging_to(&path)?;
    let stuffing = disk.path("stuffing");
    // Fills the remaining space; ends with an error.
    let _ = fs::write(&stuffing, vec![1; 256 << 10]);
    says(&daemon, "No space left on device")?;
    let when_full = daemon.sequence()?;
    child::eventually(|| {
        ensure!(daemon.sequence()? > when_full + 10, "it measures no more");
        Ok(())
    })?;
    daemon.must_live()?;
    // The file ends with a whole block.
    let (before, _) = read(&path)?;
    fs::remove_file(&stuffing)?;
    says(&daemon, "can be written again")?;
    let (status, stderr) = daemon.terminate()?;
    ensure!(status.success(), "{status}: {stderr}");
    let (sequences, gaps) = read(&path)?;
    ensure!(sequences.starts_with(&before) && sequences.len() > before.len() + 10);
    ensure!(is_consecutive(&sequences), "snapshots {sequences:?}");
    ensure!(gaps.is_empty(), "{gaps:?}");
    let lines = stderr.matches("No space left on device").count();
    ensure!(lines == 1, "{lines} lines: {stderr}");
    Ok(())
}

fn a_disk_that_is_taken_away_is_waited_for() -> Result<()> {
    let disk = Disk::new()?;
    let folder = disk.path("logs");
    fs::create_dir(&folder)?;
    let path = folder.join("netto.log");
    let daemon = logging_to(&path)?;
    disk.unmount()?;
    says(&daemon, "No such file or directory")?;
    disk.mount()?;
    fs::create_dir(&folder)?;
    says(&daemon, "can be written again")?;
    let (status, stderr) = daemon.terminate()?;
    ensure!(status.success(), "{status}: {stderr}");
    let (sequences, gaps) = read(&path).context("the new log")?;
    ensure!(!sequences.is_empty() && is_consecutive(&sequences) && gaps.is_empty());
    Ok(())
}
