//! The bars in words: a list beside each of them that is both the legend of the
//! drawing and its text alternative. Pure.

use std::fmt::Write as _;

use super::model::{Bar, REST, Segment};
use crate::action::{Action, parts_button};
use crate::color::Rgb;
use crate::format::escape_html;

/// What the markup of the legends depends on.
pub type Layout = Vec<(Vec<String>, Vec<String>)>;

/// What one entry says now.
#[derive(Debug, Clone, PartialEq)]
pub struct LegendEntry {
    /// What is read.
    pub text: String,
    /// Share of the bar, 0 to 1.
    pub ratio: f64,
}

/// The entries of each bar, measured and not.
pub fn layout(bars: &[Bar]) -> Layout {
    bars.iter()
        .map(|bar| {
            let measured = bar.segments.iter().map(|s| s.key.clone()).collect();
            let absent = bar.absent.iter().map(|a| a.key.clone()).collect();
            (measured, absent)
        })
        .collect()
}

/// The legends without values. Each entry that gets one has `data-ratio`, each
/// bar's size and note are found by `data-bar-subtitle` and `data-bar-note`.
pub fn html(bars: &[Bar]) -> String {
    let mut html = String::new();
    for (number, bar) in (1..).zip(bars) {
        let title = escape_html(&bar.title);
        let _ = write!(
            html,
            "<section class=\"legend-{number}\"><h3>{title}</h3>\
             <p class=\"subtitle\" data-bar-subtitle=\"{number}\"></p>\
             <ul aria-label=\"{title}, from the top of the bar to its bottom\">",
        );
        for segment in top_down(bar) {
            let key = escape_html(&segment.key);
            // Each component has a page of its own, and an event unfolds into its parts too.
            let act = match number {
                2 | 3 if segment.key != REST => Action::About(segment.key.clone()).attribute(),
                _ => String::new(),
            };
            let more = match number {
                2 if segment.key != REST => parts_button(&segment.key, &segment.label),
                2 => "<i class=\"unfold\"></i>".to_owned(),
                _ => String::new(),
            };
            let _ = write!(
                html,
                "<li data-bar=\"{number}\" data-key=\"{key}\" data-ratio=\"\">\
                 <button class=\"entry\"{act}><i class=\"swatch\" style=\"background:{color}\"></i>\
                 <span class=\"name\">{label}</span> <span class=\"value\">–</span></button>{more}</li>",
                color = segment.color.map_or("var(--idle)".to_owned(), Rgb::css),
                label = escape_html(&segment.label),
            );
        }
        for absent in &bar.absent {
            let _ = write!(
                html,
                "<li class=\"unavailable\" data-bar=\"{number}\" data-key=\"{key}\" \
                 data-unavailable=\"{reason}\" title=\"{reason}\"><i class=\"swatch\"></i>\
                 <button class=\"plain name\"{act}>{label}</button> <span>unavailable</span></li>",
                act = Action::About(absent.key.clone()).attribute(),
                key = escape_html(&absent.key),
                reason = escape_html(&absent.reason),
                label = escape_html(&absent.label),
            );
        }
        let _ = write!(
            html,
            "</ul><button class=\"zeros\" data-bar-zeros=\"{number}\"{zeros}></button>\
             <p class=\"note\" data-bar-note=\"{number}\"></p></section>",
            zeros = Action::Zeros(number).attribute(),
        );
    }
    html
}

/// The values in the order of the entries in the markup.
pub fn entries(bars: &[Bar]) -> Vec<LegendEntry> {
    bars.iter()
        .flat_map(|bar| top_down(bar).map(move |segment| (bar, segment)))
        .map(|(bar, segment)| LegendEntry {
            text: bar.text(segment),
            // What may be more than nothing is not folded away with what has no time.
            ratio: match segment.at_most {
                Some(_) => segment.ratio.max(f64::EPSILON),
                None => segment.ratio,
            },
        })
        .collect()
}

