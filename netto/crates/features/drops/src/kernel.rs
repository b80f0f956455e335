//! The probe at dropped packets (`drops.bpf.c`), its counts, and the names of the functions it met.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, TryRecvError};

use anyhow::Context;
use libbpf_rs::skel::OpenSkel;

use super::analysis::{Counts, Reasons};
use crate::abi;
use crate::drops_skel::{DropsSkel, DropsSkelBuilder};
use netto_sys::btf;
use netto_sys::function_names::{Answer, FunctionNames, NamesByStart};
use netto_sys::mapped::MappedArray;
use netto_sys::session;
use netto_sys::skeleton;

/// Pause before names are looked up again, as a multiple of the CPU time that it took, and the shortest.
const PAUSE: u64 = 100;
const SHORTEST_PAUSE_NS: u64 = 1_000_000_000;

/// The reasons that the running kernel knows.
///
/// # Errors
/// If its type information cannot be read.
pub fn reasons() -> anyhow::Result<Reasons> {
    let names = |name| anyhow::Ok(btf::enumeration(name)?.unwrap_or_default());
    Ok(Reasons::of(
        &names("skb_drop_reason")?,
        &names("skb_drop_reason_subsys")?,
    ))
}

/// The probe, loaded.
pub struct Probe {
    _skel: DropsSkel<'static>,
    places: MappedArray,
    counts: MappedArray,
    possible_cpus: usize,
}

impl Probe {
    /// Loads and attaches it; also returns its program.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn start(
        possible_cpus: usize,
        reasons: &Reasons,
    ) -> anyhow::Result<(Self, session::Probe)> {
        let mut open = skeleton::open::<DropsSkelBuilder>()?;
        let rodata = skeleton::constants(&mut open.maps.rodata_data)?;
        rodata.netto_has_reasons = reasons.are_given().into();
        rodata.netto_consumed = reasons.consumed().map_or(u64::MAX, u64::from);
        let counts = &mut open.maps.netto_drop_counts;
        counts.set_max_entries(possible_cpus as u32)?;
        let skel = open
            .load()
            .context("the kernel refuses the probe at dropped packets")?;
        let places = MappedArray::new(&skel.maps.netto_drop_places, abi::DROP_PLACES_BYTES, 1)?;
        let counts = &skel.maps.netto_drop_counts;
        let counts = MappedArray::new(counts, abi::DROP_COUNTS_BYTES, possible_cpus)?;
        let hook = session::Probe::new(&skel.progs.netto_drop, None);
        let mut hook = hook.context("cannot duplicate a descriptor")?;
        hook.attach()
            .context("cannot attach to tracepoint kfree_skb")?;
        let probe = Probe {
            _skel: skel,
            places,
            counts,
            possible_cpus,
        };
        Ok((probe, hook))
    }

    /// The places by slot; 0 for an empty slot.
    pub fn slots(&self) -> &[AtomicU64] {
        let from = abi::DROP_PLACES_PLACE;
        &self.places.element(0)[from..from + abi::DROP_PLACES]
    }

    /// Number of its runs on a CPU.
    pub fn runs(&self, cpu: usize) -> u64 {
        self.word(cpu, abi::DROP_COUNTS_RUNS)
    }

    /// Packets that all CPUs have counted at a slot.
    pub fn packets(&self, slot: usize) -> u64 {
        let cpus = 0..self.possible_cpus;
        let packets = cpus.map(|cpu| self.word(cpu, abi::DROP_COUNTS_PACKETS + slot));
        packets.fold(0, u64::wrapping_add)
    }

    fn word(&self, cpu: usize, at: usize) -> u64 {
        let words = self.counts.element(cpu);
        words.get(at).map_or(0, |word| word.load(Relaxed))
    }

    /// A CPU's counts so far.
    pub fn counts(&self, cpu: usize) -> Counts {
        let word = |at: usize| self.word(cpu, at);
        Counts {
            runs: word(abi::DROP_COUNTS_RUNS),
            other: word(abi::DROP_COUNTS_OTHER),
            packets: (0..abi::DROP_PLACES)
                .map(|slot| word(abi::DROP_COUNTS_PACKETS + slot))
                .collect(),
        }
    }
}

/// Finds functions' names without waiting for them.
#[derive(Debug)]
pub struct NameReader {
    functions: Arc<FunctionNames>,
    known: NamesByStart,
    running: Option<Receiver<Answer>>,
    /// When names may be looked up again.
    from_ns: u64,
}

impl NameReader {
    /// Nothing was looked up yet.
    pub fn new(functions: Arc<FunctionNames>) -> Self {
        NameReader {
            functions,
            known: NamesByStart::default(),
            running: None,
            from_ns: 0,
        }
    }

    /// The name of the function that starts there: `None` if that is not known yet, empty if it
    /// has none.
    pub fn name(&self, start: u64) -> Option<String> {
        let known = self.known.get(&start)?;
        Some(known.clone().unwrap_or_default())
    }

    /// Takes names that were found, and has those of these starts looked up.
    pub fn look_up(&mut self, starts: impl Iterator<Item = u64>, now_ns: u64) {
        if let Some(running) = &self.running {
            let pause_ns = match running.try_recv() {
                Ok(Ok((names, took_ns))) => {
                    self.known.extend(names);
                    PAUSE * took_ns
                }
                Ok(Err(error)) => {
                    tracing::debug!("functions that drop packets have no names: {error:#}");
                    SHORTEST_PAUSE_NS
                }
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => SHORTEST_PAUSE_NS,
            };
            self.from_ns = now_ns + SHORTEST_PAUSE_NS.max(pause_ns);
            self.running = None;
        }
        let is_new = |start: &u64| !self.known.contains_key(start);
        let wanted: NamesByStart = starts.filter(is_new).map(|start| (start, None)).collect();
        if !wanted.is_empty() && now_ns >= self.from_ns {
            self.running = Some(self.functions.look_up(wanted));
        }
    }
}
