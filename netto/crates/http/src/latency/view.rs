//! Latency as JSON: what API and command line give to people and scripts. Pure.

use metrics_common::latency::{Histogram, PERCENTILES, Percentile, Point};
use metrics_common::sections::{GroupKind, MissingPoint, PointLatency};
use metrics_common::{Availability, Info, Latency, Snapshot};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// Of when it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Span {
    begin_unix_seconds: f64,
    end_unix_seconds: f64,
    /// How much of that was measured.
    measured_seconds: f64,
    intervals: u64,
}

impl Span {
    /// One interval more, which is later than those before it.
    pub fn add(&mut self, snapshot: &Snapshot) {
        let begin_ns = snapshot.time_unix_ns.saturating_sub(snapshot.interval_ns);
        if self.intervals == 0 {
            self.begin_unix_seconds = begin_ns as f64 / 1e9;
        }
        self.end_unix_seconds = snapshot.time_unix_ns as f64 / 1e9;
        self.measured_seconds += snapshot.interval_ns as f64 / 1e9;
        self.intervals += 1;
    }
}

/// Latency over some time, and in the newest interval of it.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// When the intervals were.
    pub span: Span,
    /// All of them as one.
    pub sum: Latency,
    /// When the newest interval was.
    pub newest_span: Span,
    /// The newest interval.
    pub newest: Latency,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Answer<'a> {
    Measured(View<'a>),
    Unavailable { unavailable: &'a str },
}

#[derive(Debug, Serialize)]
struct View<'a> {
    one_in: u64,
    span: Span,
    interval: Span,
    points: Vec<PointView<'a>>,
    groups: Vec<GroupView<'a>>,
    missing: &'a [MissingPoint],
}

#[derive(Debug, Serialize)]
struct PointView<'a> {
    point: Point,
    label: &'static str,
    help: &'static str,
    method: &'a str,
    /// Of the whole span.
    #[serde(flatten)]
    span: Figures,
    /// Of the newest interval; absent if the point was not measured then.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<Figures>,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Figures {
    histogram: Histogram,
    percentiles: Percentiles,
    negative: u64,
    too_long: u64,
}

impl Figures {
    fn of(point: &PointLatency) -> Self {
        let histogram = point.histogram();
        Figures {
            percentiles: Percentiles::of(&histogram),
            histogram,
            negative: point.negative_total(),
            too_long: point.too_long_total(),
        }
    }
}

#[derive(Debug, Serialize)]
struct GroupView<'a> {
    kind: GroupKind,
    name: Option<&'a str>,
    point: Point,
    histogram: Histogram,
    percentiles: Percentiles,
}

/// The percentiles by their names; none of nothing.
#[derive(Debug)]
struct Percentiles([Option<Percentile>; PERCENTILES.len()]);

impl Percentiles {
    fn of(histogram: &Histogram) -> Self {
        Percentiles(PERCENTILES.map(|(share, _)| histogram.percentile(share)))
    }
}

impl Serialize for Percentiles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for ((_, name), percentile) in PERCENTILES.iter().zip(&self.0) {
            if let Some(percentile) = percentile {
                map.serialize_entry(name, percentile)?;
            }
        }
        map.end()
    }
}

/// Why there is no latency.
pub fn reason(info: &Info) -> &str {
    let mut instruments = info.instruments.iter();
    let own = instruments.find(|own| own.name == "latency");
    match own.map(|own| &own.availability) {
        Some(Availability::Unavailable { reason }) => reason,
        Some(Availability::Available { .. }) | None => "not measured in this time",
    }
}

/// The answer as JSON: what was measured, or why nothing was.
///
/// # Errors
/// If it cannot be made, for people.
pub fn json(measured: Option<&Measured>, info: &Info) -> Result<Vec<u8>, String> {
    let answer = match measured {
        Some(measured) => Answer::Measured(view(measured)),
        None => Answer::Unavailable {
            unavailable: reason(info),
        },
    };
    serde_json::to_vec(&answer).map_err(|error| format!("cannot write JSON: {error}"))
}

fn view(measured: &Measured) -> View<'_> {
    let sum = &measured.sum;
    // In the order of the table, whoever measured.
    let points = Point::ALL.iter().filter_map(|point| sum.of(*point));
    let points = points.map(|own| PointView {
        point: own.point,
        label: own.point.label(),
        help: own.point.help(),
        method: &own.method,
        span: Figures::of(own),
        interval: measured.newest.of(own.point).map(Figures::of),
    });
    let groups = sum.groups.iter().map(|own| GroupView {
        kind: own.kind,
        name: own.name.as_deref(),
        point: own.point,
        histogram: own.histogram.clone(),
        percentiles: Percentiles::of(&own.histogram),
    });
    View {
        one_in: sum.one_in,
        span: measured.span,
        interval: measured.newest_span,
        points: points.collect(),
        groups: groups.collect(),
        missing: &sum.missing,
    }
}
