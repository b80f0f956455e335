//! CPU time by mode, from `/proc/stat`.

use metrics_common::{CpuModes, Modes, Sections};

use netto_analysis::proc_stat::{self, ProcStat};
use netto_feature::instruments::{Feature, Instrument};
use netto_pipeline::options::FeatureOptions;
use netto_platform::{Platform, Tick};
use netto_questions::api::Api;
use netto_sys::system;

pub mod demo;
pub mod metrics;
mod tables;

/// The JSON of modes.
pub const API: Api = Api {
    snapshot: Some(|_, snapshot, object| {
        object.optional("cpu_modes", snapshot.sections.modes.as_ref());
    }),
    ..Api::SECTION
};

/// The schemas of its answers, by their names.
#[cfg(feature = "schema")]
pub const SCHEMAS: &[netto_questions::api::NamedSchema] = &[(
    "snapshot",
    schemars::SchemaGenerator::root_schema_for::<Members>,
)];

/// Its members of a snapshot, for the schema.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[allow(dead_code, reason = "only its fields' names and types are of use")]
struct Members {
    /// CPU time by mode; absent if not measured.
    #[schemars(skip_serializing_if = "Option::is_none")]
    cpu_modes: Option<Modes>,
}

/// Networking's share of busy time and the page's bars depend on it.
pub const FEATURE: Feature = Feature {
    is_essential: true,
    api: API,
    metrics: metrics::METRICS,
    demo: demo::generator,
    tables: tables::TABLES,
    ..Feature::new("modes", start)
};

/// The previous reading.
struct HostModes {
    previous: ProcStat,
    tick_ns: u64,
}

/// Starts with the current `/proc/stat`.
///
/// # Errors
/// None.
fn start(platform: &mut Platform, _: &FeatureOptions) -> anyhow::Result<Box<dyn Instrument>> {
    Ok(Box::new(HostModes {
        previous: platform.stat.clone(),
        tick_ns: system::tick_ns(),
    }))
}

impl HostModes {
    fn of(&self, now: &ProcStat, cpu: u32, interval_ns: u64) -> CpuModes {
        let find = |stat: &ProcStat| {
            let mut cpus = stat.cpus.iter();
            let found = cpus.find(|(number, _)| *number == cpu);
            found.map(|(_, modes)| *modes)
        };
        match (find(&self.previous), find(now)) {
            (Some(before), Some(after)) => {
                proc_stat::growth(&before, &after, self.tick_ns, interval_ns, 1)
            }
            _ => CpuModes::default(),
        }
    }
}

impl Instrument for HostModes {
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        let (now, interval_ns) = (&tick.platform.stat, tick.interval_ns);
        let cpus = tick.cpus.iter();
        sections.modes = Some(Modes {
            cpus: cpus.map(|&cpu| self.of(now, cpu, interval_ns)).collect(),
            host: proc_stat::growth(
                &self.previous.host,
                &now.host,
                self.tick_ns,
                interval_ns,
                tick.cpus.len().max(now.cpus.len()),
            ),
        });
        self.previous.clone_from(now);
        Ok(())
    }
}
