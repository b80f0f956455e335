//! Files of the kernel that are read at every interval, and stay open: pressure, the statistics of
//! block devices, memory.

use netto_sys::reopenable::ReopenableFile;
use netto_sys::system::Roots;

use crate::analysis::pressure::{self, Totals};

/// The resources with a file below `/proc/pressure`.
const RESOURCES: [&str; 3] = ["cpu", "io", "memory"];

/// See the head of this file.
pub(crate) struct Files {
    pressure: Vec<(&'static str, ReopenableFile)>,
    disks: anyhow::Result<ReopenableFile>,
    memory: Option<ReopenableFile>,
}

impl Files {
    /// Opens those that there are.
    pub(crate) fn open(roots: &Roots) -> Self {
        let file = |name: &str| ReopenableFile::open(&roots.proc_root.join(name));
        let pressure = RESOURCES.iter().filter_map(|resource| {
            let opened = file(&format!("pressure/{resource}")).ok()?;
            Some((*resource, opened))
        });
        Files {
            pressure: pressure.collect(),
            disks: file("diskstats"),
            memory: file("meminfo").ok(),
        }
    }

    /// The totals of each resource that the kernel tells of.
    pub(crate) fn pressure(&self) -> Vec<(&'static str, Totals)> {
        let all = self.pressure.iter();
        let all =
            all.filter_map(|(name, file)| Some((*name, pressure::parse(&file.text().ok()?)?)));
        all.collect()
    }

    /// The text of `/proc/diskstats`.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn disks(&self) -> Result<String, String> {
        let file = self.disks.as_ref().map_err(|error| format!("{error:#}"))?;
        file.text().map_err(|error| format!("{error:#}"))
    }

    /// The share of memory that is not available.
    pub(crate) fn memory_ratio(&self) -> Option<f64> {
        let text = self.memory.as_ref()?.text().ok()?;
        let kilobytes = |name: &str| -> Option<f64> {
            let mut lines = text.lines();
            let line = lines.find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let (all, available) = (kilobytes("MemTotal:")?, kilobytes("MemAvailable:")?);
        (all > 0.0).then(|| (1.0 - available / all).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use netto_sys::system::testing::tree;

    use super::*;

    #[test]
    fn what_is_there_is_read_and_what_is_not_is_absent() {
        let (_dir, roots) = tree(&[
            ("proc/pressure/io", "some total=7\n"),
            ("proc/pressure/cpu", "nonsense\n"),
            (
                "proc/meminfo",
                "MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable: 25 kB\n",
            ),
        ]);
        let files = Files::open(&roots);
        let names: Vec<&str> = files.pressure().iter().map(|resource| resource.0).collect();
        assert_eq!(names, ["io"]);
        assert_eq!(files.memory_ratio(), Some(0.75));
        assert!(files.disks().unwrap_err().contains("diskstats"));
    }
}
