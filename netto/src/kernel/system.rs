//! Readers of `/proc`, `/sys` and the process itself. They open and read; what
//! the text means is decided elsewhere.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{BufReader, Read, Take};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, anyhow};

use super::files::{LONGEST_BYTES, excerpt, open, parse_cpu_list, read, read_number, short_line};
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
    pub fn kallsyms(&self) -> anyhow::Result<BufReader<Take<File>>> {
        let path = self.proc_root.join("kallsyms");
        let file = open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        Ok(BufReader::with_capacity(64 << 10, file.take(LONGEST_BYTES)))
    }

    /// Opens `/proc/stat`, which is read at every interval.
    pub fn proc_stat(&self) -> anyhow::Result<KeptFile> {
        KeptFile::open(&self.proc_root.join("stat"))
    }

    /// The boot's identity; empty if unknown.
    pub fn boot_id(&self) -> String {
        let text = read(&self.proc_root.join("sys/kernel/random/boot_id")).unwrap_or_default();
        short_line(&text).unwrap_or_default()
    }

    /// Numbers of the CPUs that are online, ascending.
    pub fn online_cpus(&self) -> anyhow::Result<Vec<u32>> {
        let path = self.sys_root.join("devices/system/cpu/online");
        let text = read(&path)?;
        parse_cpu_list(text.trim()).with_context(|| {
            format!(
                "{}: {:?} is no list of CPUs",
                path.display(),
                excerpt(&text)
            )
        })
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
        read(&self.sys_root.join("kernel/realtime")).is_ok_and(|text| text.trim() == "1")
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
            let name = read(&entry.path().join("comm")).unwrap_or_default();
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
            let list = read(&entry.path().join("cpulist")).unwrap_or_default();
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
        // Each zone is followed by its name, so of two with one name only one can be.
        zones.dedup_by(|a, b| a.name == b.name);
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
        read(&roots.proc_root.join("modules"))
            .unwrap_or_default()
            .hash(&mut hasher);
        LoadedCode {
            newest_program: newest,
            modules: hasher.finish(),
        }
    }
}

fn zone_name(base: &Path, path: &Path, numbers: &str) -> anyhow::Result<String> {
    let name_in = |folder: &Path| {
        let path = folder.join("name");
        let text = read(&path)?;
        short_line(&text).ok_or_else(|| anyhow!("{} holds no name", path.display()))
    };
    let own = name_in(path)?;
    match numbers.split_once(':') {
        None => Ok(own),
        Some((package, _)) => {
            let parent = name_in(&base.join(format!("intel-rapl:{package}")))?;
            Ok(format!("{parent}/{own}"))
        }
    }
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
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec to write to; the call cannot fail for the clocks
    // that are asked for above.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
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
    use proptest::prelude::*;

    use super::*;
    use crate::analysis::classify::Classifier;
    use crate::analysis::proc_stat;
    use crate::analysis::rapl::Energy;

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

    proptest! {
        /// Every file that is read below `/proc` and `/sys`, with the same text.
        #[test]
        fn no_text_in_any_file_makes_a_reader_panic(
            text in "[-0-9,]{0,40}|cpu[0-9 ]{0,60}|ksoftirqd/[0-9]{0,25}|.{0,60}",
        ) {
            let (_dir, roots) = tree(&FILES.map(|path| (path, text.as_str())));
            let _ = roots.online_cpus();
            let _ = roots.boot_id();
            let _ = roots.is_realtime();
            let _ = roots.nic_interrupts();
            prop_assert_eq!(roots.ksoftirqd_threads(4).len(), 4);
            prop_assert!([0, 4].contains(&roots.numa_nodes(4).len()));
            if let Ok(zones) = roots.rapl_zones() {
                let mut energy = Energy::default();
                energy.advance(&zones, 1, 1, 1);
                energy.advance(&zones, 1, 1, 1);
            }
            if let Ok(text) = roots.proc_stat().and_then(|file| file.text()) {
                let _ = proc_stat::parse(&text);
            }
            if let Ok(symbols) = roots.kallsyms() {
                let _ = Classifier::new(symbols, true);
            }
            let _ = LoadedCode::now(&roots);
        }
    }

    /// One of each file that is read.
    const FILES: [&str; 12] = [
        "sys/devices/system/cpu/online",
        "sys/devices/system/node/node0/cpulist",
        "sys/devices/system/node/node1/cpulist",
        "sys/kernel/realtime",
        "sys/class/net/eth0/device/irq",
        "sys/class/powercap/intel-rapl:0/name",
        "sys/class/powercap/intel-rapl:0/energy_uj",
        "sys/class/powercap/intel-rapl:0/max_energy_range_uj",
        "proc/stat",
        "proc/kallsyms",
        "proc/1/comm",
        "proc/sys/kernel/random/boot_id",
    ];

    #[test]
    fn a_pipe_is_not_waited_for_and_a_file_without_end_is_not_read_to_it() {
        let (dir, roots) = tree(&[("proc/other", "")]);
        let pipe = dir.path().join("proc/stat");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let error = roots.proc_stat().unwrap().text().unwrap_err().to_string();
        assert!(error.contains("proc/stat"), "{error}");
        fs::remove_file(&pipe).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &pipe).unwrap();
        let error = format!("{:#}", roots.proc_stat().unwrap().text().unwrap_err());
        assert!(error.contains("longer than any file"), "{error}");
    }

    #[test]
    fn of_two_zones_with_one_name_one_is_followed() {
        let zone = |number: u32, file: &str, text: &str| {
            let path = format!("sys/class/powercap/intel-rapl:{number}/{file}");
            (path, text.to_owned())
        };
        let files: Vec<(String, String)> = (0..2)
            .flat_map(|number| {
                let (name, uj, most) = ("name", "energy_uj", "max_energy_range_uj");
                let reading = if number == 0 { "1" } else { "9000000" };
                [
                    zone(number, name, "package-0\n"),
                    zone(number, uj, reading),
                    zone(number, most, "10000000"),
                ]
            })
            .collect();
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        let (_dir, roots) = tree(&files);
        assert_eq!(roots.rapl_zones().unwrap().len(), 1);
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
