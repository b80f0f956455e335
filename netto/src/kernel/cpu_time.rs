//! Reads the per-CPU clock: what each CPU has done since counting began.
//!
//! The BPF side is `bpf/clock.bpf.h`. It never waits for readers, so a reading
//! may fall into the middle of a charge; its totals then do not sum to its own
//! timestamp, and it is taken again.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use metrics_common::component::CLOCK_KINDS;

use super::abi;
use super::mapped::MappedArray;

/// Readings to try before a CPU that is charging all the time is taken as it is.
const ATTEMPTS: usize = 64;

/// The clocks of all possible CPUs.
#[derive(Debug)]
pub struct CpuClocks {
    records: MappedArray,
}

/// One CPU's clock at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// Nanoseconds by clock kind, the current kind's time until now included.
    pub total_ns: [u64; CLOCK_KINDS],
    /// How often each kind was entered.
    pub entries: [u64; CLOCK_KINDS],
    /// RX softirq time that ran in ksoftirqd, nanoseconds.
    pub ksoftirqd_rx_ns: u64,
    /// Samples that found the CPU idle.
    pub idle_samples: u64,
}

impl CpuClocks {
    pub(super) fn new(records: MappedArray) -> Self {
        CpuClocks { records }
    }

    /// Starts every clock now. To be called before the probes are attached.
    /// `ksoftirqd` names the thread of each CPU's ksoftirqd; 0 if unknown.
    pub(super) fn start(&self, ksoftirqd: &[u32]) {
        let now = super::system::monotonic_ns();
        for (cpu, pid) in ksoftirqd.iter().enumerate() {
            let record = self.records.element(cpu);
            // No thread has the number 0 but the idle task, which is not ksoftirqd.
            let pid = if *pid == 0 { u64::MAX } else { u64::from(*pid) };
            record[abi::CPU_KSOFTIRQD_PID].store(pid, Relaxed);
            record[abi::CPU_START_NS].store(now, Relaxed);
            record[abi::CPU_SINCE_NS].store(now, Release);
        }
    }

    /// Reads the clock of one CPU; `None` if the kernel has no such CPU.
    pub fn read(&self, cpu: usize) -> Option<Reading> {
        let record = self.records.element(cpu);
        if record.is_empty() {
            return None;
        }
        let mut reading = read_once(record);
        for _ in 1..ATTEMPTS {
            if reading.1 {
                break;
            }
            std::hint::spin_loop();
            reading = read_once(record);
        }
        Some(reading.0)
    }
}

/// One reading, and whether it was consistent.
fn read_once(record: &[std::sync::atomic::AtomicU64]) -> (Reading, bool) {
    let since = record[abi::CPU_SINCE_NS].load(Acquire);
    let state = record[abi::CPU_STATE].load(Acquire);
    let mut total_ns: [u64; CLOCK_KINDS] =
        std::array::from_fn(|kind| record[abi::CPU_TOTAL_NS + kind].load(Acquire));
    let entries = std::array::from_fn(|kind| record[abi::CPU_ENTRIES + kind].load(Acquire));
    let now = super::system::monotonic_ns();
    let unchanged = record[abi::CPU_SINCE_NS].load(Acquire) == since;

    let counted = since.saturating_sub(record[abi::CPU_START_NS].load(Relaxed));
    let consistent = unchanged && total_ns.iter().sum::<u64>() == counted;
    // As in bpf/clock.bpf.h: a softirq is on top of what the task does.
    let softirq = (state >> 16) & 0xff;
    let kind = if softirq == 0 { state & 0xff } else { softirq };
    if let Some(total) = total_ns.get_mut(kind as usize) {
        *total += now.saturating_sub(since);
    }
    (
        Reading {
            total_ns,
            entries,
            ksoftirqd_rx_ns: record[abi::CPU_KSOFTIRQD_RX_NS].load(Relaxed),
            idle_samples: record[abi::CPU_IDLE_SAMPLES].load(Relaxed),
        },
        consistent,
    )
}
