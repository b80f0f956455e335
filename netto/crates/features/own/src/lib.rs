//! netto's own cost; ends each interval for the budget. It runs last, so that it covers the
//! interval's whole analysis.

use metrics_common::component::{COMPONENTS, Kind, index_of};
use metrics_common::{Cost, Modes, OwnCost, OwnPart, Sections, SoftnetCount, Source};

use netto_feature::instruments::{Feature, Instrument};
use netto_pipeline::options::FeatureOptions;
use netto_platform::overhead::{IntervalFindings, Taken};
use netto_platform::{Platform, Tick};
use netto_sys::system;

mod api;
pub mod demo;
pub mod metrics;
mod tables;

#[cfg(feature = "schema")]
pub use api::SCHEMAS;

pub use api::API;

/// It cannot fail.
pub const FEATURE: Feature = Feature {
    api: API,
    metrics: metrics::METRICS,
    demo: demo::generator,
    tables: tables::TABLES,
    ..Feature::new("own", start)
};

/// Figures are estimates; multiples of ten microseconds pack well.
const ROUNDED_TO_NS: u64 = 10_000;

/// See the head of this file; all state belongs to the platform.
struct OwnInstrument;

/// Starts.
///
/// # Errors
/// None.
fn start(_: &mut Platform, _: &FeatureOptions) -> anyhow::Result<Box<dyn Instrument>> {
    Ok(Box::new(OwnInstrument))
}

impl Instrument for OwnInstrument {
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        let cost = sections.cost.as_ref();
        let busy_ratio = sections.modes.as_ref().map(busy_ratios);
        let findings = IntervalFindings {
            interval_ns: tick.interval_ns,
            cpus: tick.cpus,
            network_ns: cost.and_then(|cost| cost.cpu_ns(index_of("network")?)),
            sources_ns: cost.map(sources_ns).unwrap_or_default(),
            busy_ratio: busy_ratio.as_deref(),
            packets: sections
                .traffic
                .as_ref()
                .and_then(|traffic| traffic.softnet_total(SoftnetCount::Packets)),
        };
        let taken = tick.platform.keep_to_budget(&findings, tick.now_ns);
        sections.own = Some(OwnCost {
            user_ns: taken.process.0,
            system_ns: taken.process.1,
            resident_bytes: system::own_resident_bytes(),
            analysis_ns: system::monotonic_ns().saturating_sub(tick.now_ns),
            sampling_hz: taken.sampling_hz.clone(),
            costliest: taken.costliest,
            sample_price: taken.sample_price,
            taken_ns: rows(&taken),
            instruments: std::mem::take(&mut tick.analysis),
        });
        Ok(())
    }
}

/// The time by timed source, where it is known.
fn sources_ns(cost: &Cost) -> Vec<(Source, &[u64])> {
    let rows = COMPONENTS.iter().enumerate();
    let timed = rows.filter_map(|(row, component)| match component.kind {
        Kind::Timed(source, _) => Some((source, cost.cpu_ns(row)?)),
        _ => None,
    });
    timed.collect()
}

/// Share of the time that each CPU was busy.
fn busy_ratios(modes: &Modes) -> Vec<f64> {
    let ratio = |cpu: &metrics_common::CpuModes| {
        let all_ns: u64 = cpu.values().iter().sum();
        1.0 - (cpu.idle_ns + cpu.iowait_ns) as f64 / all_ns.max(1) as f64
    };
    modes.cpus.iter().map(ratio).collect()
}

/// By part, in the order of [`OwnPart::ALL`].
fn rows(taken: &Taken) -> Vec<Option<Vec<u64>>> {
    let rounded = |row: &[u64]| row.iter().map(|ns| ns - ns % ROUNDED_TO_NS).collect();
    let row = |part: OwnPart| {
        let found = taken.parts().find(|(name, _)| *name == part.slug());
        found.map(|(_, row)| rounded(row))
    };
    OwnPart::ALL.map(row).into()
}
