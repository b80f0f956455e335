//! What hovering over a part of a bar says: its values, its share of the
//! whole, how far an estimate may be off, and what it is. Pure.

use std::fmt::Write as _;

use metrics_common::interval::wilson;
use metrics_common::snapshot::{Info, Snapshot};

use crate::color::Rgb;
use crate::format::{self, escape_html, fine_percent};
use crate::view_model::index_of;
use crate::views::now::model::{Bar, Segment};

/// Stacks on which the split of a component rests, over all CPUs.
pub fn stacks_of(info: &Info, snapshot: &Snapshot, slug: &str) -> Option<u64> {
    let row = snapshot.samples.get(index_of(info, slug)?)?.as_ref()?;
    Some(row.iter().map(|&count| u64::from(count)).sum())
}

/// The 95 % interval of a component's share of its whole, given that share;
/// `None` if it is not an estimate, or rests on nothing.
pub fn interval(
    info: &Info,
    snapshot: &Snapshot,
    slug: &str,
    share_ratio: f64,
) -> Option<(f64, f64)> {
    let index = index_of(info, slug)?;
    let component = &info.components[index];
    match component.kind.as_str() {
        // Its part of the stacks of its parent.
        "sampled" | "remainder" => {
            let stacks = stacks_of(info, snapshot, component.parent.as_deref()?)?;
            (stacks > 0).then(|| wilson(share_ratio, stacks))
        }
        // Its part of all stacks, each of which stands for a sampling period.
        "estimated" => {
            let all: u64 = snapshot.stacks_taken.iter().sum();
            let own = snapshot.total_ns(index)? as f64 * info.frequency_hz as f64 / 1e9;
            let part = own / all as f64;
            if all == 0 || part <= 0.0 {
                return None;
            }
            let (low, high) = wilson(part, all);
            let scale = share_ratio / part;
            Some((low * scale, (high * scale).min(1.0)))
        }
        _ => None,
    }
}

/// How often a component was entered, over all CPUs, and what an entry is called.
pub fn entries_of(info: &Info, snapshot: &Snapshot, slug: &str) -> Option<(u64, &'static str)> {
    let row = snapshot.entries.get(index_of(info, slug)?)?.as_ref()?;
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
    if let Some(interval) = interval(info, snapshot, &segment.key, segment.ratio) {
        rows.insert(1, ("95 % interval", interval_text(interval)));
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
    use super::*;
    use crate::fixture;
    use crate::views::now::model::bars;

    fn tip(bar: usize, key: &str) -> String {
        let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
        let rx = index_of(&info, "rx_softirq").unwrap();
        snapshot.entries[rx] = Some(vec![0, 5_000]);
        let bars = bars(&info, &snapshot, "rx_softirq");
        let segment = bars[bar].segments.iter().find(|s| s.key == key).unwrap();
        html(&info, &snapshot, &bars[bar], segment)
    }

    #[test]
    fn an_estimate_has_an_interval_and_a_measured_time_has_none() {
        // 25 of 100 stacks.
        let sampled = tip(2, "driver_poll");
        assert!(sampled.contains("17.5–34.3 %"), "{sampled}");
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
        let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
        let index = index_of(&info, "connections").unwrap();
        // 30 stacks of 120, by the clock of 1000 Hz.
        snapshot.components[index] = Some(vec![30_000_000, 0]);
        let (low, high) = interval(&info, &snapshot, "connections", 0.25).unwrap();
        assert!((low - 0.181).abs() < 0.001 && (high - 0.334).abs() < 0.001);
        let half = interval(&info, &snapshot, "connections", 0.125).unwrap();
        assert!(
            (half.0 - low / 2.0).abs() < 1e-9,
            "shares of another whole scale"
        );
        snapshot.components[index] = Some(vec![0, 0]);
        assert_eq!(interval(&info, &snapshot, "connections", 0.0), None);
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
