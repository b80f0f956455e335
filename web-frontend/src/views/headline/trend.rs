//! The recent trend, beside the headline, as plain values. Pure.

use metrics_common::history::History;
use metrics_common::{Info, Snapshot};

use crate::basis::{Amount, Basis};
use crate::timeline::{self, Frame};
use metrics_common::component::NETWORK;

/// The recent trend, beside the headline.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trend {
    /// CPU time of networking in steps of the last minutes, as a number of CPUs.
    pub values: Vec<Option<f64>>,
    /// The increase of networking over the last minute; `None` without a minute to compare with.
    pub change: Option<f64>,
}

/// Averaging time, milliseconds.
const MOMENT_MS: f64 = 5_000.0;
const MINUTE_MS: f64 = 60_000.0;

/// The trend at the end of a history.
pub fn trend(info: &Info, history: &History, now: &Snapshot, basis: Basis) -> Trend {
    let (Some(last), Some(network)) = (history.points().checked_sub(1), info.row_of(NETWORK))
    else {
        return Trend::default();
    };
    let now_ms = history.point_ms(last).1;
    let cpus = |point| history.component_cpus(network, point);
    let moment_ms = MOMENT_MS.max(history.resolution_ms());
    let at = |end: f64| timeline::mean(history, end - moment_ms, end, cpus);
    let step_ms = 2_500.0_f64.max(history.resolution_ms());
    let steps = (5.0 * MINUTE_MS / step_ms) as usize;
    let end_ms = (now_ms / step_ms).floor() * step_ms;
    let frame = Frame {
        from_ms: end_ms - steps as f64 * step_ms,
        step_ms,
        steps: steps.max(2),
    };
    let host = Amount::of_share(1.0, now.cpus.len());
    let change = |(after, before): (f64, f64)| {
        basis.value(Amount {
            cpus: after - before,
            ..host
        })
    };
    Trend {
        values: timeline::means(history, &frame, cpus),
        change: at(now_ms).zip(at(now_ms - MINUTE_MS)).map(change),
    }
}

/// A change as text, with its direction.
pub fn change_text(basis: Basis, change: f64) -> String {
    let arrow = if change > 0.0 { "▲" } else { "▼" };
    match basis.change(change.abs()) {
        Some(size) => format!("{arrow} {size} in a minute"),
        None => "as a minute ago".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn the_trend_compares_with_a_minute_ago() {
        let info = fixture::info();
        let numbers: Vec<u64> = (1..=130).collect();
        let history = fixture::history(&numbers);
        let mut now = fixture::snapshot(1);
        now.cpus = (0..100).collect();
        let change = |basis| trend(&info, &history, &now, basis).change.unwrap();
        // Half seconds 121 to 130 against 1 to 10: 120 CPUs more, of 100.
        assert!((change(Basis::Host) - 120.0).abs() < 1e-6);
        assert!((change(Basis::Cpus) - 120.0).abs() < 1e-6);
        let all = trend(&info, &history, &now, Basis::Host);
        assert!(all.values.iter().flatten().count() > 20);
        let short = trend(&info, &fixture::history(&[1, 2]), &now, Basis::Host);
        assert_eq!(short.change, None, "there was no minute ago");
        let none = trend(&info, &fixture::history(&[]), &now, Basis::Host);
        assert_eq!(none, Trend::default());
    }

    #[test]
    fn a_change_has_a_direction_in_words_and_not_only_in_colour() {
        assert_eq!(change_text(Basis::Host, 0.001), "as a minute ago");
        assert_eq!(change_text(Basis::Host, 0.25), "▲ 0.25 points in a minute");
        assert_eq!(
            change_text(Basis::Host, -12.34),
            "▼ 12.3 points in a minute"
        );
        assert_eq!(change_text(Basis::Cpus, 0.25), "▲ 0.25 CPUs in a minute");
    }
}
