//! The probe at raised softirqs (`ticks.bpf.c`), and what it has counted.

use std::sync::atomic::Ordering::Relaxed;

use anyhow::Context;
use libbpf_rs::skel::OpenSkel;
use metrics_common::latency::{Histogram, bucket_of};
use metrics_common::sections::ticks::Gaps;
use netto_sys::mapped::MappedArray;
use netto_sys::session::Probe;
use netto_sys::skeleton;

use crate::abi;
use crate::ticks_skel::{TicksSkel, TicksSkelBuilder};

/// Vectors by their number in the program.
pub(crate) const VECTORS: [&str; abi::TICKS_VECTORS] = ["net_rx", "net_tx", "other"];

/// The program, loaded, and what was read of its counts.
pub(crate) struct Counts {
    records: MappedArray,
    /// The words of each CPU's record as they were last read.
    before: Vec<Vec<u64>>,
    _skel: TicksSkel<'static>,
}

/// What came in an interval.
pub(crate) struct Grown {
    /// Softirqs by CPU.
    pub raised: Vec<u64>,
    /// The words of all records together.
    words: Vec<u64>,
}

impl Counts {
    /// Loads the program and attaches it.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn start(possible_cpus: usize) -> anyhow::Result<(Self, Probe)> {
        let mut open = skeleton::open::<TicksSkelBuilder>()?;
        let records = &mut open.maps.netto_raised;
        records.set_max_entries(possible_cpus as u32)?;
        let skel = open.load().context("the kernel refuses the probe")?;
        let records = MappedArray::new(&skel.maps.netto_raised, abi::TICKS_BYTES, possible_cpus)?;
        let mut probe = Probe::new(&skel.progs.netto_raise, None)?;
        probe.attach()?;
        let counts = Counts {
            records,
            before: vec![vec![0; abi::TICKS_BYTES / 8]; possible_cpus],
            _skel: skel,
        };
        Ok((counts, probe))
    }

    /// What these CPUs have counted since this was asked the last time.
    pub(crate) fn since_the_last(&mut self, cpus: &[u32]) -> Grown {
        let mut grown = Grown {
            raised: Vec::with_capacity(cpus.len()),
            words: vec![0; abi::TICKS_BYTES / 8],
        };
        for &cpu in cpus {
            let mut raised = 0;
            let now = self.records.element(cpu as usize);
            let before = self.before.get_mut(cpu as usize).into_iter().flatten();
            for (at, (now, before)) in now.iter().zip(before).enumerate() {
                let now = now.load(Relaxed);
                let more = now.wrapping_sub(std::mem::replace(before, now));
                grown.words[at] = grown.words[at].wrapping_add(more);
                if at == abi::TICKS_RAISED {
                    raised = more;
                }
            }
            grown.raised.push(raised);
        }
        grown
    }
}

impl Grown {
    /// The times between softirqs; of a power of two, all count as its least.
    pub(crate) fn gaps(&self) -> Vec<Gaps> {
        let gaps = |(number, vector): (usize, &&str)| {
            let sum_ns = self.words[abi::TICKS_SUM_NS + number];
            let mut histogram = Histogram::of(&[], sum_ns);
            let from = abi::TICKS_GAPS + number * abi::TICKS_POWERS;
            for (power, count) in self.words[from..from + abi::TICKS_POWERS]
                .iter()
                .enumerate()
            {
                if let Some(bucket) = bucket_of(1 << power) {
                    histogram.add(bucket, *count);
                }
            }
            Gaps {
                vector: (*vector).to_owned(),
                histogram,
            }
        };
        VECTORS.iter().enumerate().map(gaps).collect()
    }
}
