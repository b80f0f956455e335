//! The slowest softirqs of those that the clock times: which, when, where, for how long, in which
//! part, who caused it and who paid.

use metrics_common::Sections;
use metrics_common::sections::{SLOW_NS, SLOWEST_TABLES, Slowest};
use netto_feature::instruments::{Feature, Instrument};
use netto_pipeline::options::FeatureOptions;
use netto_platform::{Platform, Tick};

mod analysis;
mod api;
mod demo;
mod metrics;
mod report;
mod terminal;

#[cfg(feature = "schema")]
pub use api::SCHEMAS;

/// It needs timed softirqs; their parts and causes are those of the samples that owners tag.
pub const FEATURE: Feature = Feature {
    command: Some(terminal::COMMAND),
    metrics: metrics::METRICS,
    api: api::API,
    demo: demo::generator,
    summary: Some(report::summarizer),
    tables: SLOWEST_TABLES,
    ..Feature::new(NAME, start)
};

const NAME: &str = "slowest";

/// State kept between intervals.
struct SlowestSoftirqs {
    /// Softirqs that were timed up to the end of the last interval.
    timed: u64,
}

/// Begins to keep slow softirqs.
///
/// # Errors
/// If softirqs are not timed, or not as a whole.
fn start(platform: &mut Platform, _: &FeatureOptions) -> anyhow::Result<Box<dyn Instrument>> {
    match &mut platform.readers.long_softirqs {
        Some(kept) => kept.keep_above(SLOW_NS),
        None if platform.has_clock => anyhow::bail!(
            "softirqs are preempted on this kernel (PREEMPT_RT): the clock knows their sum, and not \
             how long each takes"
        ),
        None => anyhow::bail!("softirqs are sampled here, and not timed"),
    }
    let timed = platform.readers.clocks.softirqs();
    Ok(Box::new(SlowestSoftirqs { timed }))
}

impl Instrument for SlowestSoftirqs {
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        let platform = &*tick.platform;
        let timed = platform.readers.clocks.softirqs();
        let before = std::mem::replace(&mut self.timed, timed);
        let (end_ns, end_unix_ns) = (tick.now_ns, tick.time_unix_ns);
        let unix_ns = |ns: u64| end_unix_ns.saturating_sub(end_ns.saturating_sub(ns));
        let (found, owners) = (&platform.long_softirqs, &platform.long_parties);
        sections.slowest = Some(Slowest {
            softirqs: analysis::slowest(found, owners, tick.samples, unix_ns),
            timed: timed.saturating_sub(before),
            timed_ns: platform.overhead.softirqs_timed_ns(tick.interval_ns),
            measured_ns: tick.interval_ns,
        });
        Ok(())
    }
}
