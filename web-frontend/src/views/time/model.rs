//! What the charts over time show of the history, as plain values: events on
//! top of each other, and the parts of the chosen one; with their legends and
//! text alternatives. Pure.

use metrics_common::history::History;
use metrics_common::snapshot::Info;

use super::draw::{Chart, Layer};
use crate::color::Rgb;
use crate::format::fine_percent;
use crate::timeline::{self, Frame};
use crate::view_model::{index_of, parts_of};

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
        fixture::cost(&mut last).components[index_of(&info, "tx_softirq").unwrap()] =
            Some(vec![fixture::MS, 0]);
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
