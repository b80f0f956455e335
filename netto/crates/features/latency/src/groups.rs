//! Latencies by group, that is, by interface or control group. Every CPU has records of all groups;
//! a group is read only if it has counts.

use std::collections::{BTreeMap, HashMap};

use metrics_common::latency::{Histogram, Point};
use metrics_common::sections::{GroupKind, GroupLatency};

use super::analysis::growth::Counts;
use super::kernel::names::{self, CgroupPaths};
use super::kernel::probes::{GROUPS, Probes};
use crate::request::Grouping;
use netto_sys::system::Roots;

/// The groups and their last readings.
pub(super) struct Groups {
    kind: GroupKind,
    /// By CPU and index of the group; only those with counts.
    before: HashMap<(u32, usize), Before>,
    names: HashMap<u64, String>,
    cgroups: Option<CgroupPaths>,
}

/// The last reading of a record.
#[derive(Default)]
struct Before {
    runs: u64,
    /// By point in the plan's order.
    counts: Vec<Counts>,
}

impl Groups {
    /// `None` if packets are not grouped.
    pub(super) fn new(roots: &Roots, grouping: Grouping) -> Option<Self> {
        let kind = match grouping {
            Grouping::None => return None,
            Grouping::Interface => GroupKind::Interface,
            Grouping::Owner => GroupKind::Owner,
        };
        Some(Groups {
            kind,
            before: HashMap::new(),
            names: HashMap::new(),
            cgroups: CgroupPaths::new(roots),
        })
    }

    /// Counts of each group at each point on these CPUs; packets without a group have no name.
    pub(super) fn collect(
        &mut self,
        probes: &Probes,
        roots: &Roots,
        cpus: &[u32],
    ) -> Vec<GroupLatency> {
        let mut grown = BTreeMap::new();
        for &cpu in cpus {
            for place in 0..GROUPS {
                self.read(probes, cpu, place, &mut grown);
            }
        }
        let named = grown.into_iter().map(|((place, point), histogram)| {
            let key = probes.group(place);
            GroupLatency {
                kind: self.kind,
                name: key.map(|key| self.name(roots, key)),
                point,
                histogram,
            }
        });
        named.collect()
    }

    /// Adds a group's new counts on a CPU, by index of the group and point.
    fn read(
        &mut self,
        probes: &Probes,
        cpu: u32,
        place: usize,
        grown: &mut BTreeMap<(usize, Point), Histogram>,
    ) {
        let record = probes.of_group(cpu as usize, place);
        let runs = record.runs();
        if runs == 0 {
            return;
        }
        let before = self.before.entry((cpu, place)).or_default();
        if runs == before.runs {
            return;
        }
        before.runs = runs;
        let points = &probes.plan().points;
        before.counts.resize(points.len(), Counts::default());
        for ((point, _), before) in points.iter().zip(&mut before.counts) {
            let now = record.counts(*point);
            let histogram = now.since(before).histogram();
            *before = now;
            if histogram.count() > 0 {
                grown.entry((place, *point)).or_default().merge(&histogram);
            }
        }
    }

    /// The name of a group; its number if the name is unknown.
    fn name(&mut self, roots: &Roots, key: u64) -> String {
        if let Some(name) = self.names.get(&key) {
            return name.clone();
        }
        let name = match self.kind {
            GroupKind::Interface => {
                let (number, netns) = (key as u32, key >> 32);
                let is_hosts = names::host_netns(roots) == Some(netns);
                let name = names::name_of_interface(roots, number);
                name.filter(|_| is_hosts)
                    .unwrap_or_else(|| format!("{number} in network namespace {netns}"))
            }
            GroupKind::Owner => {
                let path = self.cgroups.as_ref().and_then(|paths| paths.path(key));
                path.unwrap_or_else(|| format!("control group {key}"))
            }
        };
        self.names.insert(key, name.clone());
        name
    }
}
