//! Control groups: the mount point of version 2, and the path of a group whose number the BPF
//! programs reported.
//!
//! Numbers are never reused (`kernfs_new_node` counts generations), so a known path may be kept: a
//! removed group keeps its name.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::pace::Pace;
use crate::analysis::process::full_pressure_ns;
use netto_sys::cgroups::{self, Handles};
use netto_sys::files::{read, read_bytes};
use netto_sys::system::Roots;

/// Bytes read of the list of a group's processes.
const MOST_PROCESSES_BYTES: u64 = 64 << 10;
/// Most folders read in a walk, and most bytes of pending paths.
const MOST_FOLDERS: usize = 65_536;
const MOST_WAITING_BYTES: usize = 8 << 20;

/// The hierarchy of control groups.
#[derive(Debug, Clone)]
pub struct Cgroups {
    mount: PathBuf,
}

impl Cgroups {
    /// Finds the mount point.
    ///
    /// # Errors
    /// Why there is none, in words for the user.
    pub fn new(roots: &Roots) -> Result<Self, String> {
        let mount = cgroups::mount(roots).map_err(|error| format!("{error:#}"))?;
        let mount = mount.ok_or_else(|| {
            format!(
                "control groups of version 2 are not mounted (none in {}); processes only",
                roots.proc_root.join("self/mountinfo").display()
            )
        })?;
        Ok(Cgroups { mount })
    }

    /// The folder of the root group, if the mount has it and at most so many groups below it.
    pub(super) fn root_with_at_most(&self, most: u64) -> Option<File> {
        // All groups but the root have this file: a container may see one of them as its root.
        if self.mount.join("cgroup.events").exists() {
            return None;
        }
        let text = read(&self.mount.join("cgroup.stat")).ok()?;
        let below = text
            .lines()
            .find_map(|line| line.strip_prefix("nr_descendants "))?;
        let is_few = below.trim().parse().is_ok_and(|below: u64| below <= most);
        is_few.then(|| File::open(&self.mount).ok()).flatten()
    }

    /// Access to groups by number alone, if the kernel allows it.
    pub(super) fn handles(&self) -> Option<Handles> {
        Handles::new(&self.mount)
    }

    /// Path of a group from the root of the hierarchy, as bytes: `/` is the root itself. `None` if
    /// it was removed.
    pub(super) fn path(&self, handles: &Handles, id: u64) -> Option<Vec<u8>> {
        handles.path(id, &self.mount)
    }

    /// Walks through all groups and passes each one's number and path to `found`. A folder's inode
    /// is its group's number (`kernfs_ino`).
    pub(super) fn walk(&self, pace: &mut Pace, mut found: impl FnMut(u64, &[u8])) {
        if let Ok(root) = fs::metadata(&self.mount) {
            found(root.ino(), b"/");
        }
        let mut waiting = vec![b"/".to_vec()];
        let mut waiting_bytes = 1;
        for _ in 0..MOST_FOLDERS {
            let Some(path) = waiting.pop() else { return };
            waiting_bytes -= path.len();
            // It may have been removed.
            let entries = fs::read_dir(below(&self.mount, &path))
                .into_iter()
                .flatten();
            for entry in entries.flatten() {
                if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    continue;
                }
                let mut inner = path.strip_suffix(b"/").unwrap_or(&path).to_vec();
                inner.push(b'/');
                inner.extend(entry.file_name().as_bytes());
                found(entry.ino(), &inner);
                if waiting_bytes + inner.len() <= MOST_WAITING_BYTES {
                    waiting_bytes += inner.len();
                    waiting.push(inner);
                }
            }
            pace.step();
        }
    }

    /// Numbers of the processes in a group, ascending; empty if it was removed, or is a threaded
    /// group.
    pub(super) fn processes(&self, path: &[u8]) -> Vec<u32> {
        let file = self.folder(path).map(|folder| folder.join("cgroup.procs"));
        let text = file.and_then(|file| read_bytes(&file, MOST_PROCESSES_BYTES).ok());
        let text = String::from_utf8(text.unwrap_or_default()).unwrap_or_default();
        // A process of another PID namespace is 0.
        let pids = text.lines().filter_map(|line| line.parse().ok());
        let mut pids: Vec<u32> = pids.filter(|pid| *pid > 0).collect();
        pids.sort_unstable();
        pids
    }

    /// Time in which all tasks of a group were stalled by interrupts since its creation,
    /// nanoseconds: the kernel's own account (`irq.pressure`, since 6.1). `None` where it has none.
    pub fn irq_pressure_ns(&self, path: &[u8]) -> Option<u64> {
        let text = read(&self.folder(path)?.join("irq.pressure")).ok()?;
        full_pressure_ns(&text)
    }

    /// A path may leave the hierarchy only with cgroup namespaces: `/..` is a group outside of
    /// ours.
    fn folder(&self, path: &[u8]) -> Option<PathBuf> {
        let leads_out = path.split(|byte| *byte == b'/').any(|part| part == b"..");
        (!leads_out && path.starts_with(b"/")).then(|| below(&self.mount, path))
    }
}

