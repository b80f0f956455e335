//! What hovering over a part of a bar says: its values, its share of the whole, how far an
//! estimate may be off, and what it is. Pure.

use std::fmt::Write as _;

use metrics_common::snapshot::{Info, Snapshot};

use super::model::{Bar, Segment};
use crate::color::Rgb;
use crate::format::{self, escape_html, fine_percent};
use crate::tip::{basis, entries_of, interval, interval_text};

/// The tip over a segment, as markup.
pub fn html(info: &Info, snapshot: &Snapshot, bar: &Bar, segment: &Segment) -> String {
    let capacity_ns = snapshot.capacity_ns();
    let of_host = format::ratio(segment.ns, capacity_ns) * 100.0;
    let mut rows = vec![
        ("of this host", format!("{} %", fine_percent(of_host))),
        (
            "CPUs' worth",
            format::cpus(format::ratio(segment.ns, snapshot.interval_ns)),
        ),
        (
            "CPU time",
            format!(
                "{} ms/s",
                format::milliseconds(format::ratio(segment.ns, snapshot.interval_ns) * 1e3)
            ),
        ),
    ];
    let share = format!("{} %", fine_percent(segment.ratio * 100.0));
    let of_bar = format!("of {}", bar.title);
    rows.insert(0, (of_bar.as_str(), share));
    if let Some(interval) = interval(info, snapshot, &segment.key, bar.whole_ns) {
        rows.insert(1, ("95 % interval", interval_text(interval)));
    }
    if let Some(basis) = basis(info, snapshot, &segment.key) {
        rows.push(("split by", basis));
    }
    if let Some((count, word)) = entries_of(info, snapshot, &segment.key)
        && count > 0
    {
        let each = format!("{} ns per {word}", format::count(segment.ns / count));
        rows.push(("each", each));
    }
    let mut html = format!(
        "<strong><i class=\"swatch\" style=\"background:{}\"></i>{}</strong><dl>",
        segment.color.map_or("var(--idle)".to_owned(), Rgb::css),
        escape_html(&segment.label)
    );
    for (name, value) in rows {
        let _ = write!(html, "<dt>{}</dt><dd>{value}</dd>", escape_html(name));
    }
    let _ = write!(html, "</dl><p>{}</p>", escape_html(&segment.help));
    html
}

#[cfg(test)]
mod tests {
    use metrics_common::SplitBasis;

    use super::super::model::bars;
    use super::*;
    use crate::fixture;
    use crate::view_model::index_of;

    fn tip(bar: usize, key: &str) -> String {
        let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
        let rx = index_of(&info, "rx_softirq").unwrap();
        fixture::cost(&mut snapshot).entries[rx] = Some(vec![0, 5_000]);
        let bars = bars(&info, &snapshot, "rx_softirq");
        let segment = bars[bar].segments.iter().find(|s| s.key == key).unwrap();
        html(&info, &snapshot, &bars[bar], segment)
    }

    #[test]
    fn an_estimate_has_an_interval_and_a_measured_time_has_none() {
        // 25 of 100 stacks.
        let sampled = tip(2, "driver_poll");
        assert!(sampled.contains("17.1–34.8 %"), "{sampled}");
        for part in ["of RX softirq</dt><dd>25.0 %", "2.5 %", "0.05", "50.0 ms/s"] {
            assert!(sampled.contains(part), "{part} in {sampled}");
        }
        let timed = tip(1, "rx_softirq");
        assert!(!timed.contains("interval"), "{timed}");
        assert!(timed.contains("20\u{202f}000 ns per softirq"), "{timed}");
        assert!(tip(0, "idle").contains("var(--idle)"));
    }

    #[test]
    fn a_split_that_rests_on_other_stacks_says_so() {
        let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
        fixture::cost(&mut snapshot).split_basis = vec![SplitBasis {
            component: index_of(&info, "rx_softirq").unwrap() as u32,
            stacks_ns: 25_000_000,
            past_ns: 75_000_000,
            ..SplitBasis::default()
        }];
        let bars = bars(&info, &snapshot, "rx_softirq");
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
        let bars = bars(&info, &snapshot, "rx_softirq");
        let html = html(&info, &snapshot, &bars[2], &bars[2].segments[0]);
        assert!(!html.contains("<b>") && html.contains("a &amp; b"));
    }
}
