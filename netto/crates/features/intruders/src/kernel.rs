//! Which CPUs are meant to be quiet, and which settings lead packets there, by the kernel's files.
//! They are read again every few seconds, because a cpuset may become exclusive at any time; a
//! thread of its own reads them, because there may be many control groups.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use metrics_common::sections::{QuietCpu, QuietKind, Quietness};
use netto_sys::cgroups;
use netto_sys::files::{parse_cpu_mask, read};
use netto_sys::system::Roots;

use crate::analysis::lists;

/// Time between two readings.
pub(crate) const EVERY_NS: u64 = 5_000_000_000;
/// Most groups looked at, most CPUs, and most settings named for each.
const MOST_GROUPS: usize = 4_096;
const MOST_CPUS: usize = 4_096;
const MOST_WAYS: usize = 8;

/// The CPUs that are meant to be quiet.
#[derive(Debug, Default)]
pub(crate) struct QuietCpus {
    /// Ascending.
    pub(crate) cpus: Vec<QuietCpu>,
    /// Files that could not be understood.
    unread: Vec<String>,
}

impl QuietCpus {
    /// Reads all of it now.
    pub(crate) fn read(roots: &Roots) -> Self {
        let mut search = Search::default();
        let cpus = roots.sys_root.join("devices/system/cpu");
        search.list(&cpus.join("isolated"), QuietKind::Isolcpus, "");
        search.list(&cpus.join("nohz_full"), QuietKind::NohzFull, "");
        // A group with all CPUs keeps none for itself.
        search.all = roots.online_cpus().map_or(usize::MAX, |cpus| cpus.len());
        if let Ok(Some(mount)) = cgroups::mount(roots) {
            search.groups(&mount, &V2);
        }
        if let Ok(Some(mount)) = cgroups::cpuset_mount(roots) {
            search.groups(&mount, &V1);
        }
        let quiet = search.quiet.into_iter().take(MOST_CPUS);
        let mut cpus: Vec<QuietCpu> = quiet
            .map(|(cpu, why)| QuietCpu {
                cpu,
                why,
                ways: Vec::new(),
            })
            .collect();
        if !cpus.is_empty() {
            find_ways(roots, &mut cpus);
        }
        QuietCpus {
            cpus,
            unread: search.unread,
        }
    }

    /// Which they are and why, for people.
    pub(crate) fn note(&self) -> Option<String> {
        let unread = (!self.unread.is_empty())
            .then(|| format!("No list of CPUs: {}.", self.unread.join(", ")));
        let both = [lists::sentence(&self.cpus), unread];
        let both: Vec<String> = both.into_iter().flatten().collect();
        (!both.is_empty()).then(|| both.join(" "))
    }
}

/// The files of a hierarchy of cpusets.
struct Hierarchy {
    /// Whether a group has its CPUs for itself, and the text that says so.
    is_exclusive: (&'static str, fn(&str) -> bool),
    /// Its CPUs; the first file that is there.
    cpus: [&'static str; 2],
    /// A text in it lets groups below have CPUs for themselves, though the group has not.
    lends: Option<&'static str>,
}

const V2: Hierarchy = Hierarchy {
    is_exclusive: ("cpuset.cpus.partition", lists::is_partition),
    cpus: ["cpuset.cpus.effective", "cpuset.cpus"],
    lends: Some("cpuset.cpus.exclusive"),
};
const V1: Hierarchy = Hierarchy {
    is_exclusive: ("cpuset.cpu_exclusive", |text| text.trim() == "1"),
    cpus: ["cpuset.effective_cpus", "cpuset.cpus"],
    lends: None,
};

#[derive(Default)]
struct Search {
    quiet: BTreeMap<u32, Vec<Quietness>>,
    unread: Vec<String>,
    /// How many CPUs there are.
    all: usize,
}

impl Search {
    /// Adds the CPUs of a list; without the file there are none.
    fn list(&mut self, file: &Path, kind: QuietKind, cpuset: &str) {
        let Ok(text) = read(file) else { return };
        match lists::cpus(&text) {
            Ok(cpus) => self.add(&cpus, kind, cpuset),
            Err(_) => self.unread.push(file.display().to_string()),
        }
    }

    fn add(&mut self, cpus: &[u32], kind: QuietKind, cpuset: &str) {
        let cpuset = cpuset.to_owned();
        let why = Quietness { kind, cpuset };
        for cpu in cpus {
            let known = self.quiet.entry(*cpu).or_default();
            if !known.contains(&why) {
                known.push(why.clone());
            }
        }
    }

    /// Adds those of groups that have their CPUs for themselves. Such a group's parent has, too, or
    /// lends its own.
    fn groups(&mut self, mount: &Path, files: &Hierarchy) {
        let mut waiting = vec![mount.to_owned()];
        let mut looked_at = 0;
        while let Some(folder) = waiting.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    continue;
                }
                looked_at += 1;
                if looked_at > MOST_GROUPS {
                    return;
                }
                let group = entry.path();
                if self.group(mount, &group, files) {
                    waiting.push(group);
                }
            }
        }
    }

    /// Whether groups below may have CPUs for themselves.
    fn group(&mut self, mount: &Path, group: &Path, files: &Hierarchy) -> bool {
        let (file, is_exclusive) = files.is_exclusive;
        // Without the file, cpusets end here.
        let Ok(text) = read(&group.join(file)) else {
            return false;
        };
        if !is_exclusive(&text) {
            let lends = files.lends.and_then(|file| read(&group.join(file)).ok());
            return lends.is_some_and(|text| !text.trim().is_empty());
        }
        let list = files.cpus.iter();
        let list: Option<(PathBuf, String)> = list
            .map(|file| group.join(file))
            .find_map(|file| Some((file.clone(), read(&file).ok()?)));
        let Some((file, text)) = list else {
            return true;
        };
        match lists::cpus(&text) {
            Ok(cpus) if cpus.len() < self.all => {
                let path = group.strip_prefix(mount).unwrap_or(group);
                let path = format!("/{}", path.to_string_lossy());
                self.add(&cpus, QuietKind::Cpuset, &path);
            }
            Ok(_) => {}
            Err(_) => self.unread.push(file.display().to_string()),
        }
        true
    }
}

