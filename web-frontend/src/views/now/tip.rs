//! The tip of a bar's part: its values, its share of the whole, the uncertainty of an estimate, and
//! an explanation. Pure.

use std::fmt::Write as _;

use metrics_common::{Info, Snapshot};

use super::model::{Bar, Segment};
use crate::color::Rgb;
use crate::format::escape_html;
use crate::tip::figures;

/// The tip over a segment, as markup.
pub fn html(info: &Info, snapshot: &Snapshot, bar: &Bar, segment: &Segment) -> String {
    let of = (segment.amount, segment.whole.as_str());
    let figures = figures(info, snapshot, &segment.key, of, bar.basis);
    let mut html = format!(
        "<strong><i class=\"swatch\" style=\"background:{}\"></i>{}</strong><dl>",
        segment.color.map_or("var(--idle)".to_owned(), Rgb::css),
        escape_html(&segment.label)
    );
    for (name, value) in figures {
        let _ = write!(
            html,
            "<dt>{}</dt><dd>{}</dd>",
            escape_html(&name),
            escape_html(&value)
        );
    }
    let _ = write!(html, "</dl><p>{}</p>", escape_html(&segment.help));
    html
}

#[cfg(test)]
mod tests {
    use metrics_common::SplitBasis;

    use super::super::model::bars;
    use super::*;
    use crate::basis::Basis;
    use crate::fixture;

    fn tip(bar: usize, key: &str, basis: Basis) -> String {
        let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
        let rx = info.row_of("rx_softirq").unwrap();
        fixture::cost(&mut snapshot).entries[rx] = Some(vec![0, 5_000]);
        let bars = bars(&info, &snapshot, "rx_softirq", basis);
        let segment = bars[bar].segments.iter().find(|s| s.key == key).unwrap();
        html(&info, &snapshot, &bars[bar], segment)
    }

    #[test]
    fn an_estimate_has_an_interval_and_a_measured_time_has_none() {
        // 25 of 100 stacks.
        let sampled = tip(2, "driver_poll", Basis::Parent);
        assert!(sampled.contains("17.1–34.8 %"), "{sampled}");
        for part in ["of RX softirq</dt><dd>25.0 %", "2.5 %", "0.05", "50.0 ms/s"] {
            assert!(sampled.contains(part), "{part} in {sampled}");
        }
        let of_host = tip(2, "driver_poll", Basis::Host);
        let first = "<dl><dt>of this host</dt><dd>2.5 %</dd><dt>95 % interval</dt><dd>1.7–3.5 %";
        assert!(of_host.contains(first), "{of_host}");
        let timed = tip(1, "rx_softirq", Basis::Host);
        assert!(!timed.contains("interval"), "{timed}");
        assert!(timed.contains("20\u{202f}000 ns per softirq"), "{timed}");
        assert!(tip(0, "idle", Basis::Host).contains("var(--idle)"));
    }

    #[test]
    fn a_split_that_rests_on_other_stacks_says_so() {
        let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
        fixture::cost(&mut snapshot).split_basis = vec![SplitBasis {
            component: info.row_of("rx_softirq").unwrap() as u32,
            stacks_ns: 25_000_000,
            past_ns: 75_000_000,
            ..SplitBasis::default()
        }];
        let bars = bars(&info, &snapshot, "rx_softirq", Basis::Host);
        let tip = html(&info, &snapshot, &bars[2], &bars[2].segments[0]);
        assert!(tip.contains("split by</dt><dd>25 %"), "{tip}");
    }

    #[test]
    fn text_stays_text() {
        let (mut info, snapshot) = (fixture::info(), fixture::snapshot(1));
        for component in &mut info.components {
            component.help = "<b>x</b>".to_owned();
            component.label = "a & b".to_owned();
        }
        let bars = bars(&info, &snapshot, "rx_softirq", Basis::Host);
        let html = html(&info, &snapshot, &bars[2], &bars[2].segments[0]);
        assert!(!html.contains("<b>") && html.contains("a &amp; b"));
    }
}
