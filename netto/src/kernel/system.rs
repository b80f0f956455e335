//! Readers of `/proc`, `/sys` and the process itself. They open and read; what
//! the text means is decided elsewhere.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, anyhow};

use super::kept::KeptFile;
use crate::analysis::rapl::Zone;

/// Where `/proc` and `/sys` are; tests supply a tree of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    /// Usually `/proc`.
    pub proc_root: PathBuf,
    /// Usually `/sys`.
    pub sys_root: PathBuf,
}

impl Roots {
    /// Opens the kernel's symbol list.
    pub fn kallsyms(&self) -> anyhow::Result<BufReader<File>> {
        let path = self.proc_root.join("kallsyms");
        let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        Ok(BufReader::with_capacity(64 << 10, file))
    }

    /// Opens `/proc/stat`, which is read at every interval.
    pub fn proc_stat(&self) -> anyhow::Result<KeptFile> {
        KeptFile::open(&self.proc_root.join("stat"))
    }

    /// The boot's identity; empty if unknown.
    pub fn boot_id(&self) -> String {
        let text = fs::read_to_string(self.proc_root.join("sys/kernel/random/boot_id"));
        text.map(|id| id.trim().to_owned()).unwrap_or_default()
    }

    /// Numbers of the CPUs that are online, ascending.
    pub fn online_cpus(&self) -> anyhow::Result<Vec<u32>> {
        let path = self.sys_root.join("devices/system/cpu/online");
        let text = read(&path)?;
        parse_cpu_list(text.trim())
            .with_context(|| format!("{}: {:?} is no list of CPUs", path.display(), text.trim()))
    }

    /// Interrupts of network devices: message-signalled ones and the classic line,
    /// of the device itself or (virtio) of the bus device that carries it.
    pub fn nic_interrupts(&self) -> BTreeSet<u32> {
        let mut found = BTreeSet::new();
        for interface in fs::read_dir(self.sys_root.join("class/net"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let Ok(device) = fs::canonicalize(interface.path().join("device")) else {
                continue;
            };
            for device in [Some(device.as_path()), device.parent()]
                .into_iter()
                .flatten()
            {
                let signalled = fs::read_dir(device.join("msi_irqs"))
                    .into_iter()
                    .flatten()
                    .flatten();
                found.extend(
                    signalled.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()),
                );
                found.extend(
                    read_number(&device.join("irq"))
                        .ok()
                        .filter(|irq| *irq > 0)
                        .map(|irq| irq as u32),
                );
            }
        }
        found
    }

    /// Whether the kernel preempts softirqs too (PREEMPT_RT).
    pub fn is_realtime(&self) -> bool {
        fs::read_to_string(self.sys_root.join("kernel/realtime"))
            .is_ok_and(|text| text.trim() == "1")
    }

    /// Thread number of each possible CPU's ksoftirqd; 0 where unknown.
    pub fn ksoftirqd_threads(&self, possible_cpus: usize) -> Vec<u32> {
        let mut threads = vec![0; possible_cpus];
        for entry in fs::read_dir(&self.proc_root)
            .into_iter()
            .flatten()
            .flatten()
        {
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            let cpu = name
                .trim_end()
                .strip_prefix("ksoftirqd/")
                .and_then(|cpu| cpu.parse::<usize>().ok());
            if let Some(thread) = cpu.and_then(|cpu| threads.get_mut(cpu)) {
                *thread = pid;
            }
        }
        threads
    }

    /// NUMA node of each possible CPU; empty if there is one node, or none known.
    pub fn numa_nodes(&self, possible_cpus: usize) -> Vec<u32> {
        let mut nodes = vec![0; possible_cpus];
        let mut highest = 0;
        for entry in fs::read_dir(self.sys_root.join("devices/system/node"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = entry.file_name();
            let Some(node) = name
                .to_str()
                .and_then(|name| name.strip_prefix("node")?.parse().ok())
            else {
                continue;
            };
            let list = fs::read_to_string(entry.path().join("cpulist")).unwrap_or_default();
            for cpu in parse_cpu_list(list.trim()).unwrap_or_default() {
                if let Some(of_cpu) = nodes.get_mut(cpu as usize) {
                    *of_cpu = node;
                    highest = highest.max(node);
                }
            }
        }
        if highest == 0 { Vec::new() } else { nodes }
    }

    /// Every RAPL zone with its counter.
    ///
    /// # Errors
    /// Where there is none, or none may be read: why.
    pub fn rapl_zones(&self) -> anyhow::Result<Vec<Zone>> {
        let base = self.sys_root.join("class/powercap");
        let mut zones = Vec::new();
        let mut refused = None;
        let entries = fs::read_dir(&base).map_err(|_| {
            anyhow!(
                "this machine has no RAPL energy counters ({} is absent)",
                base.display()
            )
        })?;
        for entry in entries.flatten() {
            let file_name = entry.file_name().to_string_lossy().into_owned();
            // `intel-rapl:0` is a package (also of AMD), `intel-rapl:0:1` a part of it.
            // `intel-rapl-mmio:0` is the same package a second time.
            let Some(numbers) = file_name.strip_prefix("intel-rapl:") else {
                continue;
            };
            let path = entry.path();
            let zone = zone_name(&base, &path, numbers).and_then(|name| {
                Ok(Zone {
                    name,
                    energy_uj: read_number(&path.join("energy_uj"))?,
                    max_energy_uj: read_number(&path.join("max_energy_range_uj"))?,
                })
            });
            match zone {
                Ok(zone) => zones.push(zone),
                Err(error) => refused = Some(error),
            }
        }
        zones.sort_by(|a, b| a.name.cmp(&b.name));
        match (zones.is_empty(), refused) {
            (false, _) => Ok(zones),
            (true, Some(error)) => Err(error.context(
                "the RAPL energy counters cannot be read; run as root or with CAP_DAC_READ_SEARCH",
            )),
            (true, None) => Err(anyhow!(
                "this machine has no RAPL energy counters (no zone in {})",
                base.display()
            )),
        }
    }
}

/// Code that was loaded into the running kernel: what may have changed its symbols.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadedCode {
    newest_program: u32,
    modules: u64,
}

