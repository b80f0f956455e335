//! Control groups: where version 2 of them is mounted, and what the path of a group is whose
//! number the BPF programs told.
//!
//! Numbers are never used twice (`kernfs_new_node` counts generations), so that a path once learnt
//! may be kept: a group that vanished has its name until it is driven out by others.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustc_hash::FxHashSet;

use super::slice::Slice;
use super::walk::{Walk, below};
use crate::analysis::process::full_pressure_ns;
use crate::analysis::recent::Recent;
use netto_sys::cgroups::{self, Handles};
use netto_sys::files::{read, read_bytes};
use netto_sys::system::Roots;

/// What paths take at most, bytes, and what each takes beside its own: some 50,000 paths.
const MOST_BYTES: usize = 8 << 20;
const ENTRY_BYTES: usize = 64;
/// Between two walks, nanoseconds.
const PAUSE_NS: u64 = 1_000_000_000;
/// So many groups are looked for at once.
const MOST_WANTED: usize = 4096;
/// So many processes of a group are looked at.
const MOST_PROCESSES_BYTES: u64 = 64 << 10;

/// Paths of control groups by number.
#[derive(Debug)]
pub struct Cgroups {
    mount: PathBuf,
    /// Where the kernel allows it: no walk is needed then, but for the first.
    handles: Option<Handles>,
    /// `None`: it was looked for and is gone.
    paths: Recent<u64, Option<Box<[u8]>>>,
    walk: Option<Walk>,
    /// Groups that a walk shall find: those that were asked for before it began, and since.
    sought: FxHashSet<u64>,
    wanted: FxHashSet<u64>,
    /// When the next walk may begin, on the clock that never goes back.
    from_ns: u64,
}

impl Cgroups {
    /// Finds the hierarchy. The first [`refresh`](Self::refresh) begins a walk through it.
    ///
    /// # Errors
    /// Where there is none, in words for the user.
    pub fn new(roots: &Roots) -> Result<Self, String> {
        let mount = cgroups::mount(roots).map_err(|error| format!("{error:#}"))?;
        let mount = mount.ok_or_else(|| {
            format!(
                "control groups of version 2 are not mounted (none in {}); processes only",
                roots.proc_root.join("self/mountinfo").display()
            )
        })?;
        Ok(Cgroups {
            handles: Handles::new(&mount),
            mount,
            paths: Recent::new(MOST_BYTES, |path| {
                ENTRY_BYTES + path.as_ref().map_or(0, |path| path.len())
            }),
            walk: Some(Walk::new()),
            sought: FxHashSet::default(),
            wanted: FxHashSet::default(),
            from_ns: 0,
        })
    }

    /// A group of this number was made, with this path.
    pub fn learn(&mut self, id: u64, path: &[u8]) {
        learn(&mut self.paths, id, path);
    }

    /// Path of a group from the root of the hierarchy, as bytes: `/` is the root itself. `None` if
    /// it is not known, or not yet: then the next walks look for it.
    pub fn path(&mut self, id: u64, slice: &mut Slice) -> Option<&[u8]> {
        if self.paths.peek(id).is_none() {
            match &self.handles {
                Some(handles) if slice.goes_on() => {
                    let path = handles.path(id, &self.mount);
                    self.paths.insert(id, path.map(Vec::into_boxed_slice));
                }
                None if self.wanted.len() < MOST_WANTED => {
                    self.wanted.insert(id);
                }
                _ => {}
            }
        }
        self.paths.get(id)?.as_deref()
    }

    /// Number of the group with this path, if it is there now.
    pub fn id(&self, path: &[u8]) -> Option<u64> {
        let folder = self.folder(path)?;
        fs::metadata(folder).ok().map(|folder| folder.ino())
    }

