//! How long after its arrival a packet is at which point of the stack. Nothing of it is loaded
//! unless it is asked for; it stops for a while where it would cost too much.

use std::collections::HashMap;
use std::path::PathBuf;

use metrics_common::latency::Histogram;
use metrics_common::sections::{GroupKind, GroupLatency, MissingPoint, PointLatency};
use metrics_common::{Latency, Sections};

use self::analysis::growth::{self, Counts};
use self::kernel::names;
use self::kernel::probes::{GROUPS, Probes};
use super::Instrument;
use crate::analysis::latency::{Grouping, Request};
use crate::analysis::rest::{Rest, Turn};
use crate::ground::overhead::Counter;
use crate::ground::{Ground, Tick};

pub mod analysis;
mod kernel;

/// CPU time is measured without it.
pub(super) const IS_ESSENTIAL: bool = false;

/// What a latency takes, nanoseconds, with what calls the program.
const RUN_NS: u64 = 120;
/// What a packet takes that is not chosen.
const PASS_NS: u64 = 15;
/// Of what netto may cost a CPU, the part that latencies may.
const MOST: f64 = 0.5;
/// Control groups that are looked through for the path of one.
const MOST_CGROUPS: usize = 20_000;

/// What is kept from interval to interval.
struct Latencies {
    probes: Probes,
    request: Request,
    /// As they were last read: by CPU, and by point in the plan's order.
    before: Vec<Vec<Counts>>,
    runs_before: Vec<u64>,
    /// By place of the group, and point.
    groups_before: Vec<Vec<Counts>>,
    names: HashMap<u64, String>,
    cgroups: Option<PathBuf>,
    rest: Rest,
}

/// Begins to take latencies.
///
/// # Errors
/// If nobody wants to know, or the kernel refuses all probes.
pub(super) fn start(ground: &mut Ground) -> anyhow::Result<Box<dyn Instrument>> {
    let Some(request) = ground.latency.clone() else {
        anyhow::bail!("not asked for; --latency measures where packets wait in the stack");
    };
    let probes = Probes::start(&ground.roots, ground.readers.possible_cpus, &request)?;
    let missing = probes.plan().missing.iter();
    let missing = missing.map(|(point, reason)| format!("{point} ({reason})"));
    let missing: Vec<String> = missing.collect();
    let told = (!missing.is_empty())
        .then(|| format!("Latencies are not measured at {}.", missing.join(", ")));
    ground.tell("latency", told);
    Ok(Box::new(Latencies {
        before: Vec::new(),
        runs_before: Vec::new(),
        groups_before: Vec::new(),
        names: HashMap::new(),
        cgroups: names::cgroup_mount(&ground.roots).ok(),
        rest: Rest::default(),
        probes,
        request,
    }))
}

impl Latencies {
    /// The points, with what came at each on each of these CPUs.
    fn points(&mut self, cpus: &[u32]) -> Vec<PointLatency> {
        let planned = &self.probes.plan().points;
        let mut points: Vec<PointLatency> = planned
            .iter()
            .map(|(point, method)| PointLatency::new(*point, method, cpus.len()))
            .collect();
        for (column, &cpu) in cpus.iter().enumerate() {
            let cpu = cpu as usize;
            if self.before.len() <= cpu {
                self.before.resize(cpu + 1, Vec::new());
            }
            let before = &mut self.before[cpu];
            before.resize(points.len(), Counts::default());
            for (point, before) in points.iter_mut().zip(before) {
                let now = self.probes.counts(cpu, point.point);
                growth::put(point, column, &now.since(before));
                *before = now;
            }
        }
        points
    }

    /// What the programs took of each of these CPUs, nanoseconds.
    fn taken_ns(&mut self, cpus: &[u32]) -> Vec<u64> {
        let mut taken_ns = Vec::with_capacity(cpus.len());
        for &cpu in cpus {
            let cpu = cpu as usize;
            if self.runs_before.len() <= cpu {
                self.runs_before.resize(cpu + 1, 0);
            }
            let now = self.probes.runs(cpu);
            let runs = now.saturating_sub(self.runs_before[cpu]);
            self.runs_before[cpu] = now;
            taken_ns.push(growth::taken_ns(runs, self.request.one_in, RUN_NS, PASS_NS));
        }
        taken_ns
    }

