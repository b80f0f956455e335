//! The records of each CPU that programs of several objects write: the clock's, followed by that of
//! samples' tags and by that of the longest softirqs. Their BPF side is `bpf/clock.bpf.h`,
//! `bpf/owner_tag.bpf.h` and `bpf/long_softirqs.bpf.h`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::Context;
use libbpf_rs::OpenMapMut;

use super::abi;
use super::mapped::MappedArray;

const BYTES: usize = abi::CPU_BYTES + abi::TAG_BYTES + abi::LONG_BYTES;

/// See the head of this file.
#[derive(Debug)]
pub struct CpuRecords {
    map: OwnedFd,
    records: MappedArray,
    possible_cpus: usize,
    tell_ends: bool,
}

/// Sizes the records of an unloaded object for this many CPUs.
pub(super) fn make_room(map: &mut OpenMapMut<'_>, possible_cpus: usize) -> anyhow::Result<()> {
    map.set_value_size((BYTES * possible_cpus) as u32)
        .context("cannot make room for the records of all CPUs")
}

impl CpuRecords {
    pub(super) fn new(
        map: BorrowedFd<'_>,
        possible_cpus: usize,
        tell_ends: bool,
    ) -> anyhow::Result<CpuRecords> {
        Ok(CpuRecords {
            map: map
                .try_clone_to_owned()
                .context("cannot duplicate a descriptor")?,
            records: MappedArray::new(map, BYTES, possible_cpus)?,
            possible_cpus,
            tell_ends,
        })
    }

    /// Most CPUs of the kernel: the programs' `netto_possible_cpus`.
    pub fn possible_cpus(&self) -> usize {
        self.possible_cpus
    }

    /// Whether samples are to say of which flow they are: the programs' `netto_tells_ends`.
    pub fn tell_ends(&self) -> bool {
        self.tell_ends
    }

    /// Makes these records the `.data.cpus` of an unloaded object.
    ///
    /// # Errors
    /// libbpf's.
    pub fn share_with(&self, map: &mut OpenMapMut<'_>) -> anyhow::Result<()> {
        make_room(map, self.possible_cpus)?;
        map.reuse_fd(self.map.as_fd())
            .context("cannot share the records of all CPUs")
    }

    /// The clock's record of a CPU; empty for an unknown CPU.
    pub(super) fn clock(&self, cpu: usize) -> &[AtomicU64] {
        let words = self.records.element(cpu);
        &words[..words.len().min(abi::CPU_BYTES / 8)]
    }

    /// The record of a CPU's longest softirqs; empty for an unknown CPU.
    pub(super) fn longest(&self, cpu: usize) -> &[AtomicU64] {
        let words = self.records.element(cpu);
        words
            .get((abi::CPU_BYTES + abi::TAG_BYTES) / 8..)
            .unwrap_or_default()
    }

    /// Sets for how much time of RX softirqs programs tell of one packet on a CPU.
    pub fn set_step_ns(&self, cpu: usize, step_ns: u64) {
        let word = self.records.element(cpu);
        if let Some(word) = word.get(abi::CPU_BYTES / 8 + abi::TAG_STEP_NS) {
            word.store(step_ns, Relaxed);
        }
    }

    /// Runs on a CPU of the programs that meet sockets and packets for tagging samples.
    pub fn tag_runs(&self, cpu: usize) -> u64 {
        let words = self.records.element(cpu);
        let runs = [abi::TAG_SOFTIRQ_RUNS, abi::TAG_TASK_RUNS];
        let runs = runs.map(|at| words.get(abi::CPU_BYTES / 8 + at));
        let runs = runs.into_iter().flatten();
        runs.map(|word| word.load(Relaxed)).sum()
    }
}
