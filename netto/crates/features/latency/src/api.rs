//! Latency as JSON, for the sum of the newest snapshots and for the newest one. Pure.

use metrics_common::latency::{Histogram, PERCENTILES, Percentile, Point};
use metrics_common::sections::{
    Columns, Estimated, GroupKind, MissingPoint, PointLatency, Section,
};
use metrics_common::{Info, Latency, Snapshot};
use netto_questions::api::{Answer, Api, Covered, Measured, Question, Refusal, Snapshots, json};
use netto_questions::selection::Selection;
use serde::Serialize;

/// The JSON of latency.
pub const API: Api = Api {
    questions: &[Question {
        name: "latency",
        keys: &["last"],
        answer: Answer::Recent(answer),
    }],
    ..Api::SECTION
};

/// The schemas of its answers, by the names of the questions.
#[cfg(feature = "schema")]
pub const SCHEMAS: &[netto_questions::api::NamedSchema] = &[(
    "latency",
    schemars::SchemaGenerator::root_schema_for::<Measured<'static, AnswerView<'static>>>,
)];

/// Latency over some time, and in the newest interval of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Summed {
    /// The time of the intervals.
    span: Covered,
    /// The sum of all intervals, with all CPUs in one column.
    sum: Latency,
    /// The time of the newest interval.
    newest_span: Covered,
    /// The newest interval.
    newest: Latency,
}

impl Summed {
    /// Adds an interval, which is later than those before it.
    pub(crate) fn add(&mut self, snapshot: &Snapshot, latency: &Latency) {
        self.span.add(snapshot);
        self.sum.add(latency, &Columns::folded());
        self.set_newest(snapshot, latency);
    }

    /// Says what the only interval covers: it is the sum of a log's.
    pub(crate) fn set_span(&mut self, covered: Covered) {
        (self.span, self.newest_span) = (covered, covered);
    }

    /// Sets the newest interval.
    pub(crate) fn set_newest(&mut self, snapshot: &Snapshot, latency: &Latency) {
        self.newest_span = Covered::default();
        self.newest_span.add(snapshot);
        self.newest = latency.clone();
    }
}

fn answer(_: &Selection, snapshots: Snapshots<'_>, info: &Info) -> Result<Vec<u8>, Refusal> {
    let mut summed: Option<Summed> = None;
    for snapshot in snapshots {
        let snapshot = snapshot?;
        if let Some(latency) = &snapshot.sections.latency {
            summed.get_or_insert_default().add(&snapshot, latency);
        }
    }
    text(summed.as_ref(), info)
}

/// The answer: the measured values, or why there are none.
pub(crate) fn text(summed: Option<&Summed>, info: &Info) -> Result<Vec<u8>, Refusal> {
    json(&Measured::of(info, "latency", summed.map(view)))
}

/// How long packets waited inside the stack of late.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct AnswerView<'a> {
    /// One packet in so many was looked at.
    one_in: u64,
    /// How the latencies of the span were estimated, where they were counted for a part of the time
    /// only; absent where all were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated: Option<Estimated>,
    /// Of when it is.
    span: Covered,
    /// The newest interval of it.
    interval: Covered,
    /// Points that are measured, in the order in which packets meet them.
    points: Vec<PointView<'a>>,
    /// The same by interface and by owner, where these are told apart.
    groups: Vec<GroupView<'a>>,
    /// Points that are not measured. One that nobody asked for is neither here nor among the
    /// points.
    missing: &'a [MissingPoint],
}

/// A point.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct PointView<'a> {
    /// Which point of a packet's way.
    point: Point,
    /// Its name for people.
    label: &'static str,
    /// What is measured there, in a sentence.
    help: &'static str,
    /// How it is measured: `fentry`, or which tracepoint stands for it.
    method: &'a str,
    /// Over the whole span.
    #[serde(flatten)]
    span: Figures,
    /// The same in the newest interval; absent if the point was not measured then.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<Figures>,
}

/// The values of a point.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Figures {
    /// Latencies by bucket; a bucket that holds nothing is left out.
    histogram: Histogram,
    /// Below what a share of the packets was, as exactly as the bucket is wide.
    percentiles: Percentiles,
    /// Packets that were there before they had arrived, by their clocks; they are in no bucket.
    negative: u64,
    /// Packets that took 2^34 ns (17 s) or longer; they are in no bucket.
    too_long: u64,
    /// Packets with a lost stamp: it is not known when they came, or, for a wait, when they were
    /// enqueued; they are in no bucket.
    lost: u64,
}

impl Figures {
    fn of(point: &PointLatency) -> Self {
        let histogram = point.histogram();
        Figures {
            percentiles: Percentiles::of(&histogram),
            histogram,
            negative: point.negative_total(),
            too_long: point.too_long_total(),
            lost: point.lost_total(),
        }
    }
}

