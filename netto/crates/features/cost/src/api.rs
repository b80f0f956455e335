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

#[derive(Debug, Serialize)]
struct Stacks<'a> {
    taken: &'a [u64],
    lost: &'a [u64],
}

#[derive(Debug, Serialize)]
struct Missed<'a> {
    probe: &'a str,
    reason: &'a str,
    count: u64,
}

#[derive(Debug, Serialize)]
struct ComponentView<'a> {
    cpu_ns: &'a [u64],
    total_ns: u64,
    /// Share of all CPUs' time in the interval, 0 to 1.
    share_ratio: f64,
    /// The 95 % confidence interval of an estimate, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_interval_ns: Option<(u64, u64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    samples: Option<&'a [u32]>,
    /// The basis of its split among its parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    split_basis: Option<BasisView>,
    /// Number of entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<&'a [u64]>,
}

/// The basis of a split, nanoseconds over all CPUs; see [`SplitBasis`].
#[derive(Debug, Serialize)]
struct BasisView {
    stacks_ns: u64,
    past_ns: u64,
    host_ns: u64,
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
