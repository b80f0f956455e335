//! How often programs ran, where the kernel counts it.

use netto_sys::programs;
use netto_sys::reopenable::ReopenableFile;
use netto_sys::system::Roots;

/// Whether the kernel counts runs.
#[derive(Debug)]
pub(crate) struct RunCounts {
    setting: Option<ReopenableFile>,
    was_on: bool,
}

impl RunCounts {
    /// Opens the setting; a kernel without it (before 5.1) does not count.
    pub(crate) fn open(roots: &Roots) -> Self {
        let path = roots.proc_root.join("sys/kernel/bpf_stats_enabled");
        RunCounts {
            setting: ReopenableFile::open(&path).ok(),
            was_on: false,
        }
    }

    /// Whether all runs of the interval that ends now were counted.
    pub(crate) fn are_counted(&mut self) -> bool {
        let text = self.setting.as_ref().and_then(|file| file.text().ok());
        let is_on = text.is_some_and(|text| text.trim() == "1");
        std::mem::replace(&mut self.was_on, is_on) && is_on
    }
}

/// The runs of a program that the kernel has counted so far; `None` if it is gone.
pub(crate) fn of(program: u32) -> Option<u64> {
    programs::runs(program).ok().flatten()
}
