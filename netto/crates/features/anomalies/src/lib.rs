//! Anomalies: what left its usual values, from when until when, and what moved with it
//! ([`netto_judges::anomalies`]).
//!
//! They are judged by whoever reads the sections, so that a log has those that the daemon had. This
//! feature measures nothing, and has no section: in the daemon its metrics keep the judge, which API and
//! Prometheus ask.

use metrics_common::Sections;
use netto_feature::instruments::{Feature, Instrument};
use netto_pipeline::options::FeatureOptions;
use netto_platform::{Platform, Tick};

mod api;
mod demo;
mod metrics;
mod terminal;

#[cfg(feature = "schema")]
pub use api::SCHEMAS;

/// It has no probes, and cannot fail.
pub const FEATURE: Feature = Feature {
    command: Some(terminal::COMMAND),
    metrics: metrics::METRICS,
    api: api::API,
    demo: demo::generator,
    ..Feature::new(NAME, start)
};

const NAME: &str = "anomalies";

struct Nothing;

fn start(_: &mut Platform, _: &FeatureOptions) -> anyhow::Result<Box<dyn Instrument>> {
    Ok(Box::new(Nothing))
}

impl Instrument for Nothing {
    fn collect(&mut self, _: &mut Tick<'_>, _: &mut Sections) -> anyhow::Result<()> {
        Ok(())
    }
}
