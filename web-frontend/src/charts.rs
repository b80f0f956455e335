//! What the charts over time show of the history, as plain values: events on
//! top of each other, and the parts of the chosen one; with their legends and
//! text alternatives. Pure.

use metrics_common::history::History;
use metrics_common::snapshot::Info;

use crate::areas::{Chart, Layer};
use crate::bars::Rgb;
use crate::format;
use crate::timeline::{self, Frame};
use crate::view_model::{index_of, parts_of};

/// What happened lately, beside the headline.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trend {
    /// Networking's share in steps of the last minutes, per cent.
    pub course: Vec<Option<f64>>,
    /// Per cent points more than a minute ago; `None` without a minute to compare with.
    pub change: Option<f64>,
    /// The event that leads, and its share of all networking.
    pub event: Option<(String, f64)>,
    /// The part of an event that leads, with its share of all networking.
    pub part: Option<(String, f64)>,
}

/// Over how long a moment is averaged, milliseconds.
const MOMENT_MS: f64 = 5_000.0;
const MINUTE_MS: f64 = 60_000.0;

/// The trend at the end of a history.
pub fn trend(info: &Info, history: &History, cpus: usize) -> Trend {
    let (Some(last), Some(network)) = (history.points().checked_sub(1), index_of(info, "network"))
    else {
        return Trend::default();
    };
    let now_ms = history.point_ms(last).1;
    let percent = |point| {
        history
            .component_cpus(network, point)
            .map(|n| n / cpus.max(1) as f64 * 100.0)
    };
    let moment_ms = MOMENT_MS.max(history.resolution_ms());
    let at = |end: f64| timeline::mean(history, end - moment_ms, end, percent);
    let step_ms = 2_500.0_f64.max(history.resolution_ms());
    let steps = (5.0 * MINUTE_MS / step_ms) as usize;
    let end_ms = (now_ms / step_ms).floor() * step_ms;
    let frame = Frame {
        from_ms: end_ms - steps as f64 * step_ms,
        step_ms,
        steps: steps.max(2),
    };
    let shares = |whole: &str| -> Vec<(usize, f64)> {
        let of = |index| {
            let value = |point| history.component_cpus(index, point);
            timeline::mean(history, now_ms - moment_ms, now_ms, value)
        };
        parts_of(info, whole)
            .filter_map(|i| Some((i, of(i)?)))
            .collect()
    };
    let events = shares("network");
    let all: f64 = events.iter().map(|(_, value)| value).sum();
    let leader = |rows: &[(usize, f64)]| {
        let most = rows.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        (most.1 > 0.0).then(|| (info.components[most.0].label.clone(), most.1 / all))
    };
    let parts: Vec<(usize, f64)> = events
        .iter()
        .flat_map(|&(event, _)| shares(&info.components[event].slug))
        .collect();
    Trend {
        course: timeline::means(history, &frame, percent),
        change: at(now_ms)
            .zip(at(now_ms - MINUTE_MS))
            .map(|(now, then)| now - then),
        event: leader(&events),
        part: leader(&parts),
    }
}

/// A change in per cent points as people read it, with its direction.
pub fn change_text(points: f64) -> String {
    let size = points.abs();
    let digits = if size < 0.995 { 2 } else { 1 };
    match points {
        _ if size < 0.005 => "as a minute ago".to_owned(),
        up if up > 0.0 => format!("▲ {size:.digits$} points in a minute"),
        _ => format!("▼ {size:.digits$} points in a minute"),
    }
}

/// The parts of a component over time, on top of each other, as per cent of all
/// CPUs. Parts that never appear in the stretch are left out.
pub fn parts_chart(
    info: &Info,
    history: &History,
    whole: &str,
    frame: Frame,
    cpus: usize,
    offset_ms: f64,
) -> Chart {
    let indices: Vec<usize> = match parts_of(info, whole).next() {
        Some(_) => parts_of(info, whole).collect(),
        None => index_of(info, whole).into_iter().collect(),
    };
    let layers = indices
        .into_iter()
        .filter(|&index| info.components[index].availability.is_available())
        .map(|index| {
            let component = &info.components[index];
            let share = |point| {
                let value = history.component_cpus(index, point)?;
                Some(value / cpus.max(1) as f64 * 100.0)
            };
            Layer {
                key: component.slug.clone(),
                label: component.label.clone(),
                color: Rgb::parse(&component.color),
                values: timeline::means(history, &frame, share),
            }
        })
        .filter(|layer| layer.values.iter().flatten().any(|value| *value > 0.0))
        .collect();
    Chart::new(frame, layers, offset_ms)
}

/// One entry of a chart's legend.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Slug of the component.
    pub key: String,
    /// Name for people.
    pub label: String,
    /// Its colour.
    pub color: Rgb,
    /// Its value at the moment, with the unit.
    pub value: String,
}

/// The legend at a step (the last one that has values, if none is given), the
/// largest mean of the stretch first.
pub fn legend(chart: &Chart, step: Option<usize>) -> Vec<Entry> {
    let step = step.or_else(|| {
        (0..chart.frame.steps)
            .rev()
            .find(|&s| chart.sum_at(s).is_some())
    });
    let mut layers: Vec<&Layer> = chart.layers.iter().collect();
    let sum = |layer: &Layer| layer.values.iter().flatten().sum::<f64>();
    layers.sort_by(|a, b| sum(b).total_cmp(&sum(a)));
    layers
        .into_iter()
        .map(|layer| Entry {
            key: layer.key.clone(),
            label: layer.label.clone(),
            color: layer.color,
            value: match step.and_then(|step| layer.values.get(step).copied().flatten()) {
                Some(value) => format!("{} %", fine_percent(value)),
                None => "–".to_owned(),
            },
        })
        .collect()
}

