//! The differential flame graph on a comparison's page: drawn without a script, with a text for
//! each function. Only draws; `offline::stacks` computes the positions.

use std::fmt::Write as _;

use metrics_common::text::{count, escape_html};

use netto_offline::stacks::{About, Compared, Rect, layout};
use netto_questions::figures::plain;
use netto_questions::times::length;

/// Width of the picture, in its own units.
const WIDTH: f64 = 1200.0;
const ROW: f64 = 17.0;
/// Width of a character.
const CHARACTER: f64 = 6.7;
/// Fewest characters of a name written into its rectangle.
const FEWEST: usize = 3;
/// Longest name; longer ones are cut.
const LONGEST_NAME: usize = 200;

/// The part of the page.
pub(super) fn section(compared: &Compared) -> String {
    let rects = layout(compared);
    let mut out = String::from("<h2>Where it has changed, function by function</h2>\n");
    if rects.is_empty() {
        out.push_str("<p>No stack of networking was sampled.</p>\n");
        return out;
    }
    let [a, b] = compared.about.each_ref().map(sampled);
    let factor = match compared.factors {
        [a, _] if a > 1.0 => format!("those of A are multiplied by {a:.2}, "),
        [_, b] if b > 1.0 => format!("those of B are multiplied by {b:.2}, "),
        _ => String::new(),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "<p>Functions stand on those that called them, and are as wide as both sides together. \
         <span class=\"key more\"></span> more in B, <span class=\"key less\"></span> less, the \
         stronger the colour the greater the part; without colour, it may be chance. \
         A: {a}. B: {b}; {factor}as if both had been sampled alike.</p>"
    );
    let rows = rects.iter().map(|rect| rect.depth + 1).max().unwrap_or(0);
    let height = rows as f64 * ROW;
    let _ = writeln!(
        out,
        "<svg class=\"flame\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"Differential flame graph of sampled stacks\">"
    );
    for rect in &rects {
        draw(&mut out, rect, height);
    }
    out.push_str("</svg>\n");
    out
}

fn sampled(side: &About) -> String {
    let samples = count(side.samples);
    format!("{samples} samples in {}", length(side.window_ns))
}

fn draw(out: &mut String, rect: &Rect<'_>, height: f64) {
    let (x, width) = (rect.x * WIDTH, rect.width * WIDTH);
    let y = height - (rect.depth + 1) as f64 * ROW;
    let name: String = plain(rect.name).chars().take(LONGEST_NAME).collect();
    let [a, b] = rect.counts.map(|samples| count(samples as u64));
    let relative = match rect.counts {
        [before, now] if before > 0.0 => format!("{:+.1} %", (now / before - 1.0) * 100.0),
        _ => "new".to_owned(),
    };
    let chance = if rect.change == 0.0 {
        ", may be chance"
    } else {
        ""
    };
    let _ = write!(
        out,
        "<g><title>{}: {a} samples in A, {b} in B ({relative}{chance})</title>\
         <rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{ROW}\" fill=\"{}\"/>",
        escape_html(&name),
        color(rect.change),
    );
    let room = ((width - 4.0) / CHARACTER) as usize;
    if room >= FEWEST {
        let shown = if name.chars().count() > room {
            name.chars().take(room - 1).chain(['…']).collect()
        } else {
            name
        };
        let _ = write!(
            out,
            "<text x=\"{:.2}\" y=\"{}\">{}</text>",
            x + 2.0,
            y + 12.0,
            escape_html(&shown)
        );
    }
    out.push_str("</g>\n");
}

/// Red for an increase, blue for a decrease; light enough for black text.
fn color(change: f64) -> String {
    let faded = |strongest: f64| (238.0 - (238.0 - strongest) * change.abs().min(1.0)) as u8;
    match change {
        more if more > 0.0 => format!("rgb(255,{0},{0})", faded(90.0)),
        less if less < 0.0 => format!("rgb({0},{0},255)", faded(120.0)),
        _ => "rgb(232,232,232)".to_owned(),
    }
}
