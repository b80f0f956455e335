//! The output of `netto latency`: lines of text, with a bar for each power of two. Pure.

use std::fmt::Write as _;

use metrics_common::latency::words::{POWERS, bars, power_text, time};
use metrics_common::latency::{Histogram, PERCENTILES, Point};
use metrics_common::{Info, Latency, Sections, Snapshot};
use netto_questions::api::{Covered, Refusal, TextView, absence};
use netto_questions::figures::count;
use netto_questions::window::Window;

use crate::api::{self, Summed};

/// Width of names and figures.
const NAME: usize = 24;
const FIGURE: usize = 9;
/// Distance of the axis' labels, in powers: room for a label and a space.
const LABEL_POWERS: usize = 6;

/// The latencies of the newest intervals.
#[derive(Debug, Default)]
pub struct View {
    window: Window,
    /// Whether interfaces and owners are shown, too.
    has_groups: bool,
    /// What a log covers.
    covered: Option<Covered>,
}

impl View {
    /// Empty.
    pub fn new(has_groups: bool) -> Self {
        View {
            has_groups,
            ..View::default()
        }
    }
}

impl TextView for View {
    fn push(&mut self, info: &Info, snapshot: Snapshot) -> Result<(), String> {
        if snapshot.sections.latency.is_none() {
            let reason = absence(info, "latency").unwrap_or("not measured in this time");
            return Err(format!("latency is not measured there: {reason}"));
        }
        let sections = Sections {
            latency: snapshot.sections.latency,
            ..Sections::default()
        };
        self.window.push(&Snapshot {
            sections,
            ..snapshot
        });
        Ok(())
    }

    fn set_covered(&mut self, covered: Covered) {
        self.covered = Some(covered);
    }

    fn clear(&mut self) {
        self.window.clear();
        self.covered = None;
    }

    fn text(&self, info: &Info, length_ns: u64) -> String {
        let sum = self.window.sum(length_ns).unwrap_or_default();
        let seconds = sum.interval_ns.max(1) as f64 / 1e9;
        let latency = sum.sections.latency.unwrap_or_default();
        measured(info, &latency, seconds, self.has_groups)
    }

    fn json(&self, info: &Info, length_ns: u64) -> Result<Vec<u8>, Refusal> {
        let mut summed = Summed::default();
        let sum = self.window.sum(length_ns).unwrap_or_default();
        summed.add(&sum, &sum.sections.latency.clone().unwrap_or_default());
        let newest = self.window.sum(0).unwrap_or_default();
        summed.set_newest(
            &newest,
            &newest.sections.latency.clone().unwrap_or_default(),
        );
        if let Some(covered) = self.covered {
            summed.set_span(covered);
        }
        api::text(Some(&summed), info)
    }
}

/// The axis of the bars.
fn axis() -> String {
    let mut axis = String::new();
    for power in (1..POWERS).step_by(LABEL_POWERS) {
        let _ = write!(
            axis,
            "{:>width$}",
            "",
            width = power.saturating_sub(axis.chars().count())
        );
        axis.push_str(&power_text(power).replace(' ', ""));
    }
    axis
}

/// A line of figures and bars.
fn line(name: &str, histogram: &Histogram, seconds: f64) -> String {
    let mut line = format!("{name:<NAME$}");
    for (share, _) in PERCENTILES {
        let figure = histogram
            .percentile(share)
            .map_or("–".to_owned(), |percentile| time(percentile.ns));
        let _ = write!(line, "{figure:>FIGURE$}");
    }
    let rate = histogram.count() as f64 / seconds;
    let rate = count(rate.round() as u64);
    let _ = write!(line, "{rate:>FIGURE$}  {}", bars(histogram));
    line.trim_end().to_owned()
}

/// The latencies of this time, with their groups if requested.
fn measured(info: &Info, latency: &Latency, seconds: f64, has_groups: bool) -> String {
    let every = match latency.one_in {
        0 | 1 => "every packet".to_owned(),
        one_in => format!("one packet in {one_in}"),
    };
    let estimated = latency.estimated.map_or(String::new(), |estimated| {
        format!("{}\n", estimated.sentence("Latencies"))
    });
    let mut text = format!(
        "netto latency · {} · {seconds:.1} s · {every}\n{estimated}\n",
        info.hostname
    );
    let _ = write!(text, "{:<NAME$}", "");
    for (_, name) in PERCENTILES {
        let _ = write!(text, "{name:>FIGURE$}");
    }
    let _ = writeln!(text, "{:>FIGURE$}  {}", "/s", axis());
    for point in Point::ALL {
        let Some(point_latency) = latency.of(point) else {
            continue;
        };
        let _ = writeln!(
            text,
            "{}",
            line(point.label(), &point_latency.histogram(), seconds)
        );
        let groups = latency.groups.iter();
        for group in groups.filter(|group| has_groups && group.point == point) {
            let name = group.name.as_deref().unwrap_or("other");
            let name: String = format!("  {name}").chars().take(NAME - 1).collect();
            let _ = writeln!(text, "{}", line(&name, &group.histogram, seconds));
        }
        let lost = format!(
            "with a lost stamp ({} of these packets are known)",
            point_latency.known_share()
        );
        let anomalies = [
            (
                point_latency.negative_total(),
                "before they had arrived, by their clocks",
            ),
            (point_latency.too_long_total(), "after 17 s and more"),
            (point_latency.lost_total(), lost.as_str()),
        ];
        for (count, what) in anomalies.into_iter().filter(|(count, _)| *count > 0) {
            let _ = writeln!(text, "  in no bucket: {count} {what}");
        }
    }
    for missing in &latency.missing {
        let name = missing.point.label();
        let _ = writeln!(text, "{name:<NAME$}  unavailable: {}", missing.reason);
    }
    text
}

#[cfg(test)]
mod tests {
    use metrics_common::fixture;
    use metrics_common::sections::{GroupKind, GroupLatency, MissingPoint, PointLatency};

    use super::*;

    #[test]
    fn the_axis_has_its_labels_over_their_bars() {
        let axis = axis();
        for (power, label) in [(1, " 64ns "), (7, " 4µs "), (25, " 1s")] {
            let found: String = axis
                .chars()
                .skip(power - 1)
                .take(label.chars().count())
                .collect();
            assert_eq!(found, label, "{axis}");
        }
    }

    #[test]
    fn each_point_has_its_figures_its_groups_and_what_is_missing_its_reason() {
        let mut point = PointLatency::new(Point::TcpStart, "fentry", 1);
        point.buckets[20] = Some(vec![100]);
        point.negative = vec![7];
        point.lost = vec![300];
        let group = GroupLatency {
            kind: GroupKind::Interface,
            name: None,
            point: Point::TcpStart,
            histogram: point.histogram(),
        };
        let latency = Latency {
            one_in: 64,
            points: vec![point],
            groups: vec![group],
            missing: vec![MissingPoint {
                point: Point::Qdisc,
                reason: "no such tracepoint".to_owned(),
            }],
            estimated: None,
        };
        let text = measured(&fixture::info(), &latency, 2.0, true);
        for part in [
            "netto latency · host · 2.0 s · one packet in 64",
            "TCP                        1.9 µs   1.9 µs   1.9 µs   1.9 µs       50       █",
            "  other                    1.9 µs",
            "in no bucket: 7 before",
            "in no bucket: 300 with a lost stamp (26.3 % of these packets are known)",
            "Queueing discipline       unavailable: no such tracepoint",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!measured(&fixture::info(), &latency, 2.0, false).contains("other"));
    }
}
