//! The encoding of the section `latency`, and the validation of decoded values.

use serde::{Deserialize, Serialize};

use super::{GroupKind, GroupLatency, Latency, MOST_GROUPS, MissingPoint, PointLatency};
use crate::latency::{BUCKETS, Histogram, Point};
use crate::packed::{self, Damaged, Packed};
use crate::sections::columns::Columns;
use crate::sections::estimated::{self, Estimated};
use crate::sections::section::Section;

/// Most points of a message: those that this version knows, and those of newer ones.
const MOST_POINTS: usize = 64;
/// Rows of a point after its buckets: sum, negative, too long, lost.
const FURTHER_ROWS: usize = 4;
/// Most values of a message, at all points together.
const MOST_VALUES: usize = 1 << 22;
/// Most groups of a message.
const MOST_GROUP_ROWS: usize = MOST_POINTS * 2 * (MOST_GROUPS + 1);
/// Longest text of a message, bytes.
const MOST_TEXT_BYTES: usize = 4096;

/// [`Latency`] on the wire.
#[derive(Debug, Serialize, Deserialize)]
pub struct LatencyWire {
    one_in: u64,
    points: Vec<PointWire>,
    missing: Vec<MissingWire>,
    groups: Vec<GroupWire>,
    /// A row for each group: its buckets, then its sum.
    histograms: Packed,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    estimated: Option<estimated::Wire>,
}

#[derive(Debug, Serialize, Deserialize)]
struct PointWire {
    point: String,
    method: String,
    /// A row for each bucket, then sum, negative, too long, lost; a column for each CPU.
    table: Packed,
}

#[derive(Debug, Serialize, Deserialize)]
struct MissingWire {
    point: String,
    reason: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct GroupWire {
    kind: String,
    name: Option<String>,
    point: String,
}

impl Section for Latency {
    type Wire = LatencyWire;

    fn to_wire(&self) -> LatencyWire {
        let point = |latency: &PointLatency| {
            let buckets = latency.buckets.iter().map(Option::as_deref);
            let further = [
                &latency.sum_ns,
                &latency.negative,
                &latency.too_long,
                &latency.lost,
            ];
            let further = further.map(|row| Some(row.as_slice()));
            PointWire {
                point: latency.point.slug().to_owned(),
                method: latency.method.clone(),
                table: packed::pack(buckets.chain(further)),
            }
        };
        let rows: Vec<Vec<u64>> = self.groups.iter().map(row_of).collect();
        LatencyWire {
            one_in: self.one_in,
            points: self.points.iter().map(point).collect(),
            missing: self.missing.iter().map(MissingWire::of).collect(),
            groups: self.groups.iter().map(GroupWire::of).collect(),
            histograms: packed::pack(rows.iter().map(|row| Some(row.as_slice()))),
            estimated: Estimated::to_wire(self.estimated.as_ref()),
        }
    }

    /// Unknown points and kinds of groups are skipped.
    fn from_wire(wire: LatencyWire, cpus: usize) -> Result<Self, Damaged> {
        let counts = [wire.points.len(), wire.missing.len()];
        if counts.iter().any(|&count| count > MOST_POINTS) || wire.groups.len() > MOST_GROUP_ROWS {
            return Err(Damaged);
        }
        let mut budget = MOST_VALUES;
        let mut points: Vec<PointLatency> = Vec::new();
        for wire_point in wire.points {
            let Some(point) = Point::of_slug(&wire_point.point) else {
                continue;
            };
            if points.iter().any(|known| known.point == point)
                || wire_point.method.len() > MOST_TEXT_BYTES
            {
                return Err(Damaged);
            }
            let table = packed::unpack_within(&wire_point.table, BUCKETS + FURTHER_ROWS, budget)?;
            budget -= table.iter().flatten().map(Vec::len).sum::<usize>();
            points.push(point_of(point, wire_point.method, table, cpus)?);
        }
        let missing = wire.missing.into_iter().filter_map(MissingWire::read);
        Ok(Latency {
            one_in: wire.one_in,
            points,
            missing: missing.collect::<Result<_, _>>()?,
            groups: groups_of(wire.groups, &wire.histograms)?,
            estimated: wire.estimated.map(Estimated::from),
        })
    }

    fn add(&mut self, later: &Self, columns: &Columns) {
        self.add_interval(later, columns);
    }
}

impl MissingWire {
    fn of(missing: &MissingPoint) -> Self {
        MissingWire {
            point: missing.point.slug().to_owned(),
            reason: missing.reason.clone(),
        }
    }

    /// `None` if the point is unknown.
    fn read(self) -> Option<Result<MissingPoint, Damaged>> {
        let point = Point::of_slug(&self.point)?;
        let reason = self.reason;
        Some(if reason.len() > MOST_TEXT_BYTES {
            Err(Damaged)
        } else {
            Ok(MissingPoint { point, reason })
        })
    }
}

impl GroupWire {
    fn of(group: &GroupLatency) -> Self {
        GroupWire {
            kind: group.kind.slug().to_owned(),
            name: group.name.clone(),
            point: group.point.slug().to_owned(),
        }
    }
}

fn row_of(group: &GroupLatency) -> Vec<u64> {
    let counts = group.histogram.counts().iter().copied();
    counts.chain([group.histogram.sum_ns]).collect()
}

fn point_of(
    point: Point,
    method: String,
    mut table: packed::Rows,
    cpus: usize,
) -> Result<PointLatency, Damaged> {
    let is_whole = table.iter().flatten().all(|row| row.len() == cpus);
    if table.len() != BUCKETS + FURTHER_ROWS || !is_whole {
        return Err(Damaged);
    }
    let mut last = || table.pop().flatten().ok_or(Damaged);
    let (lost, too_long, negative, sum_ns) = (last()?, last()?, last()?, last()?);
    Ok(PointLatency {
        point,
        method,
        buckets: table,
        sum_ns,
        negative,
        too_long,
        lost,
    })
}

fn groups_of(wires: Vec<GroupWire>, histograms: &Packed) -> Result<Vec<GroupLatency>, Damaged> {
    if wires.is_empty() {
        return Ok(Vec::new());
    }
    let width = BUCKETS + 1;
    let rows = packed::unpack_within(histograms, wires.len(), wires.len() * width)?;
    if rows.len() != wires.len() {
        return Err(Damaged);
    }
    let mut groups = Vec::new();
    for (wire, row) in wires.into_iter().zip(rows) {
        let row = row.filter(|row| row.len() == width).ok_or(Damaged)?;
        if wire
            .name
            .as_ref()
            .is_some_and(|name| name.len() > MOST_TEXT_BYTES)
        {
            return Err(Damaged);
        }
        let mut kinds = GroupKind::ALL.into_iter();
        let kind = kinds.find(|kind| kind.slug() == wire.kind);
        let (Some(kind), Some(point)) = (kind, Point::of_slug(&wire.point)) else {
            continue;
        };
        groups.push(GroupLatency {
            kind,
            name: wire.name,
            point,
            histogram: Histogram::of(&row[..BUCKETS], row[BUCKETS]),
        });
    }
    Ok(groups)
}
