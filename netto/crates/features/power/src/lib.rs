//! Networking's power: RAPL's energy, by networking's share of busy CPU time and of all CPU time.

use metrics_common::component::index_of;
use metrics_common::{Info, Sections, Snapshot};

use self::analysis::{CpuTime, Energy};
use netto_feature::instruments::{Feature, Instrument};
use netto_pipeline::options::FeatureOptions;
use netto_platform::{Platform, Tick};
use netto_questions::api::{Api, Measured, Object, reason};

mod analysis;
pub mod demo;
mod kernel;
pub mod metrics;
mod tables;

/// The JSON of power.
pub const API: Api = Api {
    snapshot: Some(write),
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
    /// Power of the host, and networking's part of it.
    power: Measured<'static, metrics_common::Power>,
}

/// Most virtual machines have no RAPL.
pub const FEATURE: Feature = Feature {
    api: API,
    metrics: metrics::METRICS,
    demo: demo::generator,
    tables: tables::TABLES,
    ..Feature::new("power", start)
};

struct Rapl(Energy);

/// Starts with the current counters.
///
/// # Errors
/// If there are none, or they are not readable.
fn start(platform: &mut Platform, _: &FeatureOptions) -> anyhow::Result<Box<dyn Instrument>> {
    let zones = kernel::zones(&platform.roots)?;
    let mut energy = Energy::default();
    energy.advance(&zones, 0, CpuTime::default());
    Ok(Box::new(Rapl(energy)))
}

impl Instrument for Rapl {
    /// Counters that cannot be read now are read in a later interval.
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        let network = index_of("network");
        let cost = sections.cost.as_ref().zip(network);
        let network_ns = cost.and_then(|(cost, row)| cost.total_ns(row)).unwrap_or(0);
        let busy_ns = sections
            .modes
            .as_ref()
            .map_or(0, |modes| modes.host.busy_ns());
        let used = CpuTime {
            network_ns,
            busy_ns,
            capacity_ns: tick.interval_ns.saturating_mul(tick.cpus.len() as u64),
        };
        if let Ok(zones) = kernel::zones(&tick.platform.roots) {
            sections.power = self.0.advance(&zones, tick.interval_ns, used);
        }
        Ok(())
    }
}

fn write(info: &Info, snapshot: &Snapshot, object: &mut Object) {
    let power = snapshot.sections.power.as_ref();
    object.member("power", &Measured::or(power, reason(&info.power)));
}

#[cfg(test)]
mod tests {
    use metrics_common::fixture::{measured as snapshot, without_xdp as info};
    use metrics_common::{Power, ZonePower};

    use super::*;

    fn shown(info: &Info, snapshot: &Snapshot) -> serde_json::Value {
        let mut object = Object::default();
        write(info, snapshot, &mut object);
        let shown: serde_json::Value = serde_json::from_slice(&object.end().unwrap()).unwrap();
        shown["power"].clone()
    }

    #[test]
    fn power_is_given_or_explained() {
        let info = info();
        let mut snapshot = snapshot(1);
        assert_eq!(
            shown(&info, &snapshot),
            serde_json::json!({"unavailable": "no RAPL"})
        );
        snapshot.sections.power = Some(Power {
            host_watts: 40.0,
            network_watts: 10.0,
            network_energy_joules: 5.0,
            network_capacity_watts: 2.0,
            network_capacity_energy_joules: 1.0,
            zones: vec![ZonePower {
                zone: "package-0".to_owned(),
                energy_joules: 20.0,
            }],
        });
        let power = &shown(&info, &snapshot);
        assert_eq!(power["network_watts"], 10.0);
        assert_eq!(power["network_capacity_watts"], 2.0);
        assert_eq!(power["zones"][0]["zone"], "package-0");
    }
}