    /// Walks on while there is time: the first walk, and another when a group is not known.
    pub fn refresh(&mut self, now_ns: u64, slice: &mut Slice) {
        if self.walk.is_none() {
            if self.wanted.is_empty() || now_ns < self.from_ns {
                return;
            }
            self.sought = std::mem::take(&mut self.wanted);
            self.walk = Some(Walk::new());
        }
        let Some(walk) = &mut self.walk else { return };
        let paths = &mut self.paths;
        let root = fs::metadata(&self.mount).map(|root| root.ino());
        if let Ok(root) = root {
            learn(paths, root, b"/");
        }
        if !walk.go_on(&self.mount, slice, |id, path| learn(paths, id, path)) {
            return;
        }
        self.walk = None;
        self.from_ns = now_ns.saturating_add(PAUSE_NS);
        for id in self.sought.drain() {
            if self.paths.peek(id).is_none() {
                self.paths.insert(id, None);
            }
        }
    }

    /// Numbers of the processes in a group, ascending; empty if it is gone, or is a group of
    /// threads.
    pub fn processes(&self, path: &[u8]) -> Vec<u32> {
        let file = self.folder(path).map(|folder| folder.join("cgroup.procs"));
        let text = file.and_then(|file| read_bytes(&file, MOST_PROCESSES_BYTES).ok());
        let text = String::from_utf8(text.unwrap_or_default()).unwrap_or_default();
        // A process of another namespace of processes is 0.
        let pids = text.lines().filter_map(|line| line.parse().ok());
        let mut pids: Vec<u32> = pids.filter(|pid| *pid > 0).collect();
        pids.sort_unstable();
        pids
    }

    /// Time in which all of a group stood still because of interrupts since it was made,
    /// nanoseconds: the kernel's own account (`irq.pressure`, since 6.1). `None` where it has none.
    pub fn irq_pressure_ns(&self, path: &[u8]) -> Option<u64> {
        let text = read(&self.folder(path)?.join("irq.pressure")).ok()?;
        full_pressure_ns(&text)
    }

    /// A path may lead out of the hierarchy only where groups have namespaces of their own: `/..`
    /// is a group that we do not see.
    fn folder(&self, path: &[u8]) -> Option<PathBuf> {
        let leads_out = path.split(|byte| *byte == b'/').any(|part| part == b"..");
        (!leads_out && path.starts_with(b"/")).then(|| below(&self.mount, path))
    }
}

fn learn(paths: &mut Recent<u64, Option<Box<[u8]>>>, id: u64, path: &[u8]) {
    let is_known = |known: &Option<Box<[u8]>>| known.as_deref() == Some(path);
    if !paths.peek(id).is_some_and(is_known) {
        paths.insert(id, Some(path.into()));
    }
}

