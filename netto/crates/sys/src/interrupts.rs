//! Tells the interrupt probes which interrupts belong to network devices.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

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
    /// The kernel refuses to write the map, or the place of an interrupt is another's.
    pub fn follow(&mut self, roots: &Roots, now_ns: u64) -> libbpf_rs::Result<()> {
        if now_ns < self.from_ns {
            return Ok(());
        }
        self.from_ns = now_ns + PAUSE_NS;
        let now = roots.nic_interrupts();
        let known = std::mem::take(&mut self.known);
        for interrupt in known.difference(&now) {
            self.write(*interrupt, 0)?;
        }
        self.known = known.intersection(&now).copied().collect();
        let places = self.map.max_entries();
        let taken = self.known.iter().map(|known| (known % places, *known));
        let mut taken: BTreeMap<u32, u32> = taken.collect();
        let mut refused = Ok(());
        for interrupt in now.difference(&known) {
            let other = *taken.entry(interrupt % places).or_insert(*interrupt);
            if other != *interrupt {
                // All others are still told.
                let both = format!("interrupts {interrupt} and {other} have one place");
                refused = Err(io::Error::other(both).into());
                continue;
            }
            self.write(*interrupt, u64::from(*interrupt) + 1)?;
            self.known.insert(*interrupt);
        }
        refused
    }

    /// Writes what the place of an interrupt holds.
    fn write(&self, interrupt: u32, value: u64) -> libbpf_rs::Result<()> {
        let place = interrupt % self.map.max_entries();
        let (key, value) = (place.to_ne_bytes(), value.to_ne_bytes());
        self.map.update(&key, &value, MapFlags::ANY)
    }
}
