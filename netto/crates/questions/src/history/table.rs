//! Answers a question about the history as a table. Pure.
//!
//! It adds no data: a row is a time span in the history, or a gap between two; a value that was not
//! measured is null, and missing series have a reason.

use std::ops::Range;

use metrics_common::history::History;
use metrics_common::sections::Unit;
use metrics_common::{Availability, Info};
use serde::{Serialize, Serializer};

use crate::selection::{Complaint, Selection, shortened};

/// Most values of an answer, not counting gaps.
pub const MOST_VALUES: usize = 200_000;
/// The section that has components, and a grid by CPU.
const COST: &str = "cost";
/// Most similar names suggested.
const MOST_ADVICE: usize = 3;
/// Most wrong letters of a name for a suggestion.
const MOST_MISTAKES: usize = 3;

/// The recent past, out of the daemon's ring: the answer of `/api/v1/history`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Table {
    /// From one row to the next, seconds: what was asked for, rounded up to a multiple of the
    /// resolution, or without that the least that fits.
    #[cfg_attr(feature = "schema", schemars(extend("exclusiveMinimum" = 0)))]
    pub step_seconds: f64,
    /// From one point of the ring to the next, seconds.
    #[cfg_attr(feature = "schema", schemars(extend("exclusiveMinimum" = 0)))]
    pub resolution_seconds: f64,
    /// What the ring covers; null before its first point.
    pub ring: Option<Covered>,
    /// When each row was; a row without measured time is a gap.
    pub times: Times,
    /// The columns.
    pub series: Vec<Series>,
    /// What was asked for and cannot be answered.
    pub unavailable: Vec<Absent>,
}

/// A time span.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Covered {
    /// Begin, seconds since the Unix epoch.
    pub begin_unix_seconds: f64,
    /// End, seconds since the Unix epoch.
    pub end_unix_seconds: f64,
}

/// The time of each row.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Times {
    /// Begin of each row, seconds since the Unix epoch.
    pub begin_unix_seconds: Vec<f64>,
    /// End of each row, seconds since the Unix epoch.
    pub end_unix_seconds: Vec<f64>,
    /// Measured time of each row; 0 in a gap.
    pub measured_seconds: Vec<f64>,
}

/// One column.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Series {
    /// Component, or `modes/NAME`, `power/network`, `traffic/NAME`, `drops/packets` or
    /// `latency/POINT/p50` (and `p99`).
    pub name: String,
    /// The kernel's number of the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub cpu: Option<u32>,
    /// A value for each row, under the name of its unit; `None` if not measured.
    #[serde(flatten, serialize_with = "under_unit")]
    #[cfg_attr(feature = "schema", schemars(with = "Values"))]
    pub values: (&'static str, Vec<Option<f64>>),
}

/// [`Series::cpu`] and [`Series::values`], for the schema.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code, reason = "only its fields' names and types are of use")]
enum Values {
    /// CPUs that it kept busy: CPU seconds in each second, of the whole host.
    BusyCpus {
        /// A value for each row; null where nothing was measured.
        busy_cpus: Vec<Option<f64>>,
    },
    /// Watts, of the whole host.
    Watts {
        /// A value for each row; null where nothing was measured.
        watts: Vec<Option<f64>>,
    },
    /// Packets a second, of the whole host.
    PerSecond {
        /// A value for each row; null where nothing was measured.
        per_second: Vec<Option<f64>>,
    },
    /// Bytes a second, of the whole host.
    BytesPerSecond {
        /// A value for each row; null where nothing was measured.
        bytes_per_second: Vec<Option<f64>>,
    },
    /// Seconds: a percentile of latency, of the whole host.
    Seconds {
        /// A value for each row; null where nothing was measured.
        seconds: Vec<Option<f64>>,
    },
    /// Share of a CPU's time, 0 to 1, rounded to 1.6 percentage points at the worst.
    ShareRatio {
        /// The kernel's number of the CPU.
        cpu: u32,
        /// A value for each row; null where nothing was measured.
        share_ratio: Vec<Option<f64>>,
    },
}

