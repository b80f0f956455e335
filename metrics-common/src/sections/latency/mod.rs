//! How long packets wait inside the stack, at each of its points.

use serde::{Deserialize, Serialize};

use super::columns::{Columns, Rows};
use super::estimated::{Estimable, Estimated, stretch};
use super::section::Section;
use crate::latency::{BUCKETS, Histogram, Point};
use crate::named;

mod json;
mod recorded;
mod wire;

/// Most named groups of one kind at one point; all others are one group without a name.
pub const MOST_GROUPS: usize = 32;

named! {
    /// The common property of a group of packets.
    #[derive(Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    GroupKind:
    /// The interface by which they were received.
    Interface "interface";
    /// The owner (control group) of their socket.
    Owner "owner";
}

/// The latencies of an interval at one point.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(with = "json::PointView<'static>")
)]
pub struct PointLatency {
    /// The point.
    pub point: Point,
    /// How it is measured: `fentry`, or the tracepoint used instead.
    pub method: String,
    /// Number of latencies in each bucket ([`crate::latency::bounds`]), by CPU
    /// ([`crate::Snapshot::cpus`]). An empty bucket may be absent.
    pub buckets: Rows<u64>,
    /// Sum of all latencies in the buckets, nanoseconds, by CPU.
    pub sum_ns: Vec<u64>,
    /// Packets with a time before their arrival, because clocks differ, by CPU; in no bucket.
    pub negative: Vec<u64>,
    /// Packets that took [`crate::latency::LIMIT_NS`] or longer, by CPU; in no bucket.
    pub too_long: Vec<u64>,
    /// Packets with a lost stamp, by CPU: it is not known when they came, or, for a wait, when they
    /// were enqueued; in no bucket.
    pub lost: Vec<u64>,
}

impl PointLatency {
    /// A point without packets on this many CPUs.
    pub fn new(point: Point, method: impl Into<String>, cpus: usize) -> Self {
        PointLatency {
            point,
            method: method.into(),
            buckets: vec![None; BUCKETS],
            sum_ns: vec![0; cpus],
            negative: vec![0; cpus],
            too_long: vec![0; cpus],
            lost: vec![0; cpus],
        }
    }

    /// The latencies on all CPUs together.
    pub fn histogram(&self) -> Histogram {
        let mut all = Histogram::of(&[], total(&self.sum_ns));
        for (bucket, row) in self.buckets.iter().enumerate() {
            all.add(bucket, row.as_deref().map_or(0, total));
        }
        all
    }

    /// The latencies on the CPU of one column.
    pub fn histogram_of(&self, column: usize) -> Histogram {
        let cell = |row: &[u64]| row.get(column).copied().unwrap_or(0);
        let mut histogram = Histogram::of(&[], cell(&self.sum_ns));
        for (bucket, row) in self.buckets.iter().enumerate() {
            histogram.add(bucket, row.as_deref().map_or(0, cell));
        }
        histogram
    }

    /// Packets with a time before their arrival, on all CPUs.
    pub fn negative_total(&self) -> u64 {
        total(&self.negative)
    }

    /// Packets with a latency beyond the limit, on all CPUs.
    pub fn too_long_total(&self) -> u64 {
        total(&self.too_long)
    }

    /// Packets with a lost stamp, on all CPUs.
    pub fn lost_total(&self) -> u64 {
        total(&self.lost)
    }

    /// The share of all packets at the point whose stamps were not lost, for people.
    pub fn known_share(&self) -> String {
        let anomalies = self.negative_total().saturating_add(self.too_long_total());
        let known = self.histogram().count().saturating_add(anomalies);
        let all = known.saturating_add(self.lost_total());
        format!("{:.1} %", known as f64 / all.max(1) as f64 * 100.0)
    }

    fn add(&mut self, later: &PointLatency, columns: &Columns) {
        let PointLatency {
            point: _,
            method,
            buckets,
            sum_ns,
            negative,
            too_long,
            lost,
        } = self;
        method.clone_from(&later.method);
        columns.add_rows(buckets, &later.buckets);
        columns.add(sum_ns, &later.sum_ns);
        columns.add(negative, &later.negative);
        columns.add(too_long, &later.too_long);
        columns.add(lost, &later.lost);
    }
}

