//! Counts its ticks and the softirqs that CPUs raise: a feature with a probe, a metric, a question,
//! demo data and a section, which exists for the tests of the house. [`FAULTY`] fails at its third tick.

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::Context;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use metrics_common::sections::{Sections, Ticks};
use metrics_common::{Info, Snapshot};
use netto_feature::instruments::{Feature, Instrument};
use netto_metrics::catalogue::{Catalogue, Family, Unit, Value};
use netto_pipeline::options::FeatureOptions;
use netto_platform::overhead::{Limit, ProbeGroup, RegisteredGroup};
use netto_platform::{Platform, Tick};
use netto_questions::api::{Answer, Api, Measured, Question, Refusal, Snapshots, json};
use netto_questions::selection::Selection;
use netto_sys::mapped::MappedArray;
use netto_sys::session::Probe;

use self::ticks_skel::{TicksSkel, TicksSkelBuilder};

/// Nothing rests on it.
pub const FEATURE: Feature = Feature {
    metrics: METRICS,
    api: API,
    demo: || {
        Box::new(|_, sections| {
            sections.ticks = Some(Ticks {
                count: 1,
                raised: 1,
            })
        })
    },
    ..Feature::new("ticks", start)
};

/// Begins well and fails; the daemon goes on without it.
pub const FAULTY: Feature = Feature::new("faulty", |_, _| Ok(Box::new(Faulty { ticks_left: 3 })));

const METRICS: Catalogue = Catalogue::of(&[Family::counter(
    "netto_raised_softirqs_total",
    Unit::Count("softirq"),
    "Softirqs that were raised.",
    &["host"],
    |inputs, out| {
        if let Some(ticks) = &inputs.sum().sections.ticks {
            out.push(&["this"], Value::Count(ticks.raised));
        }
    },
)]);

const API: Api = Api {
    questions: &[Question {
        name: "ticks",
        keys: &["last"],
        answer: Answer::Recent(answer),
    }],
    ..Api::SECTION
};

fn answer(_: &Selection, snapshots: Snapshots<'_>, info: &Info) -> Result<Vec<u8>, Refusal> {
    let newest = snapshots.last().transpose()?;
    let ticks = |snapshot: Snapshot| snapshot.sections.ticks;
    json(&Measured::of(info, "ticks", newest.and_then(ticks)))
}

const GROUP: ProbeGroup = ProbeGroup {
    name: "ticks",
    label: "raised softirqs",
    event_ns: 50.0,
    limit: Limit::DutyCycle { most: 0.5 },
    note_while_off: "Raised softirqs are counted for a moment only.",
};

struct Counter {
    count: u64,
    raised: u64,
    records: MappedArray,
    group: RegisteredGroup,
    _skel: TicksSkel<'static>,
}

fn start(platform: &mut Platform, _: &FeatureOptions) -> anyhow::Result<Box<dyn Instrument>> {
    let cpus = platform.readers.possible_cpus;
    // The skeleton borrows its storage, for as long as the process has it.
    let storage = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = TicksSkelBuilder::default().open(storage)?;
    open.maps.netto_raised.set_max_entries(cpus as u32)?;
    let skel = open.load().context("the kernel refuses the probe")?;
    let records = MappedArray::new(&skel.maps.netto_raised, abi::TICKS_BYTES, cpus)?;
    let mut probe = Probe::new(&skel.progs.netto_raise, None)?;
    probe.attach()?;
    let group = platform.overhead.register(GROUP, vec![probe])?;
    Ok(Box::new(Counter {
        count: 0,
        raised: 0,
        records,
        group,
        _skel: skel,
    }))
}

impl Instrument for Counter {
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        self.count += 1;
        let word = |cpu: &u32| self.records.element(*cpu as usize)[abi::TICKS_RAISED].load(Relaxed);
        let all: u64 = tick.cpus.iter().map(word).sum();
        let raised = all.saturating_sub(std::mem::replace(&mut self.raised, all));
        let events = tick.cpus.iter().map(|_| raised).collect();
        tick.platform.overhead.count(&self.group, events);
        sections.ticks = Some(Ticks {
            count: self.count,
            raised,
        });
        Ok(())
    }
}

struct Faulty {
    ticks_left: u32,
}

impl Instrument for Faulty {
    fn collect(&mut self, _: &mut Tick<'_>, _: &mut Sections) -> anyhow::Result<()> {
        self.ticks_left -= 1;
        anyhow::ensure!(self.ticks_left > 0, "its third tick was too much for it");
        Ok(())
    }
}

/// What the program and this crate agree on; see `build.rs`.
mod abi {
    include!(concat!(env!("OUT_DIR"), "/abi.rs"));
}

netto_sys::skeleton!(ticks_skel, "/ticks.skel.rs");
