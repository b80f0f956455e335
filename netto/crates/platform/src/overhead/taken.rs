//! What netto took from each CPU in an interval: values only.

use metrics_common::CostliestCpu;

use netto_analysis::groups::GROUPS;

/// An instrument that counts with probes of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// Dropped packets.
    Drops,
    /// Messages of sockets and polls.
    Traffic,
    /// Latencies of packets.
    Latency,
}

/// How many there are.
pub const COUNTERS: usize = 3;

/// What netto took from each CPU in an interval, by column, nanoseconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Taken {
    /// Probes, by group; `None` where there are none.
    pub groups: [Option<Vec<u64>>; GROUPS],
    /// Probes at interrupts.
    pub interrupts: Option<Vec<u64>>,
    /// Samples.
    pub sampler: Option<Vec<u64>>,
    /// The daemon's process.
    pub daemon: Vec<u64>,
    /// Probes of instruments that have their own, by [`Counter`]; `None` where it has none.
    pub counters: [Option<Vec<u64>>; COUNTERS],
    /// All of that, in user mode and in the kernel.
    pub process: (u64, u64),
    /// Samples a second from now on.
    pub sampling_hz: Option<Vec<u64>>,
    /// Who paid most, of late.
    pub costliest: Option<CostliestCpu>,
}

impl Taken {
    /// All of a column, nanoseconds.
    pub(super) fn of(&self, column: usize) -> u64 {
        let rows = self.groups.iter().chain([&self.interrupts, &self.sampler]);
        let rows = rows.chain(&self.counters).flatten();
        let of_column = rows.filter_map(|row| row.get(column));
        of_column.sum::<u64>() + self.daemon[column]
    }
}
