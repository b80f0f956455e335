//! The example of a feature, complete and of no use: it counts its ticks and the softirqs that CPUs
//! raise. No product has it; the tests of the house show that all of netto does where it is in the
//! list (`netto/tests/house`).

use metrics_common::sections::{Sections, Ticks};
use netto_feature::instruments::{Feature, Instrument};
use netto_pipeline::options::FeatureOptions;
use netto_platform::overhead::{Counting, Limit, ProbeGroup, RegisteredGroup};
use netto_platform::{Platform, Tick};

use self::kernel::Counts;

mod api;
mod demo;
mod kernel;
mod metrics;
mod options;
mod terminal;

/// CPU time is measured without it.
pub const FEATURE: Feature = Feature {
    options: Some(options::OPTIONS),
    command: Some(terminal::COMMAND),
    metrics: metrics::METRICS,
    api: api::API,
    demo: demo::generator,
    ..Feature::new(NAME, start)
};

const NAME: &str = "ticks";

/// Its probe.
const GROUP: ProbeGroup = ProbeGroup {
    name: NAME,
    label: "raised softirqs",
    event_ns: 50.0,
    limit: Limit::Windows { most: 0.5 },
    note_while_off: "Raised softirqs are estimated: they are counted in a part of each second.",
};

struct Counter {
    step: u64,
    count: u64,
    counts: Counts,
    group: RegisteredGroup,
}

fn start(platform: &mut Platform, options: &FeatureOptions) -> anyhow::Result<Box<dyn Instrument>> {
    let (counts, probe) = Counts::start(platform.readers.possible_cpus)?;
    let group = platform.overhead.register(GROUP, vec![probe])?;
    Ok(Box::new(Counter {
        step: options::step(options),
        count: 0,
        counts,
        group,
    }))
}

impl Instrument for Counter {
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        self.count += self.step;
        let grown = self.counts.since_the_last(tick.cpus);
        let overhead = &mut tick.platform.overhead;
        let raised = match overhead.count(&self.group, grown.raised.clone()) {
            Counting::Whole => grown.raised.iter().sum(),
            Counting::Part(estimated) => estimated.events,
        };
        sections.ticks = Some(Ticks {
            count: self.count,
            raised,
            gaps: grown.gaps(),
        });
        Ok(())
    }
}

/// What the program and this crate agree on; see `build.rs`.
#[allow(dead_code, reason = "some words are the program's own")]
mod abi {
    include!(concat!(env!("OUT_DIR"), "/abi.rs"));
}

netto_sys::skeleton!(ticks_skel, "/ticks.skel.rs");
