//! A comparison as text for a terminal. Only arranges and words; computes nothing.

use std::fmt::Write as _;

use jiff::tz::TimeZone;

use netto_offline::compare::{About, Change, Comparison, FEWEST_BLOCKS};
use netto_questions::figures::{counted, percent_number, plain};
use netto_questions::times::{length, shown};

/// Lines for components without a change, or for which it is unknown.
const OTHERS: usize = 8;
const NAMES: usize = 30;
/// What has grown by more was hardly there.
const MOST_RATIO: f64 = 100.0;

/// The whole comparison.
pub(super) fn text(comparison: &Comparison, names: &[String; 2], zone: &TimeZone) -> String {
    let mut out = String::new();
    let mut line = |text: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}", text.trim_end());
    };
    for (letter, name, about) in [
        ("A", &names[0], &comparison.a),
        ("B", &names[1], &comparison.b),
    ] {
        line(&format!("{letter}  {}", plain(&side(name, about, zone))));
    }
    line(&certainty(comparison));
    line("");
    line(&format!(
        "{:NAMES$}{:>8}{:>8}  {:28}{:>9}{:>10}",
        "% of the CPUs' time", "A", "B", "change in points (95 %)", "CPUs", "of A"
    ));
    let (real, others): (Vec<&Change>, Vec<&Change>) = comparison
        .changes
        .iter()
        .partition(|change| change.is_real == Some(true));
    let (unsure, others): (Vec<&Change>, Vec<&Change>) = others
        .into_iter()
        .partition(|change| change.is_inconclusive());
    match (real.is_empty(), comparison.blocks) {
        (false, _) => line("Changed"),
        (true, Some(_)) if unsure.is_empty() => line("Nothing has changed by more than chance"),
        (true, Some(_)) => {}
        (true, None) => line("Whether anything has changed cannot be told"),
    }
    for change in &real {
        line(&row(comparison, change));
    }
    if !unsure.is_empty() {
        line(&inconclusive(unsure.len()));
    }
    for change in &unsure {
        line(&row(comparison, change));
    }
    let shown = others.iter().filter(|change| change.share.value != 0.0);
    let shown: Vec<&&Change> = shown.take(OTHERS).collect();
    if !shown.is_empty() && comparison.blocks.is_some() {
        line("Within chance");
    }
    for change in &shown {
        line(&row(comparison, change));
    }
    if others.len() > shown.len() {
        let most = others
            .get(shown.len())
            .map_or(0.0, |change| change.share.value.abs());
        line(&format!(
            "  … {} more, each by at most {} points",
            others.len() - shown.len(),
            percent_number(most)
        ));
    }
    if !comparison.incomparable.is_empty() {
        line("");
        line("Not comparable");
        for other in comparison.incomparable.iter().take(OTHERS) {
            let text = format!("  {}: {}", other.label, other.unavailable);
            line(&plain(&text));
        }
        let more = comparison.incomparable.len().saturating_sub(OTHERS);
        if more > 0 {
            line(&format!("  … {more} more; see --format json"));
        }
    }
    out
}

/// The host and time of a side.
pub(super) fn side(name: &str, about: &About, zone: &TimeZone) -> String {
    format!(
        "{name} · {} · Linux {} · {} to {} · {} in {}",
        about.hostname,
        about.kernel,
        shown(about.from_unix_ns, zone),
        shown(about.to_unix_ns, zone),
        length(about.measured_ns),
        counted(about.intervals, "interval", "intervals"),
    )
}

/// The basis of the confidence intervals.
pub(super) fn certainty(comparison: &Comparison) -> String {
    match (comparison.blocks, comparison.block_ns) {
        (Some((a, b)), Some((a_ns, b_ns))) => format!(
            "Intervals hold for all components together; from {a} blocks of {} and {b} of {}",
            length(a_ns),
            length(b_ns)
        ),
        _ => format!(
            "Too few intervals to tell a change from chance: each side needs {FEWEST_BLOCKS} at least"
        ),
    }
}

/// What is said of so many changes that would matter and may be chance.
pub(super) fn inconclusive(count: usize) -> String {
    format!("Inconclusive: {count}, each a large change that may be chance; longer logs can tell")
}

/// A component's name for people, with that of its parent if it is not the only one of its name.
pub(super) fn name(comparison: &Comparison, change: &Change) -> String {
    let labels = |other: &&Change| other.label == change.label;
    let is_ambiguous = comparison.changes.iter().filter(labels).count() > 1;
    let is_parent = |other: &&Change| Some(&other.component) == change.parent.as_ref();
    let parent = comparison.changes.iter().find(is_parent);
    match parent.filter(|_| is_ambiguous) {
        Some(parent) => plain(&format!("{} ({})", change.label, parent.label)),
        None => plain(&change.label),
    }
}

/// A relative change, per cent; *new* of what was nothing, or less than a hundredth.
pub(super) fn relative(ratio: Option<f64>) -> String {
    match ratio {
        Some(ratio) if ratio.abs() < MOST_RATIO => format!("{:+.1} %", ratio * 100.0),
        _ => "new".to_owned(),
    }
}

fn row(comparison: &Comparison, change: &Change) -> String {
    let points = |value: f64| format!("{:+.3}", value * 100.0);
    let found = match change.share.interval {
        Some((low, high)) => format!(
            "{} ({} … {})",
            points(change.share.value),
            points(low),
            points(high)
        ),
        None => points(change.share.value),
    };
    let relative = relative(change.relative_ratio);
    format!(
        "  {:width$}{:>8}{:>8}  {found:28}{:>+9.3}{relative:>10}",
        name(comparison, change),
        percent_number(change.a.share_ratio),
        percent_number(change.b.share_ratio),
        change.cpus.value,
        width = NAMES - 2,
    )
}
