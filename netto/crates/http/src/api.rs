//! A snapshot as JSON, for people, scripts and tests.
//!
//! The wire format is made for programs: rows by position, absent rows as null.
//! Here every value stands under its name, and what is not measured says why.
//! This file only rearranges; it computes nothing but totals and shares.

use metrics_common::confidence;
use metrics_common::sections::{Section, Visitor};
use metrics_common::{
    Availability, Cost, CpuModes, Info, Sections, Snapshot, SplitBasis, ZonePower,
};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use self::efficiency::EfficiencyView;
use self::own::OwnView;
use self::owners::OwnersView;

mod efficiency;
mod own;
pub(super) mod owners;

/// What `/api/v1/snapshot` answers.
#[derive(Debug, Serialize)]
pub struct SnapshotView<'a> {
    sequence: u64,
    time_unix_ns: u64,
    interval_ns: u64,
    /// Numbers of the CPUs: the columns of every array below.
    cpus: &'a [u32],
    components: Components<'a>,
    /// Part of the RX softirq's time that ran in ksoftirqd, per CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    ksoftirqd_rx_ns: Option<&'a [u64]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_modes: Option<ModesView<'a>>,
    stacks: Stacks<'a>,
    /// What probes missed in the interval, where the kernel counts it.
    probe_missed: Vec<Missed<'a>>,
    power: PowerView<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    own: Option<OwnView<'a>>,
    /// Whose networking's CPU time was.
    #[serde(skip_serializing_if = "Option::is_none")]
    owners: Option<OwnersView<'a>>,
    /// What networking costs for what it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    efficiency: Option<EfficiencyView>,
    /// Every other section, as it is.
    #[serde(flatten)]
    others: Others<'a>,
}

/// Sections that are arranged above; a section that is not among them is found by its name.
const ARRANGED: &[&str] = &["cost", "modes", "power", "own", "owners"];

/// The sections that have not been given yet, each under its own name.
#[derive(Debug)]
struct Others<'a> {
    sections: &'a Sections,
    given: &'static [&'static str],
}

impl Serialize for Others<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Writer<'a, M>(M, &'a [&'a str]);
        impl<M: SerializeMap> Visitor for Writer<'_, M> {
            type Error = M::Error;
            fn visit<T: Section>(
                &mut self,
                name: &'static str,
                section: &T,
            ) -> Result<(), M::Error> {
                if self.1.contains(&name) {
                    return Ok(());
                }
                self.0.serialize_entry(name, section)
            }
        }
        let mut writer = Writer(serializer.serialize_map(None)?, self.given);
        self.sections.visit(&mut writer)?;
        writer.0.end()
    }
}

#[derive(Debug, Serialize)]
struct ModesView<'a> {
    host: &'a CpuModes,
    cpus: &'a [CpuModes],
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
#[serde(untagged)]
enum PowerView<'a> {
    Measured {
        host_watts: f64,
        network_watts: f64,
        network_energy_joules: f64,
        zones: &'a [ZonePower],
    },
    Unavailable {
        unavailable: &'a str,
    },
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum ComponentView<'a> {
    Measured {
        cpu_ns: &'a [u64],
        total_ns: u64,
        /// Share of the CPU time that all CPUs had in the interval, 0 to 1.
        share_ratio: f64,
        /// Where an estimate lies with a confidence of 95 %, nanoseconds.
        #[serde(skip_serializing_if = "Option::is_none")]
        total_interval_ns: Option<(u64, u64)>,
        #[serde(skip_serializing_if = "Option::is_none")]
        samples: Option<&'a [u32]>,
        /// On what its split among its parts rests.
        #[serde(skip_serializing_if = "Option::is_none")]
        split_basis: Option<BasisView>,
        /// How often it was entered.
        #[serde(skip_serializing_if = "Option::is_none")]
        entries: Option<&'a [u64]>,
    },
    Unavailable {
        unavailable: &'a str,
    },
}

/// On what a split rests, nanoseconds over all CPUs; see [`SplitBasis`].
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
    fn row(&self, index: usize) -> ComponentView<'a> {
        let snapshot = self.snapshot;
        let cost = snapshot.cost();
        match cost.cpu_ns(index) {
            Some(cpu_ns) => {
                let total_ns = cpu_ns.iter().sum();
                ComponentView::Measured {
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
            }
            None => ComponentView::Unavailable {
                unavailable: reason(&self.info.components[index].availability),
            },
        }
    }
}

/// Why a thing is absent from a snapshot.
fn reason(availability: &Availability) -> &str {
    match availability {
        Availability::Unavailable { reason } => reason,
        Availability::Available { .. } => "not measured in this interval",
    }
}

impl<'a> SnapshotView<'a> {
    /// Arranges a snapshot by the names that the daemon's description gives to its rows.
    pub fn new(info: &'a Info, snapshot: &'a Snapshot) -> Self {
        let Sections {
            modes,
            power,
            own,
            owners,
            ..
        } = &snapshot.sections;
        let cost = snapshot.cost();
        SnapshotView {
            sequence: snapshot.sequence,
            time_unix_ns: snapshot.time_unix_ns,
            interval_ns: snapshot.interval_ns,
            cpus: &snapshot.cpus,
            components: Components { info, snapshot },
            ksoftirqd_rx_ns: cost.ksoftirqd_rx_ns.as_deref(),
            cpu_modes: modes.as_ref().map(|modes| ModesView {
                host: &modes.host,
                cpus: &modes.cpus,
            }),
            stacks: Stacks {
                taken: &cost.stacks_taken,
                lost: &cost.stacks_lost,
            },
            probe_missed: info
                .missable
                .iter()
                .zip(&cost.probe_missed)
                .map(|(way, &count)| Missed {
                    probe: &way.probe,
                    reason: &way.reason,
                    count,
                })
                .collect(),
            power: match power {
                Some(power) => PowerView::Measured {
                    host_watts: power.host_watts,
                    network_watts: power.network_watts,
                    network_energy_joules: power.network_energy_joules,
                    zones: &power.zones,
                },
                None => PowerView::Unavailable {
                    unavailable: reason(&info.power),
                },
            },
            own: own.as_ref().map(|own| OwnView::new(info, snapshot, own)),
            owners: owners.as_ref().map(|own| OwnersView::new(info, own)),
            efficiency: EfficiencyView::of(snapshot),
            others: Others {
                sections: &snapshot.sections,
                given: ARRANGED,
            },
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