/// Adds the settings of this host's interfaces that lead packets to these CPUs: receive packet
/// steering, and interrupts of network devices.
fn find_ways(roots: &Roots, quiet: &mut [QuietCpu]) {
    let mut add = |cpus: &[u32], way: &str| {
        for quiet_cpu in quiet
            .iter_mut()
            .filter(|quiet_cpu| cpus.contains(&quiet_cpu.cpu))
        {
            if quiet_cpu.ways.len() < MOST_WAYS {
                quiet_cpu.ways.push(way.to_owned());
            }
        }
    };
    for (interface, path) in sorted(&roots.sys_root.join("class/net")) {
        for (queue, path) in sorted(&path.join("queues")) {
            let mask = read(&path.join("rps_cpus")).ok();
            if let Some(cpus) = mask.and_then(|text| parse_cpu_mask(&text)) {
                add(&cpus, &format!("RPS of {interface} {queue}"));
            }
        }
    }
    for number in roots.nic_interrupts() {
        let folder = roots.proc_root.join(format!("irq/{number}"));
        let files = ["effective_affinity_list", "smp_affinity_list"];
        let text = files.iter().find_map(|file| read(&folder.join(file)).ok());
        if let Some(cpus) = text.and_then(|text| lists::cpus(&text).ok()) {
            add(&cpus, &format!("interrupt {number}"));
        }
    }
}

/// Names and paths in a folder.
fn sorted(folder: &Path) -> BTreeMap<String, PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, entry.path())
    });
    named.take(MOST_GROUPS).collect()
}

#[cfg(test)]
mod tests {
    use netto_sys::system::testing::tree;
    use proptest::prelude::*;

    use super::*;

    /// A host of four CPUs with both versions of control groups, and these files.
    fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
        let (dir, roots) = tree(&[
            ("sys/devices/system/cpu/online", "0-3\n"),
            ("sys/fs/cgroup/v2/cgroup.procs", ""),
            ("sys/fs/cgroup/v1/cpuset.cpu_exclusive", "1\n"),
        ]);
        let mounts = |sys: &Path| {
            format!(
                "1 0 0:1 / {0}/fs/cgroup/v2 rw - cgroup2 cgroup2 rw\n\
                 2 0 0:2 / {0}/fs/cgroup/v1 rw - cgroup cgroup rw,cpuset\n",
                sys.display()
            )
        };
        let mounts = mounts(&roots.sys_root);
        for (path, text) in files
            .iter()
            .copied()
            .chain([("proc/self/mountinfo", &*mounts)])
        {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (dir, roots)
    }

    fn reasons(roots: &Roots) -> Vec<(u32, String)> {
        let found = QuietCpus::read(roots);
        assert!(found.unread.is_empty(), "{found:?}");
        let cpus = found.cpus.iter();
        cpus.map(|quiet_cpu| (quiet_cpu.cpu, quiet_cpu.reasons()))
            .collect()
    }

    #[test]
    fn a_usual_host_has_no_cpu_that_is_meant_to_be_quiet() {
        let (_dir, roots) = host(&[
            ("sys/devices/system/cpu/isolated", "\n"),
            ("sys/devices/system/cpu/nohz_full", "(null)\n"),
            ("sys/fs/cgroup/v2/a/cpuset.cpus.partition", "member\n"),
            ("sys/fs/cgroup/v1/a/cpuset.cpu_exclusive", "0\n"),
        ]);
        assert_eq!(reasons(&roots), []);
        assert_eq!(QuietCpus::read(&roots).note(), None);
    }