/// Per cent with two decimals below one, where one decimal would stand still.
pub fn fine_percent(percent: f64) -> String {
    match percent {
        low if low > 0.0 && low < 0.005 => "<0.01".to_owned(),
        low if low > 0.0 && low < 0.995 => format!("{low:.2}"),
        _ => format::percent(percent / 100.0),
    }
}

/// The chart in a sentence or two, for those who do not see it.
pub fn spoken(chart: &Chart, what: &str) -> String {
    let minutes = chart.frame.step_ms * chart.frame.steps as f64 / 60_000.0;
    let sums = || (0..chart.frame.steps).filter_map(|step| chart.sum_at(step));
    let count = sums().count();
    if count == 0 {
        return format!("{what}: nothing was measured in these {minutes:.1} minutes.");
    }
    let mean = sums().sum::<f64>() / count as f64;
    let (low, high) = sums().fold((f64::MAX, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    let leaders: Vec<String> = legend(chart, None)
        .into_iter()
        .take(3)
        .map(|entry| format!("{} {}", entry.label, entry.value))
        .collect();
    format!(
        "{what}, the last {minutes:.1} minutes shown: {} % of the host's CPU time on average, \
         from {} % to {} %. Now: {}.",
        fine_percent(mean),
        fine_percent(low),
        fine_percent(high),
        leaders.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    const FRAME: Frame = Frame {
        from_ms: 0.0,
        step_ms: 1_000.0,
        steps: 3,
    };

    #[test]
    fn the_trend_compares_with_a_minute_ago_and_names_the_leaders() {
        let info = fixture::info();
        let numbers: Vec<u64> = (1..=130).collect();
        let trend = trend(&info, &fixture::history(&numbers), 100);
        // Half seconds 121 to 130 against 1 to 10: 120 CPUs more, of 100.
        assert!((trend.change.unwrap() - 120.0).abs() < 1e-6, "{trend:?}");
        assert_eq!(trend.event.map(|e| e.0).as_deref(), Some("RX softirq"));
        assert_eq!(
            trend.part.map(|p| p.0).as_deref(),
            Some("Local delivery v4")
        );
        assert!(trend.course.iter().flatten().count() > 20);
        let short = super::trend(&info, &fixture::history(&[1, 2]), 2);
        assert_eq!(short.change, None, "there was no minute ago");
        assert_eq!(
            super::trend(&info, &fixture::history(&[]), 2),
            Trend::default()
        );
    }

    #[test]
    fn a_change_has_a_direction_in_words_and_not_only_in_colour() {
        assert_eq!(change_text(0.001), "as a minute ago");
        assert_eq!(change_text(0.25), "▲ 0.25 points in a minute");
        assert_eq!(change_text(-12.34), "▼ 12.3 points in a minute");
    }

    #[test]
    fn a_chart_holds_the_parts_that_appear_and_the_whole_if_there_are_none() {
        let (info, history) = (fixture::info(), fixture::history(&[1, 2, 3]));
        let keys = |whole: &str| -> Vec<String> {
            let chart = parts_chart(&info, &history, whole, FRAME, 2, 0.0);
            chart.layers.into_iter().map(|layer| layer.key).collect()
        };
        assert_eq!(keys("network"), ["tx_syscall", "rx_softirq"]);
        assert_eq!(keys("rx_softirq"), ["driver_poll", "local_delivery_v4"]);
        assert_eq!(keys("tx_syscall"), ["send_copy"]);
        assert_eq!(keys("nothing"), Vec::<String>::new());

        let (mut history, mut last) = (History::new(&info), fixture::snapshot(1));
        last.time_unix_ns = 500 * fixture::MS;
        last.components[index_of(&info, "tx_softirq").unwrap()] = Some(vec![fixture::MS, 0]);
        history.push(&last);
        let whole = parts_chart(&info, &history, "tx_softirq", FRAME, 2, 0.0);
        assert_eq!(whole.layers[0].key, "tx_softirq");
    }

    #[test]
    fn the_legend_has_the_values_at_the_cursor_largest_first() {
        let (info, history) = (fixture::info(), fixture::history(&[1, 2, 3]));
        let chart = parts_chart(&info, &history, "network", FRAME, 2, 0.0);
        let at = |step| -> Vec<(String, String)> {
            let entries = legend(&chart, step);
            entries.into_iter().map(|e| (e.key, e.value)).collect()
        };
        // The first second has half seconds 1 only, from 0 to 0.5, and 2: 1.5 CPUs of 2.
        let first = [("rx_softirq", "75.0 %"), ("tx_syscall", "2.0 %")];
        assert_eq!(
            at(Some(0)),
            first.map(|(k, v)| (k.to_owned(), v.to_owned()))
        );
        assert_eq!(at(None)[0].1, "150.0 %", "the last step with a value");
        assert_eq!(at(Some(2))[0].1, "–");
    }

    #[test]
    fn the_text_alternative_says_what_the_eye_would_see() {
        let (info, history) = (fixture::info(), fixture::history(&[1, 2, 3]));
        let chart = parts_chart(&info, &history, "network", FRAME, 2, 0.0);
        let text = spoken(&chart, "Events");
        for part in ["Events", "on average", "152.0 %", "Now: RX softirq 150.0 %"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let empty = parts_chart(&info, &fixture::history(&[]), "network", FRAME, 2, 0.0);
        assert!(spoken(&empty, "Events").contains("nothing was measured"));
    }
}
