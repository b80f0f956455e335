//! Advice: what could be tried on this host, by rules over what the other features measure
//! ([`netto_judges::advice`]).
//!
//! Rules are judged by whoever reads the sections, so that a log from before a rule was made has its
//! advice, too. What this feature adds to an interval is how the host is set up.

use metrics_common::Sections;
use metrics_common::sections::Setup;
use netto_feature::instruments::{Feature, Instrument};
use netto_pipeline::options::FeatureOptions;
use netto_platform::background::Background;
use netto_platform::{Platform, Tick};
use netto_sys::system::Roots;

use self::kernel::EVERY_NS;

mod api;
mod demo;
mod kernel;
mod metrics;
mod report;
mod terminal;

#[cfg(feature = "schema")]
pub use api::SCHEMAS;

/// It has no probes, and cannot fail.
pub const FEATURE: Feature = Feature {
    command: Some(terminal::COMMAND),
    metrics: metrics::METRICS,
    api: api::API,
    demo: demo::generator,
    summary: Some(report::summarizer),
    ..Feature::new(NAME, start)
};

const NAME: &str = "advice";

struct Advisor {
    roots: Roots,
    readings: Background<Setup>,
    setup: Option<Setup>,
}

/// Begins without knowing how the host is set up: the first reading does not delay the start.
fn start(platform: &mut Platform, _: &FeatureOptions) -> anyhow::Result<Box<dyn Instrument>> {
    Ok(Box::new(Advisor {
        roots: platform.roots.clone(),
        readings: Background::new("setup", EVERY_NS),
        setup: None,
    }))
}

impl Instrument for Advisor {
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        let roots = self.roots.clone();
        let newest = self
            .readings
            .poll(tick.now_ns, move || kernel::read(&roots));
        if newest.is_some() {
            self.setup = newest;
        }
        sections.advice = Some(self.setup.clone().unwrap_or_default());
        Ok(())
    }
}
