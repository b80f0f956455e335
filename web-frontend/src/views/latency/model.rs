//! Figures of latency as plain values. Pure.

use metrics_common::history::History;
use metrics_common::latency::words::{bars, time};
use metrics_common::latency::{Histogram, PERCENTILES, Percentile, Point};
use metrics_common::sections::GroupKind;
use metrics_common::{Info, Snapshot};

use super::choices::Grouping;
use crate::basis::{Amount, Basis};
use crate::format;
use crate::timeline::{self, Frame};
use metrics_common::component::NETWORK;

/// A line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatencyRow {
    /// The point.
    pub point: Point,
    /// The group; `None`: all packets of the point.
    pub group: Option<String>,
    /// Percentiles, each with the bounds of its bucket.
    pub figures: Vec<Figure>,
    /// Packets per second.
    pub rate: String,
    /// The histogram in bars of text.
    pub bars: String,
}

/// A percentile in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// The value with its unit; a dash if there is none.
    pub value: String,
    /// The bounds of its bucket.
    pub bounds: String,
}

impl Figure {
    fn of(percentile: Option<Percentile>) -> Self {
        match percentile {
            None => Figure {
                value: "–".to_owned(),
                bounds: String::new(),
            },
            Some(percentile) => Figure {
                value: time(percentile.ns),
                bounds: format!("{} to {} ns", percentile.lower_ns, percentile.upper_ns),
            },
        }
    }
}

fn line(
    point: Point,
    group: Option<String>,
    histogram: &Histogram,
    interval_ns: u64,
) -> LatencyRow {
    let rate = histogram.count() as f64 / interval_ns.max(1) as f64 * 1e9;
    LatencyRow {
        point,
        group,
        figures: PERCENTILES
            .map(|(share, _)| Figure::of(histogram.percentile(share)))
            .to_vec(),
        rate: format::count(rate.round() as u64),
        bars: bars(histogram),
    }
}

/// The lines of the table: each measured point, with its groups below.
pub fn lines(snapshot: &Snapshot, grouping: Grouping) -> Vec<LatencyRow> {
    let Some(latency) = &snapshot.sections.latency else {
        return Vec::new();
    };
    let kind = match grouping {
        Grouping::None => None,
        Grouping::Interface => Some(GroupKind::Interface),
        Grouping::Owner => Some(GroupKind::Owner),
    };
    let ns = snapshot.interval_ns;
    let mut lines = Vec::new();
    for point in Point::ALL {
        let Some(measured) = latency.of(point) else {
            continue;
        };
        lines.push(line(point, None, &measured.histogram(), ns));
        let groups = latency.groups.iter();
        let groups = groups.filter(|group| group.point == point && Some(group.kind) == kind);
        lines.extend(groups.map(|group| {
            let name = group.name.clone().unwrap_or_else(|| "other".to_owned());
            line(point, Some(name), &group.histogram, ns)
        }));
    }
    lines
}

/// Sentences about points that are not measured, and about packets outside of buckets; empty if
/// there are none.
pub fn remarks(snapshot: &Snapshot) -> String {
    let Some(latency) = &snapshot.sections.latency else {
        return String::new();
    };
    let mut notes = Vec::new();
    if latency.one_in > 1 {
        notes.push(format!("One packet in {} is looked at.", latency.one_in));
    }
    if let Some(estimated) = latency.estimated {
        notes.push(estimated.sentence("Latencies"));
    }
    for missing in &latency.missing {
        notes.push(format!(
            "{}: not measured, {}.",
            missing.point.label(),
            missing.reason
        ));
    }
    for measured in &latency.points {
        let (negative, too_long) = (measured.negative_total(), measured.too_long_total());
        if negative + too_long > 0 {
            notes.push(format!(
                "{}: {negative} packets were there before they had arrived, by their clocks, and \
                 {too_long} took 17 s or longer; they are in no figure.",
                measured.point.label()
            ));
        }
        if measured.lost_total() > 0 {
            notes.push(format!(
                "{}: lost stamps of {} packets; the figures know {} of all.",
                measured.point.label(),
                measured.lost_total(),
                measured.known_share()
            ));
        }
    }
    notes.join(" ")
}

/// CPU time of networking in each step, in the unit of the page.
pub fn cost(info: &Info, history: &History, frame: &Frame, basis: Basis) -> Vec<Option<f64>> {
    let Some(network) = info.row_of(NETWORK) else {
        return vec![None; frame.steps];
    };
    let cpus = timeline::means(history, frame, |point| {
        history.component_cpus(network, point)
    });
    let host_cpus = history.cpus().len().max(1);
    let value = |cpus: f64| basis.value(Amount::of_share(cpus / host_cpus as f64, host_cpus));
    cpus.into_iter().map(|cpus| cpus.map(value)).collect()
}

