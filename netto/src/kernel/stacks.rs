//! Drains the double buffer of sampled stacks.
//!
//! The BPF side is `bpf/stacks.bpf.h`. User space owns the inactive slot: after
//! a flip it waits until no sampler is at work in the other slot any more, and
//! then nobody else touches that slot until the next flip.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::time::{Duration, Instant};

use super::abi;
use super::mapped::MappedArray;

/// How long a flip waits for samplers in flight. They run with interrupts off
/// for a few microseconds; only a virtual CPU that is not running takes longer.
const PATIENCE: Duration = Duration::from_millis(20);

/// The double buffer.
#[derive(Debug)]
pub struct StackBuffer {
    lanes: MappedArray,
    control: MappedArray,
    possible_cpus: usize,
    active: u64,
    lost: Vec<u64>,
    frames: Vec<u64>,
}

/// One sampled stack.
#[derive(Debug, Clone, Copy)]
pub struct Trace<'a> {
    /// CPU on which it was taken.
    pub cpu: usize,
    /// What the per-CPU clock said the CPU was doing.
    pub kind: u8,
    /// Whether the idle task was running, and the sampler could not tell what was on top of it.
    pub is_idle_task: bool,
    /// Return addresses, innermost first; empty if the kernel could not unwind.
    pub frames: &'a [u64],
}

impl StackBuffer {
    pub(super) fn new(lanes: MappedArray, control: MappedArray, possible_cpus: usize) -> Self {
        StackBuffer {
            lanes,
            control,
            possible_cpus,
            active: 0,
            lost: vec![0; 2 * possible_cpus],
            frames: Vec::with_capacity(abi::TRACE_WORDS),
        }
    }

    /// Hands every stack sampled since the previous drain to `each`, and the
    /// number of stacks lost meanwhile to `lost`, by CPU.
    pub fn drain(&mut self, mut each: impl FnMut(Trace<'_>), mut lost: impl FnMut(usize, u64)) {
        let drained = self.active as usize;
        self.active ^= 1;
        // Sequential consistency pairs with the sampler's announcement: either
        // it sees this flip, or its announcement is seen below.
        self.control.element(0)[0].store(self.active, SeqCst);
        let deadline = Instant::now() + PATIENCE;
        for cpu in 0..self.possible_cpus {
            let index = drained * self.possible_cpus + cpu;
            let lane = self.lanes.element(index);
            // A lane whose writer is stuck keeps its traces for the next drain of this slot.
            if !settled(&lane[abi::LANE_IN_FLIGHT], deadline) {
                continue;
            }
            let lost_so_far = lane[abi::LANE_LOST].load(Acquire);
            lost(cpu, lost_so_far.saturating_sub(self.lost[index]));
            self.lost[index] = lost_so_far;

            let words = &lane[abi::LANE_WORDS..];
            let used = (lane[abi::LANE_USED_WORDS].load(Acquire) as usize).min(words.len());
            let mut rest = &words[..used];
            while let Some((header, tail)) = rest.split_first() {
                let header = header.load(Relaxed);
                let depth = (header as u32 as usize).min(tail.len());
                let (frames, next) = tail.split_at(depth);
                self.frames.clear();
                self.frames
                    .extend(frames.iter().map(|word| word.load(Relaxed)));
                each(Trace {
                    cpu,
                    kind: (header >> 32) as u8,
                    is_idle_task: header >> 40 & 1 != 0,
                    frames: &self.frames,
                });
                rest = next;
            }
            lane[abi::LANE_USED_WORDS].store(0, SeqCst);
        }
    }
}

/// Waits until a lane has no writer.
fn settled(in_flight: &AtomicU64, deadline: Instant) -> bool {
    while in_flight.load(SeqCst) != 0 {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::yield_now();
    }
    true
}