    /// What came of each group at each point; what is in no group has no name.
    fn groups(&mut self, ground: &Ground, points: &[PointLatency]) -> Vec<GroupLatency> {
        let kind = match self.request.grouping {
            Grouping::None => return Vec::new(),
            Grouping::Interface => GroupKind::Interface,
            Grouping::Owner => GroupKind::Owner,
        };
        let mut groups: Vec<GroupLatency> = Vec::new();
        let mut named = vec![Histogram::default(); points.len()];
        self.groups_before.resize(GROUPS, Vec::new());
        for place in 0..GROUPS {
            let Some(key) = self.probes.group(place) else {
                break;
            };
            let name = self.name(ground, kind, key);
            self.groups_before[place].resize(points.len(), Counts::default());
            for (number, point) in points.iter().enumerate() {
                let mut now = Counts::default();
                for cpu in 0..ground.readers.possible_cpus {
                    now.add(&self.probes.group_counts(cpu, place, point.point));
                }
                let histogram = now.since(&self.groups_before[place][number]).histogram();
                self.groups_before[place][number] = now;
                if histogram.count() == 0 {
                    continue;
                }
                named[number].merge(&histogram);
                groups.push(GroupLatency {
                    kind,
                    name: Some(name.clone()),
                    point: point.point,
                    histogram,
                });
            }
        }
        for (point, named) in points.iter().zip(named) {
            let histogram = growth::rest_of(&point.histogram(), &named);
            if histogram.count() > 0 {
                groups.push(GroupLatency {
                    kind,
                    name: None,
                    point: point.point,
                    histogram,
                });
            }
        }
        groups
    }

    /// What a group is called; its number where that is not to be had.
    fn name(&mut self, ground: &Ground, kind: GroupKind, key: u64) -> String {
        if let Some(name) = self.names.get(&key) {
            return name.clone();
        }
        let name = match kind {
            GroupKind::Interface => {
                let (number, netns) = (key as u32, key >> 32);
                let is_hosts = names::host_netns(&ground.roots) == Some(netns);
                let name = names::name_of_interface(&ground.roots, number);
                name.filter(|_| is_hosts)
                    .unwrap_or_else(|| format!("{number} in network namespace {netns}"))
            }
            GroupKind::Owner => {
                let mount = self.cgroups.as_deref();
                let path = mount.and_then(|mount| names::path_of_cgroup(mount, key, MOST_CGROUPS));
                path.unwrap_or_else(|| format!("control group {key}"))
            }
        };
        self.names.insert(key, name.clone());
        name
    }

    /// Whether latencies are taken in the interval to come.
    fn rest_or_go_on(&mut self, tick: &mut Tick<'_>, most_ns: u64) -> anyhow::Result<()> {
        let may_cost = MOST * tick.ground.overhead.max_ratio();
        let costs = most_ns as f64 / tick.interval_ns.max(1) as f64;
        match self.rest.turn(costs, may_cost, tick.now_ns) {
            Turn::Stop => {
                self.probes.detach();
                let note = "Latencies are taken for a moment every half minute only: there are so \
                            many packets that all would cost too much; --latency-one-in takes \
                            fewer.";
                tick.ground.tell("many latencies", Some(note.to_owned()));
            }
            Turn::Begin => self.probes.attach()?,
            Turn::Count => tick.ground.tell("many latencies", None),
            Turn::Rest => {}
        }
        Ok(())
    }
}

impl Instrument for Latencies {
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        let points = self.points(tick.cpus);
        let groups = self.groups(tick.ground, &points);
        let taken_ns = self.taken_ns(tick.cpus);
        let most_ns = taken_ns.iter().copied().max().unwrap_or(0);
        tick.ground.overhead.charge(Counter::Latency, taken_ns);
        let was_taken = !self.rest.is_resting();
        self.rest_or_go_on(tick, most_ns)?;
        let missing = self.probes.plan().missing.iter();
        let missing = missing.map(|(point, reason)| MissingPoint {
            point: *point,
            reason: reason.clone(),
        });
        sections.latency = was_taken.then(|| Latency {
            one_in: self.request.one_in,
            points,
            groups,
            missing: missing.collect(),
        });
        Ok(())
    }
}
