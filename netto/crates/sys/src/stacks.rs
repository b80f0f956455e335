//! Drains the double buffer of sampled stacks.
//!
//! The BPF side is `bpf/stacks.bpf.h`. User space owns the inactive slot: after a flip it waits
//! until no sampler writes to the other slot, and then owns that slot until the next flip.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::time::{Duration, Instant};

use super::abi;
use super::control::Control;
use super::mapped::MappedParts;
use netto_analysis::tagged::{FlowEnds, Met, SampleTag};

/// How long a flip waits for running samplers. They run with interrupts off for a few microseconds;
/// only a virtual CPU that is not scheduled takes longer.
pub(super) const PATIENCE: Duration = Duration::from_millis(20);

/// The double buffer.
#[derive(Debug)]
pub struct StackBuffer {
    lanes: MappedParts,
    control: Arc<Control>,
    possible_cpus: usize,
    lost: Vec<u64>,
    frames: Vec<u64>,
}

/// One sampled stack.
#[derive(Debug, Clone, Copy)]
pub struct Trace<'a> {
    /// CPU on which it was taken.
    pub cpu: usize,
    /// The kind of the per-CPU clock at that time.
    pub kind: u8,
    /// The process that ran; 0 is the idle task.
    pub process: u32,
    /// Whether the idle task was running, and the sampler could not tell what ran on top of it.
    pub is_idle_task: bool,
    /// Whether it was taken in addition, while a window was open: it stands for no time.
    pub is_of_window: bool,
    /// Whether the scheduler's tick took it.
    pub is_by_tick: bool,
    /// The owner tag, if samples have tags.
    pub tag: Option<SampleTag>,
    /// Return addresses, innermost first; empty if the kernel could not unwind.
    pub frames: &'a [u64],
}

/// Decodes a tag as `bpf/stacks.bpf.h` has it.
pub fn tag_of(words: [u64; abi::SAMPLE_TAG_WORDS]) -> SampleTag {
    let mut comm = [0; 16];
    comm[..8].copy_from_slice(&words[3].to_ne_bytes());
    comm[8..].copy_from_slice(&words[4].to_ne_bytes());
    SampleTag {
        process: (words[0] >> 32) as u32,
        thread: words[0] as u32 & !OF_KERNEL,
        is_of_kernel: words[0] as u32 & OF_KERNEL != 0 && !comm.starts_with(VHOST_THREAD),
        cgroup: words[1],
        started_ns: words[2],
        comm,
        time_ns: words[5],
        number: words[6],
        last: Met {
            cgroup: words[7],
            inode: words[8],
            from: words[9] as u32,
            to: (words[9] >> 32) as u32,
            netns: words[10],
            flow: None,
        },
    }
}

/// Begin of the name of a vhost worker. Until Linux 6.4 it is a thread of the kernel, but in the control
/// groups of the process that drives the device (`vhost_attach_cgroups`), and works for that alone.
const VHOST_THREAD: &[u8] = b"vhost-";
/// Flag beside a thread's number: whether it is a kernel thread.
const OF_KERNEL: u32 = 1 << 31;
/// Number of frames.
const FRAMES: u64 = (1 << 29) - 1;
const IS_BY_TICK: u64 = 1 << 29;
const HAS_ENDS: u64 = 1 << 30;
const IS_OF_WINDOW: u64 = 1 << 31;
const IS_IDLE_TASK: u64 = 1 << 40;
const HAS_TAG: u64 = 1 << 41;
/// The process' number is from this bit on.
const PROCESS: u32 = 42;

/// The words of a trace: header, tag, return addresses, and the words after it.
type TraceWords<'a> = (u64, Option<SampleTag>, &'a [AtomicU64], &'a [AtomicU64]);

/// Splits off the first trace of these words; `None` at their end, or if they are damaged.
fn take_trace(words: &[AtomicU64]) -> Option<TraceWords<'_>> {
    let (header, mut tail) = words.split_first()?;
    let header = header.load(Relaxed);
    let mut tag = None;
    if header & HAS_TAG != 0 {
        let (words, frames) = tail.split_first_chunk()?;
        tag = Some(tag_of(words.each_ref().map(|word| word.load(Relaxed))));
        tail = frames;
    }
    if header & HAS_ENDS != 0 {
        let (words, frames) = tail.split_first_chunk::<{ abi::ENDS_WORDS }>()?;
        if let Some(tag) = &mut tag {
            tag.last.flow = FlowEnds::from_words(words.each_ref().map(|word| word.load(Relaxed)));
        }
        tail = frames;
    }
    let depth = ((header & FRAMES) as usize).min(tail.len());
    let (frames, rest) = tail.split_at(depth);
    Some((header, tag, frames, rest))
}

