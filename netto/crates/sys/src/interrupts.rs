//! Tells the interrupt probes which interrupts belong to network devices.

use std::collections::BTreeSet;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::system::Roots;

/// Least time between two searches for devices, nanoseconds.
const PAUSE_NS: u64 = 10_000_000_000;

/// The map of timed interrupts.
#[derive(Debug)]
pub struct NicInterrupts {
    map: MapHandle,
    known: BTreeSet<u32>,
    from_ns: u64,
}

impl NicInterrupts {
    pub(super) fn new(map: MapHandle) -> Self {
        NicInterrupts {
            map,
            known: BTreeSet::new(),
            from_ns: 0,
        }
    }

    /// Updates the map from the current devices: devices come and go, and some request interrupts
    /// only when brought up. Searches only if ten seconds have passed since the last time, by
    /// CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// The kernel refuses to write the map: it has no room for more interrupts.
    pub fn follow(&mut self, roots: &Roots, now_ns: u64) -> libbpf_rs::Result<()> {
        if now_ns < self.from_ns {
            return Ok(());
        }
        self.from_ns = now_ns + PAUSE_NS;
        let now = roots.nic_interrupts();
        let known = std::mem::take(&mut self.known);
        for interrupt in known.difference(&now) {
            self.map.delete(&interrupt.to_ne_bytes())?;
        }
        self.known = known.intersection(&now).copied().collect();
        for interrupt in now.difference(&known) {
            let interrupt_key = interrupt.to_ne_bytes();
            self.map.update(&interrupt_key, &[1], MapFlags::ANY)?;
            self.known.insert(*interrupt);
        }
        Ok(())
    }
}