/// Control groups that a test made up.
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
    use std::path::Path;

    use proptest::prelude::*;

    use super::testing::hierarchy;
    use super::*;
    use netto_sys::system::testing::tree;

    fn groups(files: &[(&str, &str)]) -> (tempfile::TempDir, Cgroups) {
        let (dir, roots) = hierarchy(files);
        let cgroups = Cgroups::new(&roots).unwrap();
        (dir, cgroups)
    }

    fn inode(dir: &tempfile::TempDir, path: &str) -> u64 {
        let folder = dir.path().join(format!("sys/fs/cgroup{path}"));
        fs::metadata(folder).unwrap().ino()
    }

    fn path(cgroups: &mut Cgroups, id: u64) -> Option<String> {
        let path = cgroups.path(id, &mut Slice::endless())?;
        Some(String::from_utf8_lossy(path).into_owned())
    }

    #[test]
    fn groups_are_found_by_number_in_however_many_pieces() {
        let (dir, mut cgroups) =
            groups(&[("/a.slice/b.service/cgroup.procs", ""), ("/c/cpu.stat", "")]);
        let ids =
            ["/", "/a.slice", "/a.slice/b.service", "/c"].map(|path| (path, inode(&dir, path)));
        for _ in 0..10 {
            cgroups.refresh(1, &mut Slice::of_steps(2));
        }
        for (name, id) in ids {
            assert_eq!(path(&mut cgroups, id).as_deref(), Some(name));
            assert_eq!(cgroups.id(name.as_bytes()), Some(id));
        }
    }

    #[test]
    fn one_made_later_is_found_by_a_later_walk_and_keeps_its_name_when_it_is_gone() {
        let (dir, mut cgroups) = groups(&[]);
        cgroups.refresh(1, &mut Slice::endless());
        let folder = dir.path().join("sys/fs/cgroup/late");
        fs::create_dir(&folder).unwrap();
        let id = inode(&dir, "/late");
        assert_eq!(path(&mut cgroups, id), None);
        cgroups.refresh(PAUSE_NS, &mut Slice::endless());
        assert_eq!(path(&mut cgroups, id), None, "too soon for another walk");
        cgroups.refresh(PAUSE_NS + 1, &mut Slice::endless());
        assert_eq!(path(&mut cgroups, id).as_deref(), Some("/late"));
        fs::remove_dir(&folder).unwrap();
        assert_eq!(path(&mut cgroups, id).as_deref(), Some("/late"));
        assert_eq!(cgroups.id(b"/late"), None);
    }

    #[test]
    fn one_that_nobody_finds_is_not_looked_for_again() {
        let (_dir, mut cgroups) = groups(&[]);
        cgroups.refresh(1, &mut Slice::endless());
        assert_eq!(path(&mut cgroups, u64::MAX), None);
        cgroups.refresh(2 * PAUSE_NS, &mut Slice::endless());
        assert_eq!(path(&mut cgroups, u64::MAX), None);
        assert!(cgroups.wanted.is_empty());
        // Unless somebody says what it is.
        cgroups.learn(u64::MAX, b"/told");
        assert_eq!(path(&mut cgroups, u64::MAX).as_deref(), Some("/told"));
    }

    #[test]
    fn a_hundred_thousand_groups_take_bounded_room() {
        let (_dir, mut cgroups) = groups(&[]);
        for id in 0..100_000 {
            cgroups.learn(id, format!("/{}/{id}", "x".repeat(200)).as_bytes());
        }
        let kept: usize = cgroups
            .paths
            .iter()
            .flat_map(|(_, path)| path)
            .map(|path| path.len())
            .sum();
        assert!(kept < MOST_BYTES && kept > MOST_BYTES / 2, "{kept}");
        assert!(path(&mut cgroups, 99_999).unwrap().ends_with("/99999"));
        assert_eq!(path(&mut cgroups, 1), None);
        for id in 0..100_000 {
            let _ = path(&mut cgroups, id);
        }
        assert!(cgroups.wanted.len() <= MOST_WANTED);
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
        let (_dir, cgroups) = groups(&[("/a/irq.pressure", "full total=1\n")]);
        for path in [&b"/../cgroup/a"[..], b"/a/../a", b"a", b"", b"/\0"] {
            assert_eq!(cgroups.irq_pressure_ns(path), None);
            assert_eq!(cgroups.id(path), None);
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

    /// On whatever hierarchy the machine has that runs the tests.
    #[test]
    fn what_handles_say_is_what_the_folders_say() {
        let roots = Roots {
            proc_root: PathBuf::from("/proc"),
            sys_root: PathBuf::from("/sys"),
        };
        let Ok(mut cgroups) = Cgroups::new(&roots) else {
            return;
        };
        let Some(handles) = Handles::new(&cgroups.mount) else {
            return;
        };
        let root = fs::metadata(&cgroups.mount).unwrap().ino();
        assert_eq!(handles.path(root, &cgroups.mount).unwrap(), b"/");
        assert_eq!(handles.path(u64::MAX, &cgroups.mount), None);
        assert_eq!(path(&mut cgroups, root).as_deref(), Some("/"));
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