fn under_unit<S: Serializer>(
    (unit, values): &(&'static str, Vec<Option<f64>>),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map([(unit, values)])
}

/// An unavailable series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Absent {
    /// As in the series.
    pub name: String,
    /// The reason.
    pub reason: String,
}

/// Answers a selection.
///
/// # Errors
/// If it requests unknown series, or too many values.
pub fn answer(selection: &Selection, history: &History, info: &Info) -> Result<Table, Complaint> {
    let ring = Ring::of(selection, history)?;
    let (columns, unavailable) = columns(selection, history, info, &ring)?;
    let Some(end_ms) = ring.end_ms() else {
        return Ok(Table {
            step_seconds: ring.resolution_ms / 1e3,
            resolution_seconds: ring.resolution_ms / 1e3,
            ring: None,
            times: Times::default(),
            series: columns.iter().map(|column| column.of(&[], &ring)).collect(),
            unavailable,
        });
    };
    let range = within(selection, &ring, end_ms)?;
    let points = step(selection, &ring, range.len(), columns.len())?;
    let rows = rows(&ring, range, points);
    let mut times = Times::default();
    for row in &rows {
        times.begin_unix_seconds.push(row.begin_ms / 1e3);
        times.end_unix_seconds.push(row.end_ms / 1e3);
        let spans = row.points.clone().map(|point| ring.span_ms(point));
        times.measured_seconds.push(spans.sum::<f64>() / 1e3);
    }
    Ok(Table {
        step_seconds: ring.resolution_ms * points as f64 / 1e3,
        resolution_seconds: ring.resolution_ms / 1e3,
        ring: Some(Covered {
            begin_unix_seconds: ring.stretches[0].0 / 1e3,
            end_unix_seconds: end_ms / 1e3,
        }),
        times,
        series: columns
            .iter()
            .map(|column| column.of(&rows, &ring))
            .collect(),
        unavailable,
    })
}

/// The selected part of the history.
struct Ring<'a> {
    history: &'a History,
    /// Begin and end of each point, milliseconds since the Unix epoch.
    stretches: Vec<(f64, f64)>,
    resolution_ms: f64,
    /// Numbers of the selected CPUs, with their indices in the grid.
    cpus: Option<Vec<(u32, usize)>>,
}

impl<'a> Ring<'a> {
    fn of(selection: &Selection, history: &'a History) -> Result<Self, Complaint> {
        let Some(cpus) = &selection.cpus else {
            return Ok(Ring {
                history,
                stretches: (0..history.points())
                    .map(|at| history.point_ms(at))
                    .collect(),
                resolution_ms: history.resolution_ms(),
                cpus: None,
            });
        };
        let known = history.cpus();
        let places = known.iter().enumerate().map(|(place, &cpu)| (cpu, place));
        let meant: Vec<_> = places.filter(|(cpu, _)| cpus.holds(*cpu)).collect();
        if let (true, Some(first), Some(last)) = (meant.is_empty(), known.first(), known.last()) {
            return Err(Complaint(format!(
                "there is no CPU {} here: the ring holds {} CPUs, numbered {first} to {last}",
                shortened(cpus.text()),
                known.len()
            )));
        }
        Ok(Ring {
            history,
            stretches: (0..history.columns())
                .map(|at| history.column_ms(at))
                .collect(),
            resolution_ms: history.column_length_ms(),
            cpus: Some(meant),
        })
    }

    fn end_ms(&self) -> Option<f64> {
        self.stretches.last().map(|(_, end)| *end)
    }

    fn span_ms(&self, point: usize) -> f64 {
        let (begin, end) = self.stretches[point];
        end - begin
    }
}

/// The source of a column's values.
struct Column {
    name: String,
    cpu: Option<u32>,
    unit: Option<Unit>,
    /// Index of a series, or layer and row of the grid.
    place: (usize, usize),
}

