//! What hovering over a part of a bar says: its values, its share of the
//! whole, how far an estimate may be off, and what it is. Pure.

use std::fmt::Write as _;

use metrics_common::confidence::of_component;
use metrics_common::snapshot::{Info, Snapshot};

use crate::color::Rgb;
use crate::format::{self, escape_html, fine_percent};
use crate::view_model::index_of;
use crate::views::now::model::{Bar, Segment};

/// The 95 % interval of a component's share of a whole; `None` if it is not an estimate.
pub fn interval(info: &Info, snapshot: &Snapshot, slug: &str, whole_ns: u64) -> Option<(f64, f64)> {
    let (low, high) = of_component(info, snapshot, index_of(info, slug)?)?;
    let share = |ns: u64| format::ratio(ns, whole_ns).min(1.0);
    (whole_ns > 0).then(|| (share(low), share(high)))
}

/// What the split of a component rests on besides the stacks of its interval, or that
/// of the whole that it is a part of; `None` if nothing worth a word.
pub fn basis(info: &Info, snapshot: &Snapshot, slug: &str) -> Option<String> {
    let of = |index: usize| {
        let mut all = snapshot.cost().split_basis.iter();
        all.find(|basis| basis.component as usize == index)
    };
    let index = index_of(info, slug)?;
    let parent = || index_of(info, info.components[index].parent.as_deref()?);
    let basis = of(index).or_else(|| of(parent()?))?;
    let percent = |ns: u64| (format::ratio(ns, basis.total_ns()) * 100.0).round();
    let sources = [
        (basis.stacks_ns, "this interval's stacks"),
        (basis.past_ns, "this CPU's before"),
        (basis.host_ns, "other CPUs'"),
        (basis.nothing_ns, "none"),
    ];
    let told = sources
        .iter()
        .map(|&(ns, name)| (percent(ns), name))
        .filter(|&(percent, _)| percent >= 1.0)
        .map(|(percent, name)| format!("{percent} % {name}"))
        .collect::<Vec<_>>();
    (percent(basis.stacks_ns) < 99.0 && basis.total_ns() > 0).then(|| told.join(", "))
}

/// How often a component was entered, over all CPUs, and what an entry is called.
pub fn entries_of(info: &Info, snapshot: &Snapshot, slug: &str) -> Option<(u64, &'static str)> {
    let row = snapshot.cost().entries_of(index_of(info, slug)?)?;
    Some((row.iter().sum(), entry_word(slug)))
}

/// What one entry of a timed component is called.
pub fn entry_word(slug: &str) -> &'static str {
    if slug.contains("softirq") {
        "softirq"
    } else if slug.contains("worker") {
        "run"
    } else {
        "call"
    }
}

/// An interval of shares as text: `42.1–47.9 %`.
pub fn interval_text((low, high): (f64, f64)) -> String {
    format!("{}–{} %", format::percent(low), format::percent(high))
}

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
                format::milliseconds_per_second(segment.ns, snapshot.interval_ns)
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
    use metrics_common::{Availability, SplitBasis};

    use super::*;
    use crate::fixture;
    use crate::views::now::model::bars;

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
    fn work_without_a_probe_rests_on_its_part_of_all_stacks() {
        let (mut info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
        let index = index_of(&info, "connections").unwrap();
        info.components[index].availability = Availability::by("sampling");
        // 30 stacks of the 1000 that two CPUs have room for.
        fixture::cost(&mut snapshot).components[index] = Some(vec![30_000_000, 0]);
        fixture::cost(&mut snapshot).samples[index] = Some(vec![30, 0]);
        let (low, high) = interval(&info, &snapshot, "connections", 1_000_000_000).unwrap();
        assert!((low - 0.021).abs() < 0.001 && (high - 0.043).abs() < 0.001);
        let half = interval(&info, &snapshot, "connections", 2_000_000_000).unwrap();
        assert!((half.0 - low / 2.0).abs() < 1e-9, "of another whole");
        // None says that there were hardly more than four.
        fixture::cost(&mut snapshot).components[index] = Some(vec![0, 0]);
        fixture::cost(&mut snapshot).samples[index] = Some(vec![0, 0]);
        let (low, high) = interval(&info, &snapshot, "connections", 1_000_000_000).unwrap();
        assert_eq!(low, 0.0);
        assert!((0.003..0.006).contains(&high), "{high}");
    }

    #[test]
    fn a_split_that_does_not_rest_on_its_own_stacks_says_so() {
        let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
        assert_eq!(basis(&info, &snapshot, "driver_poll"), None);
        let mut basis_of_rx = SplitBasis {
            component: index_of(&info, "rx_softirq").unwrap() as u32,
            stacks_ns: 100_000_000,
            ..SplitBasis::default()
        };
        fixture::cost(&mut snapshot).split_basis = vec![basis_of_rx];
        assert_eq!(basis(&info, &snapshot, "rx_softirq"), None);
        basis_of_rx.stacks_ns = 25_000_000;
        basis_of_rx.past_ns = 60_000_000;
        basis_of_rx.host_ns = 15_000_000;
        fixture::cost(&mut snapshot).split_basis = vec![basis_of_rx];
        let text = "25 % this interval's stacks, 60 % this CPU's before, 15 % other CPUs'";
        for slug in ["rx_softirq", "driver_poll"] {
            assert_eq!(basis(&info, &snapshot, slug).as_deref(), Some(text));
        }
        let bars = bars(&info, &snapshot, "rx_softirq");
        let tip = html(&info, &snapshot, &bars[2], &bars[2].segments[0]);
        assert!(tip.contains("split by</dt><dd>25 %"), "{tip}");
    }

    #[test]
    fn entries_have_names() {
        for (slug, word) in [
            ("rx_softirq", "softirq"),
            ("tx_syscall", "call"),
            ("io_worker", "run"),
        ] {
            assert_eq!(entry_word(slug), word);
        }
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
