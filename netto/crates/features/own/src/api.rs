//! netto's own cost as JSON.

use metrics_common::sections::SamplePrice;
use metrics_common::{CostliestCpu, Info, InstrumentCost, OwnCost, OwnPart, Snapshot};
use netto_questions::api::{Api, Measured, Object};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// The JSON of netto's own cost.
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
    /// What netto itself costs; absent if not known.
    #[schemars(skip_serializing_if = "Option::is_none")]
    own: Option<OwnView<'static>>,
}

fn write(info: &Info, snapshot: &Snapshot, object: &mut Object) {
    let own_cost = snapshot.sections.own.as_ref();
    object.optional(
        "own",
        own_cost.map(|own_cost| OwnView::new(info, snapshot, own_cost)),
    );
}

/// What netto itself costs.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct OwnView<'a> {
    /// CPU time of the daemon in user mode, nanoseconds.
    user_ns: u64,
    /// CPU time of the daemon in the kernel, nanoseconds.
    system_ns: u64,
    /// Resident memory of the daemon now, bytes.
    resident_bytes: u64,
    /// Time to drain and analyse the interval, nanoseconds.
    analysis_ns: u64,
    /// Time that all known parts took from all CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    taken_ns: Option<u64>,
    /// The same as a share of all CPUs' time in the interval, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    share_ratio: Option<f64>,
    /// The CPU that has paid most over the last ten seconds; absent until known.
    #[serde(skip_serializing_if = "Option::is_none")]
    costliest: Option<CostliestCpu>,
    /// What that may be; absent if it is not limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_overhead_ratio: Option<f64>,
    /// Every part by its name.
    parts: Parts<'a>,
    /// Stack samples per second that each CPU is asked for; 0: left alone. Absent where nothing is
    /// sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    sampling_hz: Option<&'a [u64]>,
    /// What a sample costs a CPU that does nothing but networking; absent if not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    sample_price: Option<SamplePrice>,
    /// The analysis by instrument.
    instruments: &'a [InstrumentCost],
}

impl<'a> OwnView<'a> {
    fn new(info: &Info, snapshot: &Snapshot, own_cost: &'a OwnCost) -> Self {
        let capacity_ns = snapshot.capacity_ns();
        let taken_ns = own_cost.taken_total_ns();
        OwnView {
            user_ns: own_cost.user_ns,
            system_ns: own_cost.system_ns,
            resident_bytes: own_cost.resident_bytes,
            analysis_ns: own_cost.analysis_ns,
            taken_ns,
            share_ratio: taken_ns
                .filter(|_| capacity_ns > 0)
                .map(|ns| ns as f64 / capacity_ns as f64),
            costliest: own_cost.costliest,
            max_overhead_ratio: info.max_overhead_ratio,
            parts: Parts(own_cost),
            sampling_hz: own_cost.sampling_hz.as_deref(),
            sample_price: own_cost.sample_price,
            instruments: &own_cost.instruments,
        }
    }
}

/// The rows under their slugs, in order.
#[derive(Debug)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(
        with = "std::collections::BTreeMap<String, Measured<'static, PartView<'static>>>",
        extend("propertyNames" = {"enum": OwnPart::ALL.map(OwnPart::slug)})
    )
)]
struct Parts<'a>(&'a OwnCost);

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct PartView<'a> {
    /// The instrument that it belongs to.
    instrument: &'static str,
    /// What it took from each CPU, nanoseconds: an estimate.
    cpu_ns: &'a [u64],
    /// Over all CPUs, nanoseconds.
    total_ns: u64,
}

impl Serialize for Parts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let own_cost = self.0;
        let mut map = serializer.serialize_map(Some(OwnPart::ALL.len()))?;
        for part in OwnPart::ALL {
            let known = own_cost.part_ns(part).zip(own_cost.part_total_ns(part));
            let view = known.map(|(cpu_ns, total_ns)| PartView {
                instrument: part.instrument(),
                cpu_ns,
                total_ns,
            });
            let view = Measured::or(view, "not known in this interval");
            map.serialize_entry(part.slug(), &view)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::fixture::{measured, without_xdp as info};

    use super::*;
    use metrics_common::sections::Price;

    fn shown(snapshot: &Snapshot) -> serde_json::Value {
        let mut object = Object::default();
        write(&info(), snapshot, &mut object);
        let shown: serde_json::Value = serde_json::from_slice(&object.end().unwrap()).unwrap();
        shown["own"].clone()
    }

    #[test]
    fn what_netto_costs_stands_under_its_parts() {
        let mut snapshot = measured(1);
        let own_cost = snapshot.sections.own.as_mut().unwrap();
        own_cost.taken_ns = vec![None; OwnPart::ALL.len()];
        own_cost.taken_ns[OwnPart::Sampler as usize] = Some(vec![3_000_000, 1_000_000]);
        own_cost.taken_ns[OwnPart::Daemon as usize] = Some(vec![0, 1_000_000]);
        own_cost.sampling_hz = Some(vec![1000, 0]);
        own_cost.costliest = Some(CostliestCpu {
            cpu: 0,
            ratio: 0.006,
        });
        own_cost.sample_price = Some(SamplePrice {
            perf: Price {
                ns: 500_000.0,
                half_width_ns: 980_000.0,
            },
            tick: None,
            trials: 0,
        });
        let answer = shown(&snapshot);
        let price = serde_json::json!({
            "perf": {"ns": 500_000.0, "half_width_ns": 980_000.0}, "trials": 0
        });
        assert_eq!(answer["sample_price"], price);
        assert_eq!(answer["taken_ns"], 5_000_000);
        assert_eq!(answer["share_ratio"], 0.005);
        assert_eq!(answer["costliest"]["cpu"], 0);
        assert_eq!(answer["costliest"]["ratio"], 0.006);
        assert_eq!(answer["max_overhead_ratio"], 0.01);
        assert_eq!(answer["sampling_hz"], serde_json::json!([1000, 0]));
        let sampler = &answer["parts"]["sampler"];
        assert_eq!(sampler["cpu_ns"], serde_json::json!([3_000_000, 1_000_000]));
        assert_eq!(sampler["total_ns"], 4_000_000);
        assert_eq!(sampler["instrument"], "cost");
        let sends = &answer["parts"]["sends"];
        assert_eq!(sends["unavailable"], "not known in this interval");
    }

    #[test]
    fn what_netto_costs_is_absent_where_it_is_not_known() {
        let answer = shown(&measured(1));
        assert_eq!(answer["user_ns"], 1_000_000);
        for absent in [
            "taken_ns",
            "share_ratio",
            "costliest",
            "sampling_hz",
            "sample_price",
        ] {
            assert_eq!(answer.get(absent), None, "{absent}");
        }
    }
}
