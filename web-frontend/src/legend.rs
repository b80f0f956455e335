//! The bars in words: a list beside each of them that is both the legend of the
//! drawing and its text alternative. Pure.

use std::fmt::Write as _;

use crate::bars::{Bar, Rgb, Segment};
use crate::format::{self, escape_html};

/// What the markup of the legends depends on.
pub type Layout = Vec<(Vec<String>, Vec<String>)>;

/// What one entry says now.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
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
            let _ = write!(
                html,
                "<li data-bar=\"{number}\" data-key=\"{key}\" data-ratio=\"\" title=\"{help}\">\
                 <i class=\"swatch\" style=\"background:{color}\"></i>\
                 <span class=\"name\">{label}</span> <span class=\"value\">–</span></li>",
                key = escape_html(&segment.key),
                help = escape_html(&segment.help),
                color = segment.color.map_or("var(--idle)".to_owned(), Rgb::css),
                label = escape_html(&segment.label),
            );
        }
        for absent in &bar.absent {
            let _ = write!(
                html,
                "<li class=\"unavailable\" data-bar=\"{number}\" data-key=\"{key}\" \
                 data-unavailable=\"{reason}\" title=\"{reason}\"><i class=\"swatch\"></i>\
                 <span class=\"name\">{label}</span> <span>unavailable</span></li>",
                key = escape_html(&absent.key),
                reason = escape_html(&absent.reason),
                label = escape_html(&absent.label),
            );
        }
        let _ = write!(
            html,
            "</ul><p class=\"note\" data-bar-note=\"{number}\"></p></section>"
        );
    }
    html
}

/// The values in the order of the entries in the markup.
pub fn entries(bars: &[Bar]) -> Vec<Entry> {
    bars.iter()
        .flat_map(top_down)
        .map(|segment| Entry {
            text: format!("{} %", format::percent(segment.ratio)),
            ratio: segment.ratio,
        })
        .collect()
}

/// As the eye goes over the bar.
fn top_down(bar: &Bar) -> impl Iterator<Item = &Segment> {
    bar.segments.iter().rev()
}