impl Column {
    fn value(&self, ring: &Ring<'_>, point: usize) -> Option<f64> {
        match self.cpu {
            None => ring.history.series().at(self.place.0, point),
            Some(_) => ring.history.cell(point, self.place.0, self.place.1),
        }
    }

    fn of(&self, rows: &[Row], ring: &Ring<'_>) -> Series {
        let values = rows.iter().map(|row| self.mean(row, ring)).collect();
        let unit = match self.unit {
            None => "share_ratio",
            Some(Unit::Cpus) => "busy_cpus",
            Some(unit) => unit.slug(),
        };
        Series {
            name: self.name.clone(),
            cpu: self.cpu,
            values: (unit, values),
        }
    }

    /// The mean over measured time, rounded to a millionth, and for seconds to a billionth.
    fn mean(&self, row: &Row, ring: &Ring<'_>) -> Option<f64> {
        let steps = [1e6, 1e9][usize::from(self.unit == Some(Unit::Seconds))];
        let (mut sum, mut measured_ms) = (0.0, 0.0);
        for point in row.points.clone() {
            if let Some(value) = self.value(ring, point) {
                let span_ms = ring.span_ms(point).max(1.0); // A shorter one counts as a millisecond.
                sum += value * span_ms;
                measured_ms += span_ms;
            }
        }
        (measured_ms > 0.0).then(|| (sum / measured_ms * steps).round() / steps)
    }
}

fn columns(
    selection: &Selection,
    history: &History,
    info: &Info,
    ring: &Ring<'_>,
) -> Result<(Vec<Column>, Vec<Absent>), Complaint> {
    let outermost = || {
        let rows = info.components.iter().filter(|row| row.parent.is_none());
        rows.map(|row| row.slug.clone()).collect()
    };
    let names: Vec<String> = if selection.names.is_empty() {
        outermost()
    } else {
        selection.names.clone()
    };
    let (mut columns, mut unavailable) = (Vec::new(), Vec::new());
    let mut absent = |name: &str, reason: &str| {
        unavailable.push(Absent {
            name: name.to_owned(),
            reason: reason.to_owned(),
        });
    };
    for name in names {
        let component = info.components.iter().find(|row| row.slug == name);
        if let Some(Availability::Unavailable { reason }) = component.map(|row| &row.availability) {
            absent(&name, reason);
            continue;
        }
        let series = match component {
            Some(_) => format!("{COST}/{name}"),
            None => name.clone(),
        };
        let Some(place) = history.series().place(&series) else {
            return Err(unknown(&name, info, history));
        };
        let unit = history.series().names().nth(place).map(|(_, unit)| unit);
        let layer = history.grid(COST).and_then(|grid| grid.layer(&name));
        match (&ring.cpus, layer) {
            (None, _) if series == "power/network" && !info.power.is_available() => {
                if let Availability::Unavailable { reason } = &info.power {
                    absent(&name, reason);
                }
            }
            (None, _) => columns.push(Column {
                name,
                cpu: None,
                unit,
                place: (place, 0),
            }),
            (Some(cpus), Some(layer)) => columns.extend(cpus.iter().map(|&(cpu, row)| Column {
                name: name.clone(),
                cpu: Some(cpu),
                unit: None,
                place: (layer, row),
            })),
            (Some(_), None) => absent(
                &name,
                "the ring holds this of the whole host only: ask without cpu",
            ),
        }
    }
    Ok((columns, unavailable))
}

/// The error for an unknown name, with suggestions.
fn unknown(name: &str, info: &Info, history: &History) -> Complaint {
    let others = history.series().names().map(|(name, _)| name);
    let others = others.filter(|name| !name.starts_with("cost/"));
    let slugs = info.components.iter().map(|row| row.slug.as_str());
    // No name is as long as this.
    let asked: String = name.chars().take(80).collect::<String>().to_lowercase();
    let mut near: Vec<(usize, &str)> = slugs
        .chain(others)
        .map(|known| (strsim::damerau_levenshtein(&asked, known), known))
        .filter(|(mistakes, known)| {
            *mistakes <= MOST_MISTAKES || (asked.len() > 2 && known.contains(&asked))
        })
        .collect();
    near.sort_unstable();
    let near: Vec<&str> = near
        .iter()
        .map(|(_, name)| *name)
        .take(MOST_ADVICE)
        .collect();
    let advice = if near.is_empty() {
        "`netto list` names all components".to_owned()
    } else {
        format!("perhaps {}; `netto list` names all", near.join(" or "))
    };
    Complaint(format!(
        "there is no component \"{}\": {advice}, and /api/v1/info those of this host",
        shortened(name)
    ))
}