/// A group of packets at a point.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct GroupView<'a> {
    /// What its packets have in common: the interface that they came in at, or the owner (control
    /// group) of their socket.
    kind: GroupKind,
    /// Name of the interface, or path of the control group; null of all that there was no room for.
    name: Option<&'a str>,
    /// Which point of a packet's way.
    point: Point,
    /// Latencies by bucket; a bucket that holds nothing is left out.
    histogram: Histogram,
    /// Below what a share of the packets was, as exactly as the bucket is wide.
    percentiles: Percentiles,
}

/// The percentiles by their names; empty without packets.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Percentiles {
    /// What 50 % of the packets do not exceed; absent if there was no packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    p50: Option<Percentile>,
    /// What 90 % of the packets do not exceed; absent if there was no packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    p90: Option<Percentile>,
    /// What 99 % of the packets do not exceed; absent if there was no packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    p99: Option<Percentile>,
    /// What 99.9 % of the packets do not exceed; absent if there was no packet.
    #[serde(rename = "p99.9", skip_serializing_if = "Option::is_none")]
    p999: Option<Percentile>,
}

impl Percentiles {
    fn of(histogram: &Histogram) -> Self {
        let [p50, p90, p99, p999] = PERCENTILES.map(|(share, _)| histogram.percentile(share));
        Percentiles {
            p50,
            p90,
            p99,
            p999,
        }
    }
}

fn view(summed: &Summed) -> AnswerView<'_> {
    let sum = &summed.sum;
    // In the order of the table.
    let points = Point::ALL.iter().filter_map(|point| sum.of(*point));
    let points = points.map(|latency| PointView {
        point: latency.point,
        label: latency.point.label(),
        help: latency.point.help(),
        method: &latency.method,
        span: Figures::of(latency),
        interval: summed.newest.of(latency.point).map(Figures::of),
    });
    let groups = sum.groups.iter().map(|group| GroupView {
        kind: group.kind,
        name: group.name.as_deref(),
        point: group.point,
        histogram: group.histogram.clone(),
        percentiles: Percentiles::of(&group.histogram),
    });
    AnswerView {
        one_in: sum.one_in,
        estimated: sum.estimated,
        span: summed.span,
        interval: summed.newest_span,
        points: points.collect(),
        groups: groups.collect(),
        missing: &sum.missing,
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::{Availability, InstrumentInfo, Sections, fixture};
    use serde_json::Value;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn snapshots(latencies: &[Option<Latency>]) -> Vec<Snapshot> {
        let numbered = (1..).zip(latencies);
        let snapshot = |(number, latency): (u64, &Option<Latency>)| Snapshot {
            time_unix_ns: number * SECOND,
            interval_ns: SECOND,
            cpus: vec![0, 1],
            sections: Sections {
                latency: latency.clone(),
                ..Sections::default()
            },
            ..Snapshot::default()
        };
        numbered.map(snapshot).collect()
    }

    fn of(bucket: usize) -> Option<Latency> {
        let mut point = PointLatency::new(Point::TcpStart, "fentry", 2);
        point.buckets[bucket] = Some(vec![1, 98]);
        point.too_long = vec![1, 0];
        point.lost = vec![2, 3];
        Some(Latency {
            one_in: 1,
            points: vec![point],
            ..Latency::default()
        })
    }

    fn answered(latencies: &[Option<Latency>], info: &Info) -> Value {
        let mut snapshots = snapshots(latencies).into_iter().map(Ok);
        let text = answer(&Selection::default(), &mut snapshots, info);
        serde_json::from_slice(&text.unwrap()).unwrap()
    }

    #[test]
    fn it_is_of_the_span_and_of_the_newest_interval() {
        let answer = answered(&[of(5), of(9)], &fixture::info());
        let point = &answer["points"][0];
        assert_eq!(
            (&point["point"], &point["label"]),
            (&"tcp-start".into(), &"TCP".into())
        );
        assert_eq!(point["histogram"]["count"], 198);
        assert_eq!(point["interval"]["histogram"]["count"], 99);
        assert_eq!(point["percentiles"]["p50"]["lower_ns"], 128);
        assert_eq!(point["interval"]["percentiles"]["p99.9"]["lower_ns"], 256);
        assert_eq!(
            (&point["too_long"], &point["negative"]),
            (&2.into(), &0.into())
        );
        assert_eq!(
            (&point["lost"], &point["interval"]["lost"]),
            (&10.into(), &5.into())
        );
        assert_eq!(answer["span"]["intervals"], 2);
    }

    #[test]
    fn where_it_is_not_measured_the_reason_stands() {
        let mut info = fixture::info();
        info.instruments = vec![InstrumentInfo {
            name: "latency".to_owned(),
            availability: Availability::missing("not enabled"),
        }];
        assert_eq!(answered(&[None], &info)["unavailable"], "not enabled");
    }
}
