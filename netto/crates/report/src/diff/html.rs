//! A comparison as a self-contained page. Only arranges and words; computes nothing.

use std::fmt::Write as _;

use jiff::tz::TimeZone;
use metrics_common::text::escape_html;

use super::table::{certainty, side};
use netto_offline::compare::{Change, Comparison};
use netto_questions::figures::percent_number;

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;\
color:#1c1c1c;background:#fff}\
table{border-collapse:collapse;width:100%}\
th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap}\
th:first-child,td:first-child{text-align:left;white-space:normal}\
.real{font-weight:600}.other{color:#595959}\
svg{display:block}\
.flame{width:100%;margin-bottom:1rem;font:11px monospace}.flame text{pointer-events:none;fill:#000}\
.flame rect{stroke:#fff;stroke-width:.5}\
.key{display:inline-block;width:.8em;height:.8em}\
.more{background:rgb(255,90,90)}.less{background:rgb(120,120,255)}\
@media(prefers-color-scheme:dark){body{color:#e8e8e8;background:#181818}\
th,td{border-color:#444}.other{color:#a8a8a8}}";

/// Width of an interval's picture, in its own units.
const WIDTH: f64 = 200.0;

/// The whole page, with its section about stacks.
pub(super) fn text(
    comparison: &Comparison,
    names: &[String; 2],
    flame: &Result<String, String>,
    zone: &TimeZone,
) -> String {
    let mut page = String::new();
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>netto diff: {a} and {b}</title><style>{STYLE}</style></head><body>\n\
         <h1>What has changed</h1>\n<p>A: {side_a}<br>B: {side_b}</p>\n<p>{certainty}.</p>\n",
        a = escape_html(&names[0]),
        b = escape_html(&names[1]),
        side_a = escape_html(&side(&names[0], &comparison.a, zone)),
        side_b = escape_html(&side(&names[1], &comparison.b, zone)),
        certainty = escape_html(&certainty(comparison)),
    );
    let widest = comparison
        .changes
        .iter()
        .flat_map(|change| {
            let (low, high) = change.share.interval.unwrap_or_default();
            [low.abs(), high.abs(), change.share.value.abs()]
        })
        .fold(0.0, f64::max);
    page.push_str(flame.as_deref().unwrap_or_default());
    page.push_str(
        "<table><thead><tr><th>Component</th><th>A, % of CPUs</th><th>B, % of CPUs</th>\
         <th>Change, points</th><th>95 % interval</th><th>Interval around no change</th>\
         <th>CPUs</th><th>Of A</th><th>Real</th></tr></thead><tbody>\n",
    );
    for change in &comparison.changes {
        row(&mut page, change, widest);
    }
    page.push_str("</tbody></table>\n");
    if !comparison.incomparable.is_empty() {
        page.push_str("<h2>Not comparable</h2>\n<ul>\n");
        for other in &comparison.incomparable {
            let (label, reason) = (escape_html(&other.label), escape_html(&other.unavailable));
            let _ = writeln!(page, "<li>{label}: {reason}</li>");
        }
        page.push_str("</ul>\n");
    }
    if let Err(lack) = flame {
        let _ = writeln!(page, "<p>No flame graph: {}.</p>", escape_html(lack));
    }
    page.push_str("</body></html>\n");
    page
}

fn row(page: &mut String, change: &Change, widest: f64) {
    let class = if change.is_real == Some(true) {
        "real"
    } else {
        "other"
    };
    let interval = match change.share.interval {
        Some((low, high)) => format!("{:+.3} … {:+.3}", low * 100.0, high * 100.0),
        None => "too few intervals".to_owned(),
    };
    let relative = match change.relative_ratio {
        Some(ratio) => format!("{:+.1} %", ratio * 100.0),
        None => "–".to_owned(),
    };
    let real = match change.is_real {
        Some(true) => "yes",
        Some(false) if change.is_inconclusive() => "inconclusive",
        Some(false) => "no",
        None => "not known",
    };
    let _ = writeln!(
        page,
        "<tr class=\"{class}\"><td>{}</td><td>{}</td><td>{}</td><td>{:+.3}</td><td>{interval}</td>\
         <td>{}</td><td>{:+.3}</td><td>{relative}</td><td>{real}</td></tr>",
        escape_html(&change.label),
        percent_number(change.a.share_ratio),
        percent_number(change.b.share_ratio),
        change.share.value * 100.0,
        picture(change, widest),
        change.cpus.value,
    );
}

/// The interval as a line; the middle is no change. The text beside it has the same content.
fn picture(change: &Change, widest: f64) -> String {
    let Some((low, high)) = change.share.interval.filter(|_| widest > 0.0) else {
        return String::new();
    };
    let x = |value: f64| WIDTH / 2.0 * (1.0 + (value / widest).clamp(-1.0, 1.0));
    format!(
        "<svg aria-hidden=\"true\" width=\"{WIDTH}\" height=\"14\" stroke=\"currentColor\">\
         <path d=\"M{middle:.1} 0V14\" opacity=\".4\"/><path d=\"M{:.1} 7H{:.1}\" stroke-width=\"2\"/>\
         <circle cx=\"{:.1}\" cy=\"7\" r=\"3\" fill=\"currentColor\"/></svg>",
        x(low),
        x(high),
        x(change.share.value),
        middle = WIDTH / 2.0,
    )
}