/// The selected points: those that end in the span.
fn within(selection: &Selection, ring: &Ring<'_>, end_ms: f64) -> Result<Range<usize>, Complaint> {
    let from_ms = selection.from.map(|when| when.unix_ms(end_ms));
    let to_ms = selection.to.map(|when| when.unix_ms(end_ms));
    if let (Some(from_ms), Some(to_ms)) = (from_ms, to_ms)
        && to_ms <= from_ms
    {
        return Err(Complaint(format!(
            "from ({}) is not before to ({}): ask for a span that ends after it begins",
            from_ms / 1e3,
            to_ms / 1e3
        )));
    }
    let until = |ms: f64| ring.stretches.partition_point(|(_, end)| *end <= ms);
    let first = from_ms.map_or(0, until);
    Ok(first..to_ms.map_or(ring.stretches.len(), until).max(first))
}

/// Number of points in a row.
fn step(
    selection: &Selection,
    ring: &Ring<'_>,
    points: usize,
    columns: usize,
) -> Result<usize, Complaint> {
    let too_much = |what: String| {
        Complaint(format!(
            "{what}, and an answer holds {MOST_VALUES} at the most: ask for fewer components or \
             CPUs, a shorter time, or a longer step"
        ))
    };
    let most_rows = MOST_VALUES / columns.max(1);
    if most_rows == 0 {
        return Err(too_much(format!("that is {columns} values in each row")));
    }
    let least = points.div_ceil(most_rows).max(1);
    let Some(seconds) = selection.step_seconds else {
        return Ok(least);
    };
    // A rounding error below a multiple must not add a point.
    let wanted = (seconds * 1e3 / ring.resolution_ms - 1e-6).ceil().max(1.0) as usize;
    if wanted < least {
        let values = points.div_ceil(wanted).saturating_mul(columns);
        let fits = ring.resolution_ms * least as f64 / 1e3;
        return Err(too_much(format!(
            "that is {values} values with a step of {seconds} s, and fits with {fits} s"
        )));
    }
    Ok(wanted)
}

/// A row: some points, or a gap between two.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    begin_ms: f64,
    end_ms: f64,
    points: Range<usize>,
}

/// The rows of this many points each. Longer rows begin at multiples of their length, so that
/// repeated queries give the same rows.
fn rows(ring: &Ring<'_>, range: Range<usize>, points: usize) -> Vec<Row> {
    let step_ms = ring.resolution_ms * points as f64;
    let bin = |point: usize| match points {
        1 => point as f64,
        _ => ((ring.stretches[point].1 - 1.0) / step_ms).floor(),
    };
    let mut rows: Vec<Row> = Vec::new();
    let mut current = None;
    for point in range {
        let (begin_ms, end_ms) = ring.stretches[point];
        match rows.last_mut() {
            Some(row) if current == Some(bin(point)) => {
                row.points.end = point + 1;
                row.end_ms = end_ms;
                continue;
            }
            Some(Row { end_ms: before, .. }) if begin_ms - *before > ring.resolution_ms / 2.0 => {
                let before = *before;
                rows.push(Row {
                    begin_ms: before,
                    end_ms: begin_ms,
                    points: point..point,
                });
            }
            _ => {}
        }
        current = Some(bin(point));
        rows.push(Row {
            begin_ms,
            end_ms,
            points: point..point + 1,
        });
    }
    rows
}

#[cfg(test)]
mod tests;
