//! CPU time of networking as JSON: components by their slugs, with the reason for each that is not
//! measured. Only rearranges values, and computes totals and shares. Pure.

use metrics_common::{Cost, Info, Snapshot, SplitBasis, confidence};
use netto_questions::api::{Api, Measured, Object, reason};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::efficiency::EfficiencyView;

/// The JSON of networking's cost.
pub const API: Api = Api {
    snapshot: Some(write),
    ..Api::SECTION
};

/// The schemas of its answers, by their names.
#[cfg(feature = "schema")]
pub const SCHEMAS: &[netto_questions::api::NamedSchema] = &[
    (
        "snapshot",
        schemars::SchemaGenerator::root_schema_for::<Members>,
    ),
    (
        "report",
        schemars::SchemaGenerator::root_schema_for::<crate::report::ReportMember>,
    ),
];

/// Its members of a snapshot, for the schema.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[allow(dead_code, reason = "only its fields' names and types are of use")]
struct Members {
    /// Every component by its slug.
    components: Components<'static>,
    /// Part of the RX softirq's time that ran in ksoftirqd, nanoseconds per CPU; absent if not
    /// measured.
    #[schemars(skip_serializing_if = "Option::is_none")]
    ksoftirqd_rx_ns: Option<Vec<u64>>,
    /// Stack samples.
    stacks: Stacks<'static>,
    /// What probes missed in the interval, where the kernel counts it.
    probe_missed: Vec<Missed<'static>>,
    /// What networking costs for what it does. A figure is absent where one of its two sides is not
    /// known or nothing was done.
    #[schemars(skip_serializing_if = "Option::is_none")]
    efficiency: Option<EfficiencyView>,
}

fn write(info: &Info, snapshot: &Snapshot, object: &mut Object) {
    let cost = snapshot.cost();
    object.member("components", &Components { info, snapshot });
    // Part of the RX softirq's time in ksoftirqd, per CPU.
    object.optional("ksoftirqd_rx_ns", cost.ksoftirqd_rx_ns.as_ref());
    let stacks = Stacks {
        taken: &cost.stacks_taken,
        lost: &cost.stacks_lost,
    };
    object.member("stacks", &stacks);
    // Events missed by probes in the interval, if the kernel counts them.
    let missed = info.missable.iter().zip(&cost.probe_missed);
    let missed = missed.map(|(way, &count)| Missed {
        probe: &way.probe,
        reason: &way.reason,
        count,
    });
    object.member("probe_missed", &missed.collect::<Vec<_>>());
    object.optional("efficiency", EfficiencyView::of(snapshot));
}

/// Stack samples.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Stacks<'a> {
    /// Taken, per CPU.
    taken: &'a [u64],
    /// Lost for lack of room, per CPU.
    lost: &'a [u64],
}

/// A way in which a probe missed events.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Missed<'a> {
    /// The probe.
    probe: &'a str,
    /// recursion, state_lost or no_room.
    reason: &'a str,
    /// How often.
    count: u64,
}

/// A component that was measured.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct ComponentView<'a> {
    /// CPU time per CPU, nanoseconds.
    cpu_ns: &'a [u64],
    /// CPU time over all CPUs, nanoseconds.
    total_ns: u64,
    /// Share of all CPUs' time in the interval, 0 to 1.
    share_ratio: f64,
    /// Where an estimate lies with a confidence of 95 %, nanoseconds; absent of what is no
    /// estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_interval_ns: Option<(u64, u64)>,
    /// Stack samples on which it rests, per CPU; absent of what is not sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    samples: Option<&'a [u32]>,
    /// On what its split among its parts rests, nanoseconds over all CPUs; absent if it has no such
    /// split.
    #[serde(skip_serializing_if = "Option::is_none")]
    split_basis: Option<BasisView>,
    /// How often it was entered, per CPU; absent where that is not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<&'a [u64]>,
}

/// On what the split of a component among its parts rests, nanoseconds over all CPUs.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct BasisView {
    /// On this interval's stacks.
    stacks_ns: u64,
    /// On the CPU's recent past.
    past_ns: u64,
    /// On the host's.
    host_ns: u64,
    /// On nothing: it is not split.
    nothing_ns: u64,
}

impl BasisView {
    fn of(cost: &Cost, row: usize) -> Option<Self> {
        let of_row = |basis: &&SplitBasis| basis.component as usize == row;
        let basis = cost.split_basis.iter().find(of_row)?;
        Some(BasisView {
            stacks_ns: basis.stacks_ns,
            past_ns: basis.past_ns,
            host_ns: basis.host_ns,
            nothing_ns: basis.nothing_ns,
        })
    }
}

/// The rows under their slugs, in the order of the table.
#[derive(Debug)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(
        with = "std::collections::BTreeMap<String, Measured<'static, ComponentView<'static>>>",
        extend("propertyNames" = {"pattern": "^[a-z0-9_]+$"})
    )
)]
struct Components<'a> {
    info: &'a Info,
    snapshot: &'a Snapshot,
}

impl Serialize for Components<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.info.components.len()))?;
        for (index, component) in self.info.components.iter().enumerate() {
            map.serialize_entry(&component.slug, &self.row(index))?;
        }
        map.end()
    }
}

impl<'a> Components<'a> {
    fn row(&self, index: usize) -> Measured<'a, ComponentView<'a>> {
        let snapshot = self.snapshot;
        let cost = snapshot.cost();
        let view = cost.cpu_ns(index).map(|cpu_ns| {
            let total_ns = cpu_ns.iter().sum();
            ComponentView {
                cpu_ns,
                total_ns,
                share_ratio: match snapshot.capacity_ns() {
                    0 => 0.0,
                    capacity_ns => total_ns as f64 / capacity_ns as f64,
                },
                total_interval_ns: confidence::of_component(self.info, snapshot, index),
                samples: cost.samples_of(index),
                split_basis: BasisView::of(cost, index),
                entries: cost.entries_of(index),
            }
        });
        Measured::or(view, reason(&self.info.components[index].availability))
    }
}

#[cfg(test)]
mod tests;