impl LoadedCode {
    /// Of this moment.
    pub fn now(roots: &Roots) -> Self {
        Self::since(&LoadedCode::default(), roots)
    }

    /// Of this moment, looking only at BPF programs newer than those of `earlier`.
    pub fn since(earlier: &LoadedCode, roots: &Roots) -> Self {
        let mut newest = earlier.newest_program;
        loop {
            let mut next = 0;
            // SAFETY: `next` is a valid word to write to. Without the privilege
            // to list programs the call fails, and none are seen to come.
            if unsafe { libbpf_rs::libbpf_sys::bpf_prog_get_next_id(newest, &raw mut next) } != 0
                || next <= newest
            {
                break;
            }
            newest = next;
        }
        let mut hasher = rustc_hash::FxHasher::default();
        fs::read(roots.proc_root.join("modules"))
            .unwrap_or_default()
            .hash(&mut hasher);
        LoadedCode {
            newest_program: newest,
            modules: hasher.finish(),
        }
    }
}

fn zone_name(base: &Path, path: &Path, numbers: &str) -> anyhow::Result<String> {
    let own = read(&path.join("name"))?.trim().to_owned();
    match numbers.split_once(':') {
        None => Ok(own),
        Some((package, _)) => {
            let parent = read(&base.join(format!("intel-rapl:{package}/name")))?;
            Ok(format!("{}/{own}", parent.trim()))
        }
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn read_number(path: &Path) -> anyhow::Result<u64> {
    let text = read(path)?;
    text.trim()
        .parse()
        .with_context(|| format!("{}: {:?} is not a number", path.display(), text.trim()))
}

/// `0-3,5` as its numbers.
fn parse_cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        // No kernel has more; a damaged list must not fill the memory.
        if last >= 1 << 16 {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// The kernel's release, as `uname -r` prints it.
pub fn kernel_release() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease")
        .map(|s| s.trim().to_owned())
        .unwrap_or_else(|_| "unknown".into())
}

/// This host's name.
pub fn hostname() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|s| s.trim().to_owned())
        .unwrap_or_else(|_| "unknown".into())
}

/// The monotonic clock, which BPF's `bpf_ktime_get_ns` reads too.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec to write to; the call cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Length of one tick of `/proc/stat`, nanoseconds.
pub fn tick_ns() -> u64 {
    // SAFETY: sysconf has no preconditions.
    let hz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    1_000_000_000 / u64::try_from(hz).ok().filter(|&hz| hz > 0).unwrap_or(100)
}

/// CPU time of this process so far (user, system), nanoseconds.
pub fn own_cpu_ns() -> (u64, u64) {
    // SAFETY: rusage is plain old data, for which all zeroes are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid rusage to write to.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    (ns(usage.ru_utime), ns(usage.ru_stime))
}

