//! What happened lately, beside the headline, as plain values. Pure.

use metrics_common::history::History;
use metrics_common::snapshot::Info;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

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
}
