//! Readers of `/proc` and `/sys`, and of the process itself. They open and read files; other
//! modules interpret the text.

use std::fs::{self, File};
use std::io::{BufReader, Read, Take};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::files::{LONGEST_BYTES, open, read, read_number, short_line};
use super::reopenable::ReopenableFile;

pub use self::clock::{current_cpu, monotonic_ns, scheduler_tick_ns, thread_cpu_ns, tick_ns};
pub use self::hardware::OnlineList;
pub use self::hardware::interrupts_of;
pub use self::loaded_code::LoadedCode;
pub use self::process::{own_cpu_ns, own_resident_bytes};

mod clock;
mod hardware;
mod loaded_code;
mod process;

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
    pub fn proc_stat(&self) -> anyhow::Result<ReopenableFile> {
        ReopenableFile::open(&self.proc_root.join("stat"))
    }

    /// Opens `/proc/softirqs`, which is read while no probe counts softirqs.
    pub fn softirqs(&self) -> anyhow::Result<ReopenableFile> {
        ReopenableFile::open(&self.proc_root.join("softirqs"))
    }

    /// The boot id; empty if unknown.
    pub fn boot_id(&self) -> String {
        let text = read(&self.proc_root.join("sys/kernel/random/boot_id")).unwrap_or_default();
        short_line(&text).unwrap_or_default()
    }

    /// Whether the kernel is built with PREEMPT_RT, which preempts softirqs, too.
    pub fn is_realtime(&self) -> bool {
        let file = read(&self.sys_root.join("kernel/realtime")).ok();
        let version = nix::sys::utsname::uname().ok();
        let version = version.and_then(|name| name.version().to_str().map(str::to_owned));
        says_realtime(file.as_deref(), version.as_deref())
    }

    /// Most samples that perf takes on a CPU between two ticks; `None` if unknown.
    pub fn perf_samples_between_ticks(&self) -> Option<u64> {
        let path = self.proc_root.join("sys/kernel/perf_event_max_sample_rate");
        let a_second = read_number(&path).ok().filter(|rate| *rate > 0)?;
        Some(
            a_second
                .saturating_mul(scheduler_tick_ns()?)
                .div_ceil(1_000_000_000),
        )
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

/// The identifier of this installation of the operating system; `None` if it has none.
pub fn machine_id() -> Option<String> {
    let text = read(Path::new("/etc/machine-id")).ok()?;
    let id = short_line(&text)?;
    // The first boot writes `uninitialized` before it makes one.
    id.chars()
        .all(|letter| letter.is_ascii_hexdigit())
        .then_some(id)
}

/// Made-up files, for tests of all crates that read them.
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, reason = "only tests call it")]
pub mod testing {
    use super::*;

    /// A made-up `/proc` and `/sys` with these files.
    pub fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
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
}

/// Whether a kernel with this `/sys/kernel/realtime` and this `uname -v` has PREEMPT_RT. The file
/// comes from out-of-tree patches: mainline 6.12 and 6.13 have PREEMPT_RT without it.
fn says_realtime(file: Option<&str>, version: Option<&str>) -> bool {
    file.is_some_and(|text| text.trim() == "1")
        || version.is_some_and(|version| version.contains("PREEMPT_RT"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::testing::tree;
    use super::*;
    use netto_analysis::classify::Classifier;
    use netto_analysis::proc_stat;

    proptest! {
        /// Every file read below `/proc` and `/sys`, with the same text.
        #[test]
        fn no_text_in_any_file_makes_a_reader_panic(
            text in "[-0-9,]{0,40}|cpu[0-9 ]{0,60}|ksoftirqd/[0-9]{0,25}|.{0,60}",
        ) {
            let (_dir, roots) = tree(&FILES.map(|path| (path, text.as_str())));
            let _ = roots.online_cpus();
            let _ = roots.boot_id();
            let _ = roots.is_realtime();
            let _ = roots.nic_interrupts();
            let _ = roots.perf_samples_between_ticks();
            prop_assert_eq!(roots.ksoftirqd_threads(4).len(), 4);
            prop_assert!([0, 4].contains(&roots.numa_nodes(4).len()));
            if let Ok(text) = roots.proc_stat().and_then(|file| file.text()) {
                let _ = proc_stat::parse(&text);
            }
            if let Ok(symbols) = roots.kallsyms() {
                let _ = Classifier::new(symbols);
            }
            let _ = LoadedCode::now(&roots);
        }
    }

    /// One of each file that is read.
    const FILES: [&str; 10] = [
        "sys/devices/system/cpu/online",
        "sys/devices/system/node/node0/cpulist",
        "sys/devices/system/node/node1/cpulist",
        "sys/kernel/realtime",
        "sys/class/net/eth0/device/irq",
        "proc/stat",
        "proc/kallsyms",
        "proc/1/comm",
        "proc/sys/kernel/random/boot_id",
        "proc/sys/kernel/perf_event_max_sample_rate",
    ];

    #[test]
    fn a_kernel_says_by_its_file_or_by_its_version_that_it_preempts_softirqs() {
        let mainline = Some("#1 SMP PREEMPT_RT Debian 6.12.57-1 (2025-11-05)");
        let usual = Some("#1 SMP PREEMPT_DYNAMIC Debian 6.12.57-1 (2025-11-05)");
        assert!(says_realtime(None, mainline));
        assert!(says_realtime(Some("1\n"), usual));
        assert!(!says_realtime(None, usual));
        assert!(!says_realtime(Some("0\n"), None));
    }

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
    fn each_cpus_ksoftirqd_is_found_by_its_name() {
        let (_dir, roots) = tree(&[
            ("proc/15/comm", "ksoftirqd/0\n"),
            ("proc/23/comm", "ksoftirqd/1\n"),
            ("proc/9/comm", "bash\n"),
        ]);
        assert_eq!(roots.ksoftirqd_threads(3), [15, 23, 0]);
    }

    #[test]
    fn perf_takes_its_share_of_the_allowed_samples_in_each_tick() {
        let file = "proc/sys/kernel/perf_event_max_sample_rate";
        let most = |text: &str| tree(&[(file, text)]).1.perf_samples_between_ticks();
        // At least one, and more at a higher rate, whatever HZ is.
        assert_eq!(most("1\n"), Some(1));
        assert!(most("1000000\n") > most("100000\n"));
        assert_eq!((most("0\n"), most("many\n")), (None, None));
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