/// Resident memory of this process, bytes; 0 only if `/proc` is not mounted.
pub fn own_resident_bytes() -> u64 {
    static STATM: OnceLock<Option<KeptFile>> = OnceLock::new();
    let kept = STATM.get_or_init(|| KeptFile::open(Path::new("/proc/self/statm")).ok());
    let text = kept.as_ref().and_then(|file| file.text().ok());
    let pages = text.and_then(|text| text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
    // SAFETY: sysconf has no preconditions.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    pages.unwrap_or(0) * u64::try_from(page_bytes).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let roots = Roots {
            proc_root: dir.path().join("proc"),
            sys_root: dir.path().join("sys"),
        };
        (dir, roots)
    }

    #[test]
    fn lists_of_cpus_have_ranges_and_single_numbers() {
        assert_eq!(parse_cpu_list("0-3,5,7-8"), Some(vec![0, 1, 2, 3, 5, 7, 8]));
        assert_eq!(parse_cpu_list("0"), Some(vec![0]));
        for damaged in ["", "0-", "a", "0-99999999", "1,,2"] {
            assert_eq!(parse_cpu_list(damaged), None, "{damaged:?}");
        }
    }

    /// A made-up two-socket server; there is no RAPL on the machines that test this.
    #[test]
    fn rapl_zones_are_named_with_their_package_and_mmio_twins_are_left_out() {
        let zone = |dir: &str, name: &str, uj: &str| {
            [
                ("name", name),
                ("energy_uj", uj),
                ("max_energy_range_uj", "262143328850"),
            ]
            .map(|(file, text)| {
                (
                    format!("sys/class/powercap/{dir}/{file}"),
                    format!("{text}\n"),
                )
            })
        };
        let files: Vec<(String, String)> = [
            zone("intel-rapl:0", "package-0", "11"),
            zone("intel-rapl:0:0", "dram", "12"),
            zone("intel-rapl:1", "package-1", "13"),
            zone("intel-rapl-mmio:0", "package-0", "11"),
        ]
        .concat();
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(p, t)| (p.as_str(), t.as_str()))
            .collect();
        let (_dir, roots) = tree(&files);
        let zones = roots.rapl_zones().unwrap();
        let seen: Vec<(&str, u64)> = zones
            .iter()
            .map(|z| (z.name.as_str(), z.energy_uj))
            .collect();
        assert_eq!(
            seen,
            [("package-0", 11), ("package-0/dram", 12), ("package-1", 13)]
        );
    }

    #[test]
    fn no_rapl_and_unreadable_rapl_are_different_reasons() {
        let (_dir, roots) = tree(&[]);
        assert!(
            roots
                .rapl_zones()
                .unwrap_err()
                .to_string()
                .contains("no RAPL")
        );
        let (_dir, roots) = tree(&[("sys/class/powercap/intel-rapl:0/name", "package-0\n")]);
        assert!(
            roots
                .rapl_zones()
                .unwrap_err()
                .to_string()
                .contains("CAP_DAC_READ_SEARCH")
        );
    }

    /// A made-up host with two NUMA nodes.
    #[test]
    fn each_cpu_knows_its_numa_node_where_there_are_several() {
        let node = "sys/devices/system/node";
        let (_dir, roots) = tree(&[
            (&format!("{node}/node0/cpulist"), "0-1,4\n"),
            (&format!("{node}/node1/cpulist"), "2-3,5\n"),
            (&format!("{node}/possible"), "0-1\n"),
        ]);
        assert_eq!(roots.numa_nodes(6), [0, 0, 1, 1, 0, 1]);
        let (_dir, roots) = tree(&[(&format!("{node}/node0/cpulist"), "0-3\n")]);
        assert_eq!(roots.numa_nodes(4), Vec::<u32>::new());
    }

    /// A made-up server with a plain NIC, a virtio NIC and a bridge, which has no device.
    #[test]
    fn interrupts_of_network_devices_are_found_also_behind_virtio() {
        let (dir, roots) = tree(&[
            ("sys/devices/pci0/0000:01/msi_irqs/60", "msix\n"),
            ("sys/devices/pci0/0000:01/msi_irqs/61", "msix\n"),
            ("sys/devices/pci0/0000:01/irq", "0\n"),
            ("sys/devices/pci0/0000:02/irq", "11\n"),
            ("sys/devices/pci0/0000:02/virtio3/features", "0\n"),
            ("sys/devices/virtual/net/br0/address", "x\n"),
            ("sys/class/net/eth0/address", "x\n"),
            ("sys/class/net/eth1/address", "x\n"),
            ("sys/class/net/br0/address", "x\n"),
        ]);
        let sys = dir.path().join("sys");
        for (name, device) in [("eth0", "pci0/0000:01"), ("eth1", "pci0/0000:02/virtio3")] {
            std::os::unix::fs::symlink(
                sys.join("devices").join(device),
                sys.join(format!("class/net/{name}/device")),
            )
            .unwrap();
        }
        assert_eq!(
            roots.nic_interrupts().into_iter().collect::<Vec<_>>(),
            [11, 60, 61]
        );
    }

    #[test]
    fn each_cpus_ksoftirqd_is_found_by_its_name() {
        let (_dir, roots) = tree(&[
            ("proc/15/comm", "ksoftirqd/0\n"),
            ("proc/23/comm", "ksoftirqd/1\n"),
            ("proc/9/comm", "bash\n"),
        ]);
        assert_eq!(roots.ksoftirqd_threads(3), [15, 23, 0]);
    }

    #[test]
    fn a_missing_file_is_named() {
        let (_dir, roots) = tree(&[]);
        assert!(roots.proc_stat().unwrap_err().to_string().contains("stat"));
        assert!(
            roots
                .online_cpus()
                .unwrap_err()
                .to_string()
                .contains("online")
        );
    }
}