/// Calls `each` with the traces of a lane in order, up to its end or the first damage. `buffer` is
/// for their return addresses.
pub fn each_trace(
    cpu: usize,
    mut words: &[AtomicU64],
    buffer: &mut Vec<u64>,
    mut each: impl FnMut(Trace<'_>),
) {
    while let Some((header, tag, frames, next)) = take_trace(words) {
        buffer.clear();
        buffer.extend(frames.iter().map(|word| word.load(Relaxed)));
        each(Trace {
            cpu,
            kind: (header >> 32) as u8,
            process: (header >> PROCESS) as u32,
            is_idle_task: header & IS_IDLE_TASK != 0,
            is_of_window: header & IS_OF_WINDOW != 0,
            is_by_tick: header & IS_BY_TICK != 0,
            tag,
            frames: buffer,
        });
        words = next;
    }
}

impl StackBuffer {
    pub(super) fn new(lanes: MappedParts, control: Arc<Control>, possible_cpus: usize) -> Self {
        StackBuffer {
            lanes,
            control,
            possible_cpus,
            lost: vec![0; 2 * possible_cpus],
            frames: Vec::with_capacity(abi::TRACE_WORDS),
        }
    }

    /// Calls `each` with every stack sampled since the previous drain, and `lost` with the number
    /// of stacks lost meanwhile, by CPU.
    pub fn drain(&mut self, mut each: impl FnMut(Trace<'_>), mut lost: impl FnMut(usize, u64)) {
        let drained = self.control.active_slot();
        // Either a sampler sees this flip, or its announcement is seen below.
        self.control.set_active_slot(drained ^ 1);
        let deadline = Instant::now() + PATIENCE;
        for cpu in 0..self.possible_cpus {
            let index = drained * self.possible_cpus + cpu;
            let lane = self.lanes.part(index);
            // A lane whose writer is stuck keeps its traces for the next drain of this slot.
            if !settled(&lane[abi::LANE_IN_FLIGHT], deadline) {
                continue;
            }
            // A lane that cannot be mapped cannot be read either.
            let used = lane[abi::LANE_USED_WORDS].load(Acquire) as usize;
            if self.lanes.reach(index, abi::LANE_WORDS + used).is_err() {
                continue;
            }
            let lane = self.lanes.part(index);
            let lost_so_far = lane[abi::LANE_LOST].load(Acquire);
            lost(cpu, lost_so_far.saturating_sub(self.lost[index]));
            self.lost[index] = lost_so_far;

            let words = &lane[abi::LANE_WORDS..];
            let words = &words[..used.min(words.len())];
            each_trace(cpu, words, &mut self.frames, &mut each);
            lane[abi::LANE_USED_WORDS].store(0, SeqCst);
        }
    }
}

/// Waits until there is no writer.
pub(super) fn settled(in_flight: &AtomicU64, deadline: Instant) -> bool {
    while in_flight.load(SeqCst) != 0 {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

#[cfg(test)]
mod tests {
    use metrics_common::sections::FlowEnd;

    use super::*;

    #[test]
    fn traces_with_and_without_a_tag_follow_each_other() {
        let kind = 7 << 32;
        let name = u64::from_ne_bytes(*b"iperf3\0\0");
        let whose = [
            4711 << 32 | 4712,
            99,
            5,
            name,
            0,
            1000,
            3,
            98,
            77,
            2 | 3 << 32,
            5,
        ];
        let mut words = vec![2 | kind, 11, 12, 1 | HAS_TAG];
        words.extend(whose);
        words.push(21);
        words.push(1 | HAS_TAG | HAS_ENDS);
        words.extend(whose);
        let address = |last| u64::from_ne_bytes([0, 0, 0xff, 0xff, 192, 0, 2, last]);
        words.extend([0, address(1), 0, address(2), 17 << 32 | 53 << 16 | 4242]);
        words.extend([22, IS_IDLE_TASK | IS_OF_WINDOW]);
        let words: Vec<AtomicU64> = words.into_iter().map(AtomicU64::new).collect();
        let mut rest = words.as_slice();
        let mut found = Vec::new();
        while let Some((header, tag, frames, next)) = take_trace(rest) {
            let frames: Vec<u64> = frames.iter().map(|frame| frame.load(Relaxed)).collect();
            found.push((header >> 32 & 0xff, tag, frames));
            rest = next;
        }
        let tag = SampleTag {
            process: 4711,
            thread: 4712,
            is_of_kernel: false,
            cgroup: 99,
            started_ns: 5,
            comm: *b"iperf3\0\0\0\0\0\0\0\0\0\0",
            time_ns: 1000,
            number: 3,
            last: Met {
                cgroup: 98,
                inode: 77,
                from: 2,
                to: 3,
                netns: 5,
                flow: None,
            },
        };
        let mut of_a_flow = tag;
        let end = |last, port| FlowEnd {
            address: [192, 0, 2, last].into(),
            port: Some(port),
        };
        of_a_flow.last.flow = Some(FlowEnds::new(17, [end(1, 4242), end(2, 53)]));
        let expected = [
            (7, None, vec![11, 12]),
            (0, Some(tag), vec![21]),
            (0, Some(of_a_flow), vec![22]),
            (0, None, vec![]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn what_was_cut_is_read_to_its_end_and_no_further() {
        for words in [&[5, 1, 2][..], &[1 | HAS_TAG, 3], &[HAS_TAG]] {
            let words: Vec<AtomicU64> = words.iter().copied().map(AtomicU64::new).collect();
            match take_trace(&words) {
                Some((_, _, frames, rest)) => assert!(frames.len() == 2 && rest.is_empty()),
                None => assert!(words.len() < 3),
            }
        }
    }
}
