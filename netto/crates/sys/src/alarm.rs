//! Is woken when a load begins, before its interval ends. The BPF side is `bpf/alarm.bpf.h`.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::Context;
use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};
use metrics_common::Source;

use super::abi;
use super::control::Control;
use super::cpu_records::CpuRecords;

/// The alarms of all CPUs; none is set until [`LoadAlarm::arm`].
#[derive(Debug)]
pub struct LoadAlarm {
    records: Arc<CpuRecords>,
    control: Arc<Control>,
    ring: RingBuffer<'static>,
}

impl LoadAlarm {
    pub(super) fn new(
        map: &impl MapCore,
        records: Arc<CpuRecords>,
        control: Arc<Control>,
    ) -> anyhow::Result<Self> {
        let mut builder = RingBufferBuilder::new();
        builder.add(map, |_: &[u8]| 0)?;
        let ring = builder
            .build()
            .context("cannot be woken when a load begins")?;
        Ok(LoadAlarm {
            records,
            control,
            ring,
        })
    }

    /// A descriptor that becomes readable with each alarm.
    ///
    /// # Errors
    /// If the process has no room for another descriptor.
    pub fn descriptor(&self) -> anyhow::Result<OwnedFd> {
        // SAFETY: libbpf keeps the descriptor open as long as the ring, which is borrowed meanwhile.
        let ring = unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) };
        ring.try_clone_to_owned()
            .context("cannot duplicate a descriptor")
    }

    /// Sets the alarm of a CPU: to so many RX softirqs from now on, and so many more over which their rate
    /// is measured; `None`: to none.
    pub fn arm(&self, cpu: usize, softirqs: Option<[u64; 2]>) {
        let record = self.records.clock(cpu);
        if record.is_empty() {
            return;
        }
        let now = record[abi::CPU_ENTRIES + usize::from(Source::NET_RX.clock_kind())].load(Relaxed);
        let at = softirqs.map_or(u64::MAX, |[quiet, measured]| {
            self.control.set_alarm_softirqs(measured);
            now + quiet.max(1)
        });
        record[abi::CPU_ALARM_FROM_NS].store(0, Relaxed);
        record[abi::CPU_ALARM_NS].store(0, Relaxed);
        record[abi::CPU_ALARM_AT].store(at, Relaxed);
    }

    /// The measured rate of RX softirqs of a CPU whose alarm has gone off, softirqs per second.
    pub fn softirqs_hz(&self, cpu: usize) -> Option<f64> {
        let ns = self
            .records
            .clock(cpu)
            .get(abi::CPU_ALARM_NS)?
            .load(Relaxed);
        (ns > 0).then(|| self.control.alarm_softirqs() as f64 * 1e9 / ns as f64)
    }

    /// Takes the wake-ups, so that the descriptor becomes readable with the next only.
    pub fn take(&self) {
        // It fails if a consumer does, and there is none.
        let _ = self.ring.consume();
    }
}