/// The folder of a path from the root of a hierarchy.
fn below(mount: &Path, path: &[u8]) -> PathBuf {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    mount.join(OsStr::from_bytes(path))
}

/// Control groups for tests.
#[cfg(test)]
pub mod testing {
    use super::*;
    use netto_sys::system::testing::tree;

    /// A hierarchy with these files in it.
    pub fn hierarchy(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
        let inside: Vec<(String, &str)> = files
            .iter()
            .map(|(path, text)| (format!("sys/fs/cgroup{path}"), *text))
            .collect();
        let inside: Vec<(&str, &str)> = inside
            .iter()
            .map(|(path, text)| (path.as_str(), *text))
            .collect();
        let (dir, roots) = tree(&inside);
        let mount = dir.path().join("sys/fs/cgroup");
        fs::create_dir_all(&mount).unwrap();
        fs::create_dir_all(roots.proc_root.join("self")).unwrap();
        let line = format!("41 31 0:38 / {} rw - cgroup2 cgroup2 rw\n", mount.display());
        fs::write(roots.proc_root.join("self/mountinfo"), line).unwrap();
        (dir, roots)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::testing::hierarchy;
    use super::*;
    use netto_sys::system::testing::tree;

    fn groups(files: &[(&str, &str)]) -> (tempfile::TempDir, Cgroups) {
        let (dir, roots) = hierarchy(files);
        let cgroups = Cgroups::new(&roots).unwrap();
        (dir, cgroups)
    }

    #[test]
    fn a_walk_finds_all_groups_by_number() {
        let (dir, cgroups) =
            groups(&[("/a.slice/b.service/cgroup.procs", ""), ("/c/cpu.stat", "")]);
        let mut found = Vec::new();
        cgroups.walk(&mut Pace::new(), |id, path| {
            found.push((String::from_utf8(path.to_vec()).unwrap(), id));
        });
        found.sort();
        let expected = ["/", "/a.slice", "/a.slice/b.service", "/c"].map(|path| {
            let folder = dir.path().join(format!("sys/fs/cgroup{path}"));
            (path.to_owned(), fs::metadata(folder).unwrap().ino())
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn a_group_says_who_is_in_it_and_what_interrupts_took() {
        let pressure = "full avg10=0.00 avg60=0.00 avg300=0.00 total=42\n";
        let (_dir, cgroups) = groups(&[
            ("/a/cgroup.procs", "30\n4\n0\n"),
            ("/a/irq.pressure", pressure),
        ]);
        assert_eq!(cgroups.processes(b"/a"), [4, 30]);
        assert_eq!(cgroups.irq_pressure_ns(b"/a"), Some(42_000));
        assert_eq!(cgroups.irq_pressure_ns(b"/"), None);
        assert!(cgroups.processes(b"/gone").is_empty());
    }

    #[test]
    fn no_path_leads_out_of_the_hierarchy() {
        let (_dir, cgroups) = groups(&[
            ("/a/irq.pressure", "full total=1\n"),
            ("/a/cgroup.procs", "1\n"),
        ]);
        for path in [&b"/../cgroup/a"[..], b"/a/../a", b"a", b"", b"/\0"] {
            assert_eq!(cgroups.irq_pressure_ns(path), None);
            assert!(cgroups.processes(path).is_empty());
        }
    }

    #[test]
    fn without_the_second_version_the_reason_says_what_is_left() {
        let first = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n";
        let (_dir, roots) = tree(&[("proc/self/mountinfo", first)]);
        let reason = Cgroups::new(&roots).unwrap_err();
        assert!(
            reason.starts_with("control groups of version 2 are not mounted"),
            "{reason}"
        );
        assert!(reason.ends_with("processes only"), "{reason}");
        let (_dir, roots) = tree(&[]);
        assert!(Cgroups::new(&roots).unwrap_err().contains("mountinfo"));
    }

    /// Runs on the hierarchy of the machine under test.
    #[test]
    fn what_handles_say_is_what_the_folders_say() {
        let roots = Roots {
            proc_root: PathBuf::from("/proc"),
            sys_root: PathBuf::from("/sys"),
        };
        let Ok(cgroups) = Cgroups::new(&roots) else {
            return;
        };
        let Some(handles) = cgroups.handles() else {
            return;
        };
        let root = fs::metadata(&cgroups.mount).unwrap().ino();
        assert_eq!(cgroups.path(&handles, root).unwrap(), b"/");
        assert_eq!(cgroups.path(&handles, u64::MAX), None);
        assert!(Handles::new(Path::new("/proc")).is_none());
    }

    proptest! {
        #[test]
        fn no_text_in_any_file_makes_a_reader_panic(text in "[0-9\n -]{0,40}|full total=.{0,20}|.{0,60}") {
            let (_dir, roots) = tree(&[("proc/self/mountinfo", &text)]);
            let _ = Cgroups::new(&roots);
            let (_dir, cgroups) = groups(&[("/a/cgroup.procs", &text), ("/a/irq.pressure", &text)]);
            let _ = (cgroups.processes(b"/a"), cgroups.irq_pressure_ns(b"/a"));
        }
    }
}
