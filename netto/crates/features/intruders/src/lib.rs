//! Softirqs on CPUs that are meant to be quiet: who caused them, from where, and whom they
//! interrupted.
//!
//! The time is that of the section `cost`; causes and victims are those that owners are found for.

use metrics_common::Sections;
use metrics_common::sections::QuietCpu;
use netto_feature::instruments::{Feature, Instrument};
use netto_pipeline::options::FeatureOptions;
use netto_platform::background::Background;
use netto_platform::{Platform, Tick};
use netto_sys::system::Roots;

use self::analysis::account;
use self::kernel::{EVERY_NS, QuietCpus};

mod analysis;
mod api;
mod demo;
mod kernel;
mod metrics;
mod report;
mod tables;
mod terminal;

#[cfg(feature = "schema")]
pub use api::SCHEMAS;

/// Its section is absent while nothing runs on such CPUs, or there are none.
pub const FEATURE: Feature = Feature {
    metrics: metrics::METRICS,
    api: api::API,
    demo: demo::generator,
    summary: Some(report::summarizer),
    tables: tables::TABLES,
    ..Feature::new(NAME, start)
};

const NAME: &str = "intruders";

struct Intrusions {
    roots: Roots,
    watch: Background<QuietCpus>,
    quiet: Vec<QuietCpu>,
}

/// Begins with the CPUs that are meant to be quiet now.
fn start(platform: &mut Platform, _: &FeatureOptions) -> anyhow::Result<Box<dyn Instrument>> {
    let roots = platform.roots.clone();
    let mut intrusions = Intrusions {
        quiet: Vec::new(),
        roots: roots.clone(),
        watch: Background::new("quiet-cpus", EVERY_NS),
    };
    intrusions.take_over(QuietCpus::read(&roots), platform);
    Ok(Box::new(intrusions))
}

impl Intrusions {
    fn take_over(&mut self, found: QuietCpus, platform: &mut Platform) {
        platform.watched_cpus = found.cpus.iter().map(|quiet_cpu| quiet_cpu.cpu).collect();
        platform.tell_quietly(NAME, found.note());
        self.quiet = found.cpus;
    }
}

impl Instrument for Intrusions {
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        let taken = std::mem::take(&mut tick.platform.taken_there);
        let cost = sections.cost.as_ref().filter(|_| !self.quiet.is_empty());
        let section = cost.and_then(|cost| {
            account::section(
                &self.quiet,
                tick.cpus,
                cost,
                taken,
                sections.owners.as_ref(),
            )
        });
        sections.intruders = section;
        let roots = self.roots.clone();
        let found = self
            .watch
            .poll(tick.now_ns, move || QuietCpus::read(&roots));
        if let Some(found) = found {
            self.take_over(found, tick.platform);
        }
        Ok(())
    }
}
