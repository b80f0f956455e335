//! What the kernel allocates and frees while programs are at work.

use std::ops::Range;

use anyhow::Context;
use libbpf_rs::skel::{OpenSkel, Skel};

use allocations_skel::{AllocationsSkel, AllocationsSkelBuilder};

netto_sys::skeleton!(allocations_skel, "/allocations.skel.rs");

/// The attached programs; dropping detaches them.
pub struct Allocations {
    skel: AllocationsSkel<'static>,
}

/// The program that allocates by itself, as the kernel keeps its name.
pub const ALLOCATES: &str = "allocates";

impl Allocations {
    /// Attaches the programs.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn attach() -> anyhow::Result<Allocations> {
        let open = netto_sys::skeleton::open::<AllocationsSkelBuilder>()?;
        let mut skel = open.load().context("the kernel refuses the programs")?;
        skel.attach().context("the programs cannot be attached")?;
        Ok(Allocations { skel })
    }

    /// Counts below code at these addresses, four ranges at the most, and lets the program that
    /// allocates do so for tasks of a process that are switched away.
    pub fn watch(&mut self, code: &[Range<u64>], allocating_process: u32) {
        let data = self.skel.maps.bss_data.as_deref_mut();
        let Some(data) = data else { return };
        for (place, range) in data.ranges.iter_mut().zip(code) {
            *place = [range.start, range.end];
        }
        data.allocating_process = allocating_process.into();
    }

    /// How often something was allocated or freed in all, and below each of the ranges.
    pub fn counted(&self) -> (u64, [u64; 4]) {
        let data = self.skel.maps.bss_data.as_deref();
        data.map_or((0, [0; 4]), |data| (data.seen, data.below))
    }
}