/// What the button says that folds the parts of a bar away that have no time; `None` if
/// there is nothing to fold.
pub fn zeros_text(bar: &Bar, are_shown: bool) -> Option<String> {
    let zeros = bar
        .segments
        .iter()
        .filter(|segment| segment.ratio == 0.0 && segment.at_most.is_none())
        .count();
    let nothing = bar.basis.text(0.0);
    let text = if are_shown {
        format!("Hide {zeros} at {nothing}")
    } else {
        format!("{zeros} more at {nothing}")
    };
    // One line is as good as the button.
    (zeros > 1).then_some(text)
}

/// As the eye goes over the bar.
fn top_down(bar: &Bar) -> impl Iterator<Item = &Segment> {
    bar.segments.iter().rev()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::Basis;
    use crate::fixture;
    use crate::views::now::model::bars;

    #[test]
    fn every_segment_has_an_entry_and_entries_keep_the_order_of_the_markup() {
        let bars = bars(
            &fixture::info(),
            &fixture::snapshot(1),
            "rx_softirq",
            Basis::Host,
        );
        let html = html(&bars);
        let keys: Vec<&str> = html
            .split("data-key=\"")
            .skip(1)
            .filter_map(|piece| piece.split('"').next())
            .collect();
        let entries = entries(&bars);
        assert_eq!(keys.len(), entries.len());
        let all: Vec<_> = bars.iter().flat_map(|bar| &bar.segments).collect();
        assert_eq!(keys.len(), all.len());
        for (key, entry) in keys.iter().zip(entries) {
            let segment = all.iter().find(|segment| segment.key == *key);
            assert_eq!(segment.map(|s| s.ratio), Some(entry.ratio), "{key}");
            let text = segment.map(|s| Basis::Host.say(s.amount));
            assert_eq!(Some(entry.text), text, "{key}");
        }
        assert_eq!(keys.first(), Some(&"idle"), "the top of the first bar");
        let bottom = bars.last().and_then(|bar| bar.segments.first());
        assert_eq!(
            keys.last().copied(),
            bottom.map(|s| s.key.as_str()),
            "the bottom of the last one"
        );
    }

    #[test]
    fn the_layout_only_changes_with_what_there_is_to_list() {
        let (mut info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
        let before = layout(&bars(&info, &snapshot, "rx_softirq", Basis::Host));
        let rx = info.row_of("rx_softirq").unwrap();
        fixture::cost(&mut snapshot).components[rx] = Some(vec![0, 1]);
        assert_eq!(
            before,
            layout(&bars(&info, &snapshot, "rx_softirq", Basis::Host))
        );
        fixture::take_away(&mut info, &mut snapshot, "bridging", "not built in");
        assert_ne!(
            before,
            layout(&bars(&info, &snapshot, "rx_softirq", Basis::Host))
        );
    }

    #[test]
    fn parts_without_time_are_counted_unless_there_are_none() {
        let [modes, events, parts] = bars(
            &fixture::info(),
            &fixture::snapshot(1),
            "rx_softirq",
            Basis::Host,
        );
        let zeros = |bar: &Bar| {
            entries(std::slice::from_ref(bar))
                .iter()
                .filter(|e| e.ratio == 0.0)
                .count()
        };
        for bar in [&modes, &events, &parts] {
            let expected = format!("{} more at 0 %", zeros(bar));
            assert_eq!(zeros_text(bar, false), (zeros(bar) > 1).then_some(expected));
        }
        assert!(zeros_text(&parts, true).unwrap().starts_with("Hide "));
        let mut full = parts.clone();
        full.segments.retain(|segment| segment.ratio > 0.0);
        assert_eq!(zeros_text(&full, false), None);
    }

    #[test]
    fn an_absent_part_is_listed_without_a_ratio_and_without_markup_of_its_own() {
        let (mut info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
        fixture::take_away(&mut info, &mut snapshot, "bridging", "<i> & \"so\"");
        let html = html(&bars(&info, &snapshot, "rx_softirq", Basis::Host));
        let entry = html
            .split("<li ")
            .find(|piece| piece.contains("data-key=\"bridging\""))
            .unwrap();
        assert!(!entry.contains("data-ratio"));
        assert!(entry.contains("data-unavailable=\"&lt;i&gt; &amp; &quot;so&quot;\""));
    }
}