/// Median and 99th percentile of a point in each step, nanoseconds: the means over the intervals.
pub fn percentiles(history: &History, frame: &Frame, point: Point) -> [Vec<Option<f64>>; 2] {
    [0, 1].map(|which| {
        let series = 2 * point.index() + which;
        let seconds = timeline::means(history, frame, |at| {
            history.series().value("latency", series, at)
        });
        let ns = |seconds: Option<f64>| seconds.map(|seconds| (seconds * 1e9).round());
        seconds.into_iter().map(ns).collect()
    })
}

#[cfg(test)]
pub(super) mod tests {
    use metrics_common::sections::{GroupLatency, MissingPoint, PointLatency};
    use metrics_common::{Availability, InstrumentInfo, Latency};

    use super::*;
    use crate::fixture::{self, FRAME};

    /// A host that measures latency.
    pub fn info() -> Info {
        Info {
            instruments: vec![InstrumentInfo {
                name: "latency".to_owned(),
                availability: Availability::by("test"),
            }],
            ..fixture::info()
        }
    }

    /// Half a second in which 99 segments take 1.9 µs and one takes 2 ms.
    pub fn measured() -> Snapshot {
        let mut snapshot = fixture::snapshot(1);
        let mut point = PointLatency::new(Point::TcpSocketRead, "fentry", 2);
        point.buckets[20] = Some(vec![99, 0]);
        point.buckets[60] = Some(vec![0, 1]);
        point.too_long = vec![0, 3];
        point.lost = vec![100, 3];
        let groups = vec![GroupLatency {
            kind: GroupKind::Owner,
            name: None,
            point: Point::TcpSocketRead,
            histogram: point.histogram(),
        }];
        snapshot.sections.latency = Some(Latency {
            one_in: 64,
            points: vec![point],
            groups,
            missing: vec![MissingPoint {
                point: Point::Qdisc,
                reason: "no tracepoint".to_owned(),
            }],
            estimated: None,
        });
        snapshot
    }

    /// Half seconds with these numbers and equal values.
    pub fn history(numbers: &[u64]) -> History {
        let mut history = History::new(&info());
        for &number in numbers {
            let mut snapshot = measured();
            snapshot.sequence = number;
            snapshot.time_unix_ns = number * 500 * fixture::MS;
            history.push(&snapshot);
        }
        history
    }

    #[test]
    fn each_point_has_its_percentiles_and_groups_below_it_where_they_are_wanted() {
        let lines_by = |grouping| lines(&measured(), grouping);
        let [line] = &lines_by(Grouping::Interface)[..] else {
            panic!("one line");
        };
        let values: Vec<&str> = line
            .figures
            .iter()
            .map(|figure| figure.value.as_str())
            .collect();
        assert_eq!(values, ["1.9 µs", "1.9 µs", "1.9 µs", "2.0 ms"]);
        assert_eq!(line.figures[0].bounds, "1792 to 2048 ns");
        assert_eq!(line.rate, "200");
        let grouped = lines_by(Grouping::Owner);
        assert_eq!(grouped[1].group.as_deref(), Some("other"));
        assert!(lines(&fixture::snapshot(1), Grouping::None).is_empty());
    }

    #[test]
    fn what_is_not_measured_or_in_no_figure_is_said() {
        let notes = remarks(&measured());
        for part in [
            "One packet in 64",
            "Queueing discipline: not measured, no tracepoint.",
            "3 took 17 s",
            "lost stamps of 103 packets; the figures know 50.0 % of all.",
        ] {
            assert!(notes.contains(part), "{part} in {notes}");
        }
        assert_eq!(remarks(&fixture::snapshot(1)), "");
    }

    #[test]
    fn cost_and_latency_are_of_the_same_seconds() {
        let info = info();
        let history = history(&[1, 2, 3, 4]);
        // 120 of 500 ms, of two CPUs.
        for (basis, value) in [(Basis::Milliseconds, 240.0), (Basis::Host, 12.0)] {
            assert_eq!(
                cost(&info, &history, &FRAME, basis),
                [Some(value), Some(value), None]
            );
        }
        let [median, high] = percentiles(&history, &FRAME, Point::TcpSocketRead);
        assert_eq!(median, [Some(1_920.0), Some(1_920.0), None]);
        assert_eq!(high, median);
        assert_eq!(percentiles(&history, &FRAME, Point::IpStart)[0], [None; 3]);
    }
}