fn total(row: &[u64]) -> u64 {
    row.iter().fold(0, |sum, count| sum.saturating_add(*count))
}

/// The latencies of an interval of one group of packets at one point, on all CPUs together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupLatency {
    /// The kind of group.
    pub kind: GroupKind,
    /// Name of the interface, or path of the control group; null of all that there was no room for.
    pub name: Option<String>,
    /// The point.
    pub point: Point,
    /// The latencies.
    pub histogram: Histogram,
}

/// A point that is not measured, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MissingPoint {
    /// The point.
    pub point: Point,
    /// The reason, for people.
    pub reason: String,
}

/// How long packets waited in an interval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Latency {
    /// The sampling: one packet in this many was measured, on each CPU; 0 only if nothing is
    /// known.
    pub one_in: u64,
    /// The points that are measured, each once, in any order.
    pub points: Vec<PointLatency>,
    /// The same by group, if requested: a bounded number of names of each kind and point, and one
    /// without a name.
    pub groups: Vec<GroupLatency>,
    /// Points that are not measured. A point that was not requested is in neither list.
    pub missing: Vec<MissingPoint>,
    /// How counts were estimated, where not all latencies were taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated: Option<Estimated>,
}

impl Latency {
    /// The latencies of a point; `None` if it is not measured.
    pub fn of(&self, point: Point) -> Option<&PointLatency> {
        self.points.iter().find(|latency| latency.point == point)
    }

    fn add_group(&mut self, later: &GroupLatency) {
        let is_there = |group: &GroupLatency, name: &Option<String>| {
            (group.kind, group.point, &group.name) == (later.kind, later.point, name)
        };
        let place = self
            .groups
            .iter()
            .position(|group| is_there(group, &later.name));
        let names = self.groups.iter().filter(|group| {
            (group.kind, group.point) == (later.kind, later.point) && group.name.is_some()
        });
        let has_room = later.name.is_none() || names.count() < MOST_GROUPS;
        let place = match place {
            None if !has_room => self.groups.iter().position(|group| is_there(group, &None)),
            place => place,
        };
        match place.and_then(|place| self.groups.get_mut(place)) {
            Some(group) => group.histogram.merge(&later.histogram),
            None => self.groups.push(GroupLatency {
                name: later.name.clone().filter(|_| has_room),
                ..later.clone()
            }),
        }
    }

    /// Adds a later interval.
    fn add_interval(&mut self, later: &Self, columns: &Columns) {
        Estimated::add(&mut self.estimated, later.estimated.as_ref());
        let nothing = |point| PointLatency::new(point, "", 0);
        for latency in &mut self.points {
            // Columns move for every point, including those without new values.
            if later.of(latency.point).is_none() {
                let method = std::mem::take(&mut latency.method);
                latency.add(&nothing(latency.point), columns);
                latency.method = method;
            }
        }
        for more in &later.points {
            match self
                .points
                .iter_mut()
                .find(|latency| latency.point == more.point)
            {
                Some(latency) => latency.add(more, columns),
                None => {
                    let mut latency = nothing(more.point);
                    latency.add(more, columns);
                    self.points.push(latency);
                }
            }
        }
        for more in &later.groups {
            self.add_group(more);
        }
        if later.one_in > 0 {
            self.one_in = later.one_in;
            self.missing.clone_from(&later.missing);
        }
    }
}

impl Estimable for Latency {
    fn join(&mut self, later: &Self, cpus: &[u32]) {
        self.add(later, &Columns::join(&mut cpus.to_vec(), cpus));
    }

    fn stretch(&mut self, factor: f64) {
        for point in &mut self.points {
            let buckets = point.buckets.iter_mut().flatten().flatten();
            let further = point.sum_ns.iter_mut().chain(&mut point.negative);
            let further = further.chain(&mut point.too_long).chain(&mut point.lost);
            buckets
                .chain(further)
                .for_each(|count| stretch(count, factor));
        }
        for group in &mut self.groups {
            group.histogram.stretch(factor);
        }
    }

    fn set_estimated(&mut self, estimated: Estimated) {
        self.estimated = Some(estimated);
    }
}

#[cfg(test)]
mod tests;