    #[test]
    fn each_way_of_keeping_a_cpu_quiet_is_found() {
        let (_dir, roots) = host(&[
            ("sys/devices/system/cpu/isolated", "1\n"),
            ("sys/devices/system/cpu/nohz_full", "1-2\n"),
            ("sys/fs/cgroup/v2/a/cpuset.cpus.partition", "isolated\n"),
            ("sys/fs/cgroup/v2/a/cpuset.cpus.effective", "2\n"),
            ("sys/fs/cgroup/v1/b/cpuset.cpu_exclusive", "1\n"),
            ("sys/fs/cgroup/v1/b/cpuset.effective_cpus", "2-3\n"),
            ("sys/fs/cgroup/v1/b/c/cpuset.cpu_exclusive", "1\n"),
            ("sys/fs/cgroup/v1/b/c/cpuset.cpus", "3\n"),
        ]);
        let expected = |cpu, why: &str| (cpu, why.to_owned());
        assert_eq!(
            reasons(&roots),
            [
                expected(1, "isolcpus, nohz_full"),
                expected(2, "nohz_full, cpuset /a, cpuset /b"),
                expected(3, "cpuset /b, cpuset /b/c"),
            ]
        );
    }

    #[test]
    fn a_partition_may_lie_below_groups_that_lend_their_cpus_and_below_no_others() {
        let partition = "cpuset.cpus.partition";
        let v2 = "sys/fs/cgroup/v2";
        let (_dir, roots) = host(&[
            (&format!("{v2}/a/{partition}"), "member\n"),
            (&format!("{v2}/a/cpuset.cpus.exclusive"), "1\n"),
            (&format!("{v2}/a/b/{partition}"), "root\n"),
            (&format!("{v2}/a/b/cpuset.cpus.effective"), "1\n"),
            (&format!("{v2}/c/{partition}"), "root invalid (…)\n"),
            (&format!("{v2}/c/d/{partition}"), "root\n"),
            (&format!("{v2}/c/d/cpuset.cpus.effective"), "2\n"),
        ]);
        assert_eq!(reasons(&roots), [(1, "cpuset /a/b".to_owned())]);
    }

    #[test]
    fn a_cpuset_with_all_cpus_keeps_none_for_itself() {
        let (_dir, roots) = host(&[
            ("sys/fs/cgroup/v1/all/cpuset.cpu_exclusive", "1\n"),
            ("sys/fs/cgroup/v1/all/cpuset.effective_cpus", "0-3\n"),
        ]);
        assert_eq!(reasons(&roots), []);
    }

    #[test]
    fn the_settings_that_lead_packets_to_a_quiet_cpu_are_named() {
        let (dir, roots) = host(&[
            ("sys/devices/system/cpu/isolated", "1\n"),
            ("sys/class/net/eth0/queues/rx-0/rps_cpus", "2\n"),
            ("sys/class/net/eth0/queues/rx-1/rps_cpus", "1\n"),
            ("sys/devices/pci/irq", "40\n"),
            ("proc/irq/40/effective_affinity_list", "1\n"),
        ]);
        let sys = dir.path().join("sys");
        let device = sys.join("class/net/eth0/device");
        std::os::unix::fs::symlink(sys.join("devices/pci"), device).unwrap();
        let found = QuietCpus::read(&roots);
        assert_eq!(found.cpus[0].ways, ["RPS of eth0 rx-0", "interrupt 40"]);
    }

    #[test]
    fn a_list_that_is_none_is_told() {
        let (_dir, roots) = host(&[("sys/devices/system/cpu/isolated", "all but one\n")]);
        let note = QuietCpus::read(&roots).note().unwrap();
        assert!(
            note.contains("No list of CPUs: ") && note.contains("isolated"),
            "{note}"
        );
    }

    proptest! {
        #[test]
        fn no_text_in_any_file_makes_a_reader_panic(text in "[-0-9,]{0,20}|root|1|[0-9a-f,]{0,40}|.{0,40}") {
            let files = [
                "sys/devices/system/cpu/isolated",
                "sys/devices/system/cpu/nohz_full",
                "sys/devices/system/cpu/online",
                "sys/fs/cgroup/v2/a/cpuset.cpus.partition",
                "sys/fs/cgroup/v2/a/cpuset.cpus.exclusive",
                "sys/fs/cgroup/v2/a/cpuset.cpus.effective",
                "sys/fs/cgroup/v1/b/cpuset.cpu_exclusive",
                "sys/fs/cgroup/v1/b/cpuset.cpus",
                "sys/class/net/eth0/queues/rx-0/rps_cpus",
            ];
            let (_dir, roots) = host(&files.map(|file| (file, text.as_str())));
            let found = QuietCpus::read(&roots);
            prop_assert!(found.cpus.len() <= MOST_CPUS);
            let _ = found.note();
        }
    }
}
