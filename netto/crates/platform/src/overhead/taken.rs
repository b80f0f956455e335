//! netto's cost on each CPU in an interval: values only.

use metrics_common::CostliestCpu;
use metrics_common::sections::SamplePrice;

/// netto's cost on each CPU in an interval, by column, nanoseconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Taken {
    /// Groups of probes, by name.
    pub probes: Vec<(&'static str, Vec<u64>)>,
    /// Samples.
    pub sampler: Option<Vec<u64>>,
    /// The daemon's process.
    pub daemon: Vec<u64>,
    /// The process's total, in user mode and in the kernel.
    pub process: (u64, u64),
    /// Samples per second from now on.
    pub sampling_hz: Option<Vec<u64>>,
    /// What a sample costs.
    pub sample_price: Option<SamplePrice>,
    /// The CPU with the highest recent cost.
    pub costliest: Option<CostliestCpu>,
}

impl Taken {
    /// All named parts of netto's own cost.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, &[u64])> {
        let probes = self.probes.iter();
        let probes = probes.map(|(name, row)| (*name, row.as_slice()));
        let sampler = self.sampler.iter().map(|row| ("sampler", row.as_slice()));
        probes
            .chain(sampler)
            .chain([("daemon", self.daemon.as_slice())])
    }

    /// The sum of a column, nanoseconds.
    pub(super) fn of(&self, column: usize) -> u64 {
        self.parts().filter_map(|(_, row)| row.get(column)).sum()
    }
}
