//! Finds the process that holds a lock on a file.
//!
//! Reads `/proc/locks`; takes no lock itself.

use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// A process that holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its number.
    pub pid: u32,
    /// Its command line; empty if it cannot be read.
    pub command: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        if !self.command.is_empty() {
            write!(f, " ({})", self.command)?;
        }
        Ok(())
    }
}

/// The holder of the lock on the file with this metadata; `None` if it is in another PID namespace,
/// has just released it, or is not listed.
pub fn holder_of(proc_root: &Path, file: &Metadata) -> Option<Holder> {
    let locks = fs::read_to_string(proc_root.join("locks")).ok()?;
    let device = file.dev();
    let (major, minor) = (libc::major(device), libc::minor(device));
    let pid = find(&locks, major, minor, file.ino())?;
    let command = fs::read(proc_root.join(pid.to_string()).join("cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    Some(Holder {
        pid,
        command: command.trim().to_owned(),
    })
}

/// Finds the process in a text such as `1: FLOCK  ADVISORY  WRITE 4711 00:2f:31337 0 EOF`.
///
/// On stacked file systems the device may be the lower one's: then the inode number is enough if it
/// occurs in only one lock.
fn find(locks: &str, major: u32, minor: u32, inode: u64) -> Option<u32> {
    let of_inode: Vec<(bool, u32)> = locks
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            // A waiting lock has an additional arrow: `1: -> FLOCK …`.
            let ["FLOCK", _, _, pid, place, ..] = words.get(1..)? else {
                return None;
            };
            let mut numbers = place.split(':');
            let mut hexadecimal = || u32::from_str_radix(numbers.next()?, 16).ok();
            let same_device = (hexadecimal()?, hexadecimal()?) == (major, minor);
            let found: u64 = numbers.next()?.parse().ok()?;
            // A process in another namespace has the number 0 or -1.
            let pid = pid.parse().ok().filter(|pid| *pid != 0)?;
            (found == inode).then_some((same_device, pid))
        })
        .collect();
    match of_inode.as_slice() {
        [(_, pid)] => Some(*pid),
        several => several
            .iter()
            .find(|(same_device, _)| *same_device)
            .map(|(_, pid)| *pid),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    const LOCKS: &str = "\
1: POSIX  ADVISORY  WRITE 11 fd:01:77 0 EOF
2: FLOCK  ADVISORY  WRITE 12 fd:01:77 0 EOF
2: -> FLOCK  ADVISORY  WRITE 13 fd:01:77 0 EOF
3: FLOCK  ADVISORY  WRITE 14 00:2f:77 0 EOF
4: FLOCK  ADVISORY  WRITE 0 00:2f:78 0 EOF
5: FLOCK  ADVISORY  WRITE 15 00:30:79 0 EOF
";

    #[test]
    fn a_lock_is_found_by_device_and_file() {
        assert_eq!(find(LOCKS, 0xfd, 1, 77), Some(12));
        assert_eq!(find(LOCKS, 0, 0x2f, 77), Some(14));
    }

    #[test]
    fn another_device_will_do_if_only_one_lock_has_the_file() {
        assert_eq!(find(LOCKS, 9, 9, 79), Some(15));
        assert_eq!(find(LOCKS, 9, 9, 77), None);
    }

    #[test]
    fn a_process_that_cannot_be_seen_from_here_has_no_number() {
        assert_eq!(find(LOCKS, 0, 0x2f, 78), None);
        assert_eq!(find("nonsense\n1: FLOCK\n", 0, 0, 0), None);
    }

    #[test]
    fn the_holder_of_a_real_lock_is_this_process() {
        let file = tempfile::tempfile().unwrap();
        let metadata = file.metadata().unwrap();
        assert_eq!(holder_of(Path::new("/proc"), &metadata), None);
        file.try_lock().unwrap();
        let holder = holder_of(Path::new("/proc"), &metadata).expect("it is found");
        assert_eq!(holder.pid, std::process::id());
        assert!(!holder.command.is_empty());
        drop::<File>(file);
    }
}
