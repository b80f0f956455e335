//! Takes the longest softirqs of each CPU in an interval. The BPF side is `bpf/long_softirqs.bpf.h`.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Instant;

use metrics_common::component::SOFTIRQ_VECTORS;

use super::abi;
use super::control::Control;
use super::cpu_records::CpuRecords;
use super::stacks::{PATIENCE, settled, tag_of};
use netto_analysis::long_softirqs::LongSoftirq;

/// Most that are kept of a CPU in an interval.
pub const MOST: usize = abi::LONG_SOFTIRQS;
/// Words of a set.
const SET_WORDS: usize = MOST * abi::LONG_SOFTIRQ_WORDS;

/// The kept softirqs of all CPUs; none until [`LongSoftirqs::keep_above`].
#[derive(Debug)]
pub struct LongSoftirqs {
    records: Arc<CpuRecords>,
    control: Arc<Control>,
    above_ns: Option<u64>,
}

impl LongSoftirqs {
    /// Keeps none yet.
    pub(super) fn new(records: Arc<CpuRecords>, control: Arc<Control>) -> Self {
        LongSoftirqs {
            records,
            control,
            above_ns: None,
        }
    }

    /// Begins to keep the longest of those that take longer than this.
    pub fn keep_above(&mut self, above_ns: u64) {
        self.above_ns = Some(above_ns);
        self.begin_set(above_ns);
    }

    /// Begins another set on every CPU; returns the one before.
    fn begin_set(&self, above_ns: u64) -> usize {
        let ended = self.control.change_long_set();
        // Another number for each set: a program that compares and exchanges it for the set before
        // must not take the new one for the old one.
        let above_ns = above_ns + ended as u64;
        for cpu in 0..self.records.possible_cpus() {
            if let Some(word) = self.records.clock(cpu).get(abi::CPU_LONG_ABOVE_NS) {
                word.store(above_ns, SeqCst);
            }
        }
        ended
    }

    /// Calls `each` with those that have ended since the last call: of each CPU as many as there is
    /// room for, the longest.
    pub fn take(&self, mut each: impl FnMut(LongSoftirq)) {
        let Some(above_ns) = self.above_ns else {
            return;
        };
        let set = self.begin_set(above_ns);
        let deadline = Instant::now() + PATIENCE;
        for cpu in 0..self.records.possible_cpus() {
            let record = self.records.longest(cpu);
            let Some(writing) = record.get(abi::LONG_WRITING) else {
                continue;
            };
            // One whose program is stuck keeps its set until this is the set before again.
            if settled(writing, deadline) {
                take_set(&record[abi::LONG_KEPT + set * SET_WORDS..], cpu, &mut each);
            }
        }
    }
}

/// Takes a set, which is empty afterwards.
fn take_set(words: &[AtomicU64], cpu: usize, each: &mut impl FnMut(LongSoftirq)) {
    let (places, _) = words.as_chunks::<{ abi::LONG_SOFTIRQ_WORDS }>();
    for place in places.iter().take(MOST) {
        let [length, kind, tag @ ..] = place;
        let length_ns = length.swap(0, Relaxed);
        // Softirqs have the kinds after 0.
        let Some(vector) = (kind.load(Relaxed) as u8).checked_sub(1) else {
            continue;
        };
        if length_ns == 0 || vector >= SOFTIRQ_VECTORS {
            continue;
        }
        each(LongSoftirq {
            cpu,
            vector,
            length_ns,
            tag: tag_of(tag.each_ref().map(|word| word.load(Relaxed))),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_read_once_and_without_its_empty_places() {
        let mut words = vec![0_u64; SET_WORDS + 5];
        for (place, length) in [(0, 7), (3, 9)] {
            let at = place * abi::LONG_SOFTIRQ_WORDS;
            words[at] = length;
            words[at + 1] = 4;
            words[at + 2] = 11 << 32 | 12;
            words[at + 3] = 99;
            words[at + 2 + 5] = 1_000;
            words[at + 2 + 7] = 77;
        }
        let words: Vec<AtomicU64> = words.into_iter().map(AtomicU64::new).collect();
        let mut found = Vec::new();
        take_set(&words, 5, &mut |softirq| found.push(softirq));
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].length_ns, found[1].length_ns), (7, 9));
        let LongSoftirq {
            cpu, vector, tag, ..
        } = found[1];
        assert_eq!((cpu, vector), (5, 3));
        assert_eq!((tag.process, tag.thread, tag.cgroup), (11, 12, 99));
        assert_eq!((tag.time_ns, tag.last.cgroup, tag.number), (1_000, 77, 0));
        take_set(&words, 5, &mut |softirq| {
            panic!("{softirq:?} is read again")
        });
    }
}
