//! The sources of figures: probes (`health.bpf.c`), files of the kernel that are kept open, and what
//! is read on threads of their own.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::Context;
use libbpf_rs::skel::OpenSkel;
use netto_sys::btf;
use netto_sys::mapped::MappedArray;
use netto_sys::session::Probe;
use netto_sys::skeleton;

use crate::abi;
use crate::analysis::devices::{Number, Timings};
use crate::analysis::groups::Reads;
use crate::analysis::places::Places;
use crate::health_skel::{HealthSkel, HealthSkelBuilder};

pub(crate) mod devices;
pub(crate) mod drives;
pub(crate) mod files;
pub(crate) mod groups;
pub(crate) mod network;

/// A kernel with this function has the tracepoint.
const AT_LOOKUPS: &str = "__traceiter_mm_filemap_get_pages";

/// The place of a group is free after so many readings without a read of it, in which others read.
const QUIET_READINGS: u32 = 120;

/// The probes, loaded and attached.
pub(crate) struct Probes {
    slots: MappedArray,
    counts: MappedArray,
    /// Words of each CPU's record as they were last read.
    before: Vec<Vec<u64>>,
    /// Readings without a read of the group in each place, by CPU.
    quiet: Vec<[u32; abi::HEALTH_GROUPS]>,
    /// Why lookups in the page cache are not counted.
    pub(crate) without_lookups: Option<String>,
    _skel: HealthSkel<'static>,
}

/// What came in an interval.
pub(crate) struct Grown {
    /// Runs of the programs by CPU.
    pub(crate) runs: Vec<u64>,
    /// Requests and lookups, by device.
    pub(crate) timings: Timings,
    /// Reads by the number of the control group, and those of no group with a place.
    pub(crate) groups: HashMap<u64, Reads>,
    pub(crate) other_reads: Reads,
}

impl Probes {
    /// Loads and attaches them.
    ///
    /// # Errors
    /// The kernel's refusal of those at requests.
    pub(crate) fn start(possible_cpus: usize) -> anyhow::Result<(Self, Vec<Probe>)> {
        let has_tracepoint = !btf::functions_among(&[AT_LOOKUPS])?.is_empty();
        // Where there is no tracepoint, a program at the function is tried, which some kernels refuse.
        match Self::load(possible_cpus, has_tracepoint, true) {
            Ok(loaded) => Ok(loaded),
            Err(error) => {
                let (mut probes, hooks) = Self::load(possible_cpus, has_tracepoint, false)?;
                probes.without_lookups = Some(if has_tracepoint {
                    format!("the kernel refuses the probe at reads of files: {error:#}")
                } else {
                    format!(
                        "this kernel (before 6.12) has no tracepoint at reads of files, and refuses fentry: {error:#}"
                    )
                });
                Ok((probes, hooks))
            }
        }
    }

    fn load(
        possible_cpus: usize,
        has_tracepoint: bool,
        has_lookups: bool,
    ) -> anyhow::Result<(Self, Vec<Probe>)> {
        let mut open = skeleton::open::<HealthSkelBuilder>()?;
        let progs = &mut open.progs;
        progs
            .netto_health_pages
            .set_autoload(has_lookups && has_tracepoint);
        progs
            .netto_health_read
            .set_autoload(has_lookups && !has_tracepoint);
        let counts = &mut open.maps.netto_health_counts;
        counts.set_max_entries(possible_cpus as u32)?;
        let skel = open
            .load()
            .context("the kernel refuses the probes at requests of block devices")?;
        let slots = &skel.maps.netto_health_slots;
        let slots = MappedArray::new(slots, abi::HEALTH_DEVICES_BYTES, 1)?;
        let counts = &skel.maps.netto_health_counts;
        let counts = MappedArray::new(counts, abi::HEALTH_BYTES, possible_cpus)?;
        let progs = &skel.progs;
        let mut programs = vec![&progs.netto_health_complete, &progs.netto_health_issue];
        if has_lookups {
            programs.push(if has_tracepoint {
                &progs.netto_health_pages
            } else {
                &progs.netto_health_read
            });
        }
        let mut hooks = Vec::with_capacity(programs.len());
        for program in programs {
            let mut hook = Probe::new(program, None)?;
            hook.attach()
                .with_context(|| format!("cannot attach {}", program.name().to_string_lossy()))?;
            hooks.push(hook);
        }
        let probes = Probes {
            slots,
            counts,
            before: vec![vec![0; abi::HEALTH_BYTES / 8]; possible_cpus],
            quiet: vec![[0; abi::HEALTH_GROUPS]; possible_cpus],
            without_lookups: None,
            _skel: skel,
        };
        Ok((probes, hooks))
    }

    /// What these CPUs have counted since the last call.
    pub(crate) fn since_the_last(&mut self, cpus: &[u32]) -> Grown {
        let mut sums = vec![0_u64; abi::HEALTH_BYTES / 8];
        let mut grown = sums.clone();
        let mut groups = HashMap::new();
        let mut runs = Vec::with_capacity(cpus.len());
        for &cpu in cpus {
            let now = self.counts.element(cpu as usize);
            let before = self.before.get_mut(cpu as usize);
            let (Some(before), Some(quiet)) = (before, self.quiet.get_mut(cpu as usize)) else {
                runs.push(0);
                continue;
            };
            let has_run = now
                .get(abi::HEALTH_RUNS)
                .is_some_and(|now| now.load(Relaxed) != before[abi::HEALTH_RUNS]);
            if !has_run {
                runs.push(0);
                continue;
            }
            for (at, (now, before)) in now.iter().zip(before).enumerate() {
                let now = now.load(Relaxed);
                grown[at] = now.wrapping_sub(std::mem::replace(before, now));
                sums[at] = sums[at].wrapping_add(grown[at]);
            }
            runs.push(grown[abi::HEALTH_RUNS]);
            for (place, quiet) in quiet.iter_mut().enumerate() {
                let reads = Reads {
                    lookups: grown[abi::HEALTH_GROUP_LOOKUPS + place],
                    requests: grown[abi::HEALTH_GROUP_REQUESTS + place],
                };
                let group = &now[abi::HEALTH_GROUP + place];
                if !reads.is_zero() {
                    *quiet = 0;
                    let sum: &mut Reads = groups.entry(group.load(Relaxed)).or_default();
                    sum.add(reads);
                    continue;
                }
                *quiet += 1;
                if *quiet >= QUIET_READINGS {
                    *quiet = 0;
                    group.store(0, Relaxed);
                }
            }
        }
        // Its place was freed while it read.
        let mut other_reads = groups.remove(&0).unwrap_or_default();
        other_reads.add(Reads {
            lookups: sums[abi::HEALTH_OTHER_LOOKUPS],
            requests: sums[abi::HEALTH_OTHER_REQUESTS],
        });
        let slots = self.slots.element(0).iter().take(abi::HEALTH_DEVICES);
        let slots = slots.map(|slot| Number(slot.load(Relaxed)));
        Grown {
            runs,
            timings: Timings::of(&slots.collect::<Vec<_>>(), &sums),
            groups,
            other_reads,
        }
    }

    /// Gives the slots to these devices.
    pub(crate) fn place(&self, places: &Places) {
        for (slot, number) in self.slots.element(0).iter().zip(places.numbers()) {
            slot.store(number, Relaxed);
        }
    }
}
