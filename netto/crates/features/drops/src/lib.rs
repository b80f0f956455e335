//! Packets that the kernel drops, by reason and function. They are estimated where counting all would
//! cost too much.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use metrics_common::{DropPlace, Drops, Sections};

use self::analysis::{Aging, DropKey, Growth, Reasons};
use self::kernel::{NameReader, Probe};
use netto_feature::instruments::{Feature, Instrument};
use netto_pipeline::options::FeatureOptions;
use netto_platform::overhead::{Held, Limit, ProbeGroup, RegisteredGroup};
use netto_platform::{Platform, Tick};
use netto_questions::api::Api;

pub mod analysis;
pub mod demo;
mod kernel;
pub mod metrics;
mod tables;

/// The form of its section in the API.
pub const API: Api = Api::SECTION;

/// A kernel may refuse the probe.
pub const FEATURE: Feature = Feature {
    api: API,
    metrics: metrics::METRICS,
    demo: demo::generator,
    tables: tables::TABLES,
    ..Feature::new("drops", start)
};

/// Its probe.
const GROUP: ProbeGroup = ProbeGroup {
    name: "drops",
    label: "dropped packets",
    // A run, with the cost of its call.
    event_ns: 60.0,
    limit: Limit::Windows { most: 0.5 },
    note_while_off: "Dropped packets are estimated: counting them all would cost too much, so they \
                     are counted in a part of each second, which stands for the whole.",
};
/// How long a function may be missing from the symbols before it stays without a name.
const PATIENCE_NS: u64 = 10_000_000_000;

/// State kept from interval to interval.
struct DropCounter {
    probe: Probe,
    reasons: Reasons,
    names: NameReader,
    growth: Growth,
    aging: Aging,
    /// The place of each slot, once known.
    places: Vec<Option<DropPlace>>,
    /// Time at which a slot without a name was first seen.
    met_ns: Vec<u64>,
    group: RegisteredGroup,
    held: Held<Drops>,
}

/// Starts counting.
///
/// # Errors
/// If the kernel refuses the probe.
fn start(platform: &mut Platform, _: &FeatureOptions) -> anyhow::Result<Box<dyn Instrument>> {
    let reasons = kernel::reasons()?;
    let (probe, hook) = Probe::start(platform.readers.possible_cpus, &reasons)?;
    let group = platform.overhead.register(GROUP, vec![hook])?;
    if !reasons.are_given() {
        let note = "This kernel (before 5.17) gives no reasons for dropped packets, only the \
                    functions that drop them.";
        platform.tell("drops", Some(note.to_owned()));
    }
    Ok(Box::new(DropCounter {
        probe,
        reasons,
        names: NameReader::new(Arc::clone(&platform.function_names)),
        growth: Growth::default(),
        aging: Aging::default(),
        places: Vec::new(),
        met_ns: Vec::new(),
        group,
        held: Held::default(),
    }))
}

impl DropCounter {
    /// Resolves the names of places without one.
    fn learn_names(&mut self, platform: &Platform, now_ns: u64) {
        let slots = self.probe.slots();
        self.places.resize(slots.len(), None);
        self.met_ns.resize(slots.len(), 0);
        let slots = slots.iter().zip(&self.places).enumerate();
        let new = slots.filter(|(_, (_, known))| known.is_none());
        let new = new.map(|(slot, (place, _))| (slot, DropKey(place.load(Relaxed))));
        let new: Vec<(usize, DropKey)> = new.filter(|(_, place)| place.0 != 0).collect();
        let classifier = platform.classifier.as_ref();
        let start_of = |place: &DropKey| classifier?.function_returned_to(place.location());
        let starts = new.iter().filter_map(|(_, place)| start_of(place));
        self.names.look_up(starts, now_ns);
        for (slot, place) in new {
            let met_ns = &mut self.met_ns[slot];
            if *met_ns == 0 {
                *met_ns = now_ns;
            }
            let is_hopeless = classifier.is_none() || now_ns - *met_ns > PATIENCE_NS;
            let function = match start_of(&place) {
                Some(start) => self.names.name(start),
                None => is_hopeless.then(String::new),
            };
            self.places[slot] = function.map(|function| DropPlace {
                reason: self.reasons.name(place),
                function,
                packets: 0,
            });
        }
    }
}

impl Instrument for DropCounter {
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        self.learn_names(tick.platform, tick.now_ns);
        let mut drops = Drops::default();
        let mut events = Vec::with_capacity(tick.cpus.len());
        for &cpu in tick.cpus {
            let cpu = cpu as usize;
            if self.growth.is_settled(cpu, self.probe.runs(cpu)) {
                drops.cpus.push(0);
                events.push(0);
                continue;
            }
            let counts = self.probe.counts(cpu);
            events.push(self.growth.add(&mut drops, cpu, counts, &self.places));
        }
        let (slots, packets) = (self.probe.slots(), |slot| self.probe.packets(slot));
        let now_ns = tick.now_ns;
        for slot in self.aging.give_back(slots, packets, &self.growth, now_ns) {
            self.places[slot] = None;
            self.met_ns[slot] = 0;
        }
        let overhead = &mut tick.platform.overhead;
        let counting = overhead.count(&self.group, events);
        let mut drops = self.held.next(drops, counting, tick.cpus);
        drops
            .places
            .sort_by_key(|place| std::cmp::Reverse(place.packets));
        sections.drops = Some(drops);
        Ok(())
    }
}

/// Constants shared by the programs and this crate; see `build.rs`.
#[allow(dead_code, reason = "some words are the programs' own")]
pub(crate) mod abi {
    include!(concat!(env!("OUT_DIR"), "/abi.rs"));
}

netto_sys::skeleton!(drops_skel, "/drops.skel.rs");
