//! Settings of the running BPF programs: the record `control` of `build/abi.rs`, mapped.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::abi;
use super::mapped::MappedArray;

/// Words that only this process writes, and the BPF programs read.
#[derive(Debug)]
pub struct Control {
    record: MappedArray,
}

impl Control {
    pub(super) fn new(record: MappedArray) -> Self {
        Control { record }
    }

    /// Sets whether the clock times softirqs. If it does, the sampler takes no stacks of the idle
    /// task. To be called after the softirq probes were attached, and before they are detached.
    pub fn set_softirqs_timed(&self, timed: bool) {
        self.record.element(0)[abi::CONTROL_SOFTIRQS_TIMED].store(u64::from(timed), SeqCst);
    }

    /// Invalidates every saved task state: a task that returns is then taken to be outside of
    /// socket calls. To be called when ends of calls were or will be missed.
    pub fn begin_epoch(&self) {
        self.record.element(0)[abi::CONTROL_EPOCH].fetch_add(1, SeqCst);
    }

    /// Makes programs keep the longest softirqs in another set; returns the one before.
    pub(super) fn change_long_set(&self) -> usize {
        self.record.element(0)[abi::CONTROL_LONG_SET].fetch_xor(1, SeqCst) as usize & 1
    }

    /// Over how many RX softirqs the rate of a load that begins is measured.
    pub(super) fn alarm_softirqs(&self) -> u64 {
        self.record.element(0)[abi::CONTROL_ALARM_SOFTIRQS].load(Relaxed)
    }

    /// Sets it.
    pub(super) fn set_alarm_softirqs(&self, softirqs: u64) {
        self.record.element(0)[abi::CONTROL_ALARM_SOFTIRQS].store(softirqs, Relaxed);
    }

    /// The slot that samplers write to.
    pub(super) fn active_slot(&self) -> usize {
        // Only this process writes it.
        self.record.element(0)[abi::CONTROL_ACTIVE_SLOT].load(Relaxed) as usize & 1
    }

    /// Makes samplers write to another slot. Sequential consistency pairs with their announcement:
    /// either they see this, or a later check sees their announcement.
    pub(super) fn set_active_slot(&self, slot: usize) {
        self.record.element(0)[abi::CONTROL_ACTIVE_SLOT].store(slot as u64, SeqCst);
    }
}
