//! Reads the per-CPU clock: the time by kind of each CPU since counting began.
//!
//! The BPF side is `bpf/clock.bpf.h`. It never waits for readers, so a reading may overlap a
//! charge. Then its totals do not sum to its own timestamp, or its kind changes, and it is
//! repeated.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use metrics_common::Source;
use metrics_common::component::{CLOCK_KINDS, SOFTIRQ_VECTORS};

use super::abi;
use super::cpu_records::CpuRecords;

mod leftovers;

/// Readings tried before the last one is accepted on a CPU that is charging all the time.
const ATTEMPTS: usize = 64;

/// The clocks of all possible CPUs.
#[derive(Debug)]
pub struct CpuClocks {
    records: Arc<CpuRecords>,
}

/// One CPU's clock at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// Nanoseconds by clock kind, including the current kind's time until now.
    pub total_ns: [u64; CLOCK_KINDS],
    /// Number of entries of each kind.
    pub entries: [u64; CLOCK_KINDS],
    /// RX softirq time in ksoftirqd, nanoseconds.
    pub ksoftirqd_rx_ns: u64,
    /// Observed context switches.
    pub switches: u64,
    /// The clock kind of the running task; 0 if it does nothing that is timed.
    pub task_kind: u8,
    /// The clock kind of the softirq on top of it; 0 if none.
    pub softirq_kind: u8,
    /// Samples of the idle CPU.
    pub idle_samples: u64,
    /// Task states that could not be saved over a context switch.
    pub states_lost: u64,
    /// Socket calls whose return was not probed, because all kretprobe instances were in use.
    pub unseen_returns: u64,
}

impl Reading {
    /// Time of networking, nanoseconds.
    pub fn network_ns(&self) -> u64 {
        let time_of = |source: Source| self.total_ns[usize::from(source.clock_kind())];
        let sources = Source::ALL.into_iter();
        let network = sources.filter(|source| match source {
            Source::Softirq(_) => [Source::NET_RX, Source::NET_TX].contains(source),
            _ => true,
        });
        network.map(time_of).sum()
    }
}

impl CpuClocks {
    pub(super) fn new(records: Arc<CpuRecords>) -> Self {
        CpuClocks { records }
    }

    /// Starts every clock now. To be called before the probes are attached. `ksoftirqd` has the
    /// thread number of each CPU's ksoftirqd; 0 if unknown.
    pub(super) fn start(&self, ksoftirqd: &[u32]) {
        let now = super::system::monotonic_ns();
        for (cpu, pid) in ksoftirqd.iter().enumerate() {
            let record = self.records.clock(cpu);
            // Only the idle task has thread number 0, and it is not ksoftirqd.
            let pid = if *pid == 0 { u64::MAX } else { u64::from(*pid) };
            record[abi::CPU_KSOFTIRQD_PID].store(pid, Relaxed);
            record[abi::CPU_START_NS].store(now, Relaxed);
            // None is longer: see `long_softirqs.rs`.
            record[abi::CPU_LONG_ABOVE_NS].store(u64::MAX, Relaxed);
            record[abi::CPU_SINCE_NS].store(now, Release);
        }
    }

    /// Softirqs that were timed on all CPUs.
    pub fn softirqs(&self) -> u64 {
        let cpus = (0..self.records.possible_cpus()).map(|cpu| self.records.clock(cpu));
        let counts = cpus.flat_map(|record| {
            let kinds = (1..=usize::from(SOFTIRQ_VECTORS)).map(|kind| abi::CPU_ENTRIES + kind);
            kinds.filter_map(|word| record.get(word))
        });
        counts.fold(0, |sum, count| sum.wrapping_add(count.load(Relaxed)))
    }

    /// Reads the clock of one CPU; `None` for an unknown CPU.
    pub fn read(&self, cpu: usize) -> Option<Reading> {
        let record = self.records.clock(cpu);
        if record.is_empty() {
            return None;
        }
        let read = || {
            let load = |word: usize| record[word].load(Acquire);
            read_once(load, super::system::monotonic_ns)
        };
        let mut reading = read();
        for _ in 1..ATTEMPTS {
            if reading.1 {
                break;
            }
            std::hint::spin_loop();
            reading = read();
        }
        Some(reading.0)
    }
}

/// One reading, and whether it was consistent.
///
/// The writer stores `since`, then the kind, then totals. Totals that sum to an unchanged `since`
/// are therefore consistent. The kind may have been read before its store and the totals after
/// theirs, so it is read again.
fn read_once(mut load: impl FnMut(usize) -> u64, now_ns: impl FnOnce() -> u64) -> (Reading, bool) {
    let since = load(abi::CPU_SINCE_NS);
    let kind = load(abi::CPU_KIND);
    let mut total_ns: [u64; CLOCK_KINDS] =
        std::array::from_fn(|kind| load(abi::CPU_TOTAL_NS + kind));
    let now = now_ns();
    // In this order: if a later transition restored the kind, `since` is later, too.
    let unchanged = load(abi::CPU_KIND) == kind && load(abi::CPU_SINCE_NS) == since;

    let counted = since.saturating_sub(load(abi::CPU_START_NS));
    let consistent = unchanged && total_ns.iter().sum::<u64>() == counted;
    if let Some(total) = total_ns.get_mut(kind as usize) {
        *total += now.saturating_sub(since);
    }
    (
        Reading {
            total_ns,
            entries: std::array::from_fn(|kind| load(abi::CPU_ENTRIES + kind)),
            ksoftirqd_rx_ns: load(abi::CPU_KSOFTIRQD_RX_NS),
            switches: load(abi::CPU_SWITCHES),
            // As in bpf/clock.bpf.h: the state's low byte is the task's kind.
            task_kind: load(abi::CPU_STATE) as u8,
            softirq_kind: if is_softirq(kind) { kind as u8 } else { 0 },
            idle_samples: load(abi::CPU_IDLE_SAMPLES),
            states_lost: load(abi::CPU_STATES_LOST),
            unseen_returns: load(abi::CPU_UNSEEN_RETURNS),
        },
        consistent,
    )
}

/// Softirqs have the kinds after 0.
fn is_softirq(kind: u64) -> bool {
    (1..=u64::from(SOFTIRQ_VECTORS)).contains(&kind)
}

#[cfg(test)]
mod tests;
