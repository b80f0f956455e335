//! A comparison as a block of plain text for a commit message: ASCII, at most 72 columns. Only
//! arranges and words; computes nothing.

use std::fmt::Write as _;

use netto_judges::efficiency::Work;

use netto_offline::compare::{About, Change, Comparison, Difference, FEWEST_BLOCKS};
use netto_questions::times::length;

use super::table::{inconclusive, name, relative};

/// The columns of a name, and of a figure.
const NAMES: usize = 29;
const FIGURES: usize = 8;
/// Of a line in a commit message.
const COLUMNS: usize = 72;
/// Lines for components.
const COMPONENTS: usize = 8;
/// Nanoseconds for 1,000 bytes, in CPUs for a gigabit per second.
const PER_GIGABIT: f64 = 1.0 / 8_000.0;

/// The whole block.
pub(super) fn text(comparison: &Comparison) -> String {
    let (a, b) = (&comparison.a, &comparison.b);
    let mut out = String::new();
    let mut line = |text: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}", wrapped(&ascii(text.trim_end())));
    };
    if machine(a) == machine(b) {
        line(&format!("Before and after: {}", machine(a)));
    } else {
        line(&format!("Before: {}", machine(a)));
        line(&format!("After: {}", machine(b)));
    }
    let measured = |about: &About| length(about.measured_ns);
    let interval = match comparison.blocks {
        Some(_) => "; 95 % intervals",
        None => "",
    };
    line(&format!(
        "netto {}; {} before, {} after{interval}",
        b.version,
        measured(a),
        measured(b),
    ));
    line("");
    line(&format!(
        "{:NAMES$}{:>FIGURES$}{:>FIGURES$}  change, %",
        "", "before", "after"
    ));
    for price in &comparison.prices {
        let (what, per_gigabit) = match price.work {
            Work::Packets => ("RX softirq, ns/packet", None),
            Work::WireBytes => ("networking, ns/KB", Some("networking, CPUs per Gbit/s")),
            Work::SocketBytes => ("sockets, ns/KB", Some("sockets, CPUs per Gbit/s")),
        };
        let sides = [price.a_ns, price.b_ns];
        line(&row(what, sides, &price.change_ns));
        if let Some(what) = per_gigabit {
            let scaled = Difference {
                value: price.change_ns.value * PER_GIGABIT,
                interval: price
                    .change_ns
                    .interval
                    .map(|(low, high)| (low * PER_GIGABIT, high * PER_GIGABIT)),
            };
            line(&row(what, sides.map(|ns| ns * PER_GIGABIT), &scaled));
        }
    }
    let is_network = |change: &&Change| change.component == "network";
    let whole = comparison.changes.iter().find(is_network);
    let real = comparison
        .changes
        .iter()
        .filter(|change| change.is_real == Some(true) && change.component != "network");
    for change in whole.into_iter().chain(real.take(COMPONENTS)) {
        let what = format!("{}, CPUs", name(comparison, change));
        line(&row(&what, [change.a.cpus, change.b.cpus], &change.cpus));
    }
    let changes = comparison.changes.iter();
    let unsure = changes.filter(|change| change.is_inconclusive()).count();
    if unsure > 0 {
        line("");
        line(&format!("{}.", inconclusive(unsure)));
    }
    if comparison.blocks.is_none() {
        line("");
        line(&format!(
            "Too short to tell a change from chance (fewer than {FEWEST_BLOCKS} intervals)."
        ));
    }
    out
}

/// Breaks a line at spaces; a word that is longer than a line stays whole.
fn wrapped(line: &str) -> String {
    let mut out = line.to_owned();
    let mut begin = 0;
    while out.len() - begin > COLUMNS {
        let Some(at) = out[begin..=begin + COLUMNS].rfind(' ').filter(|at| *at > 0) else {
            break;
        };
        out.replace_range(begin + at..=begin + at, "\n");
        begin += at + 1;
    }
    out
}

/// The machine of a side.
fn machine(about: &About) -> String {
    let cpus = match about.cpus {
        1 => "1 CPU".to_owned(),
        cpus => format!("{cpus} CPUs"),
    };
    format!("{}, {cpus}, Linux {}", about.hostname, about.kernel)
}

/// Three digits that count.
fn figure(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.1 => 3,
        _ => 4,
    };
    format!("{value:.digits$}")
}

fn row(what: &str, [a, b]: [f64; 2], change: &Difference) -> String {
    let ratio = |value: f64| (a > 0.0).then_some(value / a);
    let relative_change = match (a, b) {
        (0.0, 0.0) => "none".to_owned(),
        _ => relative(ratio(change.value)),
    };
    let relative_change = relative_change.trim_end_matches(" %");
    let percent = |value: f64| ratio(value).map(|ratio| format!("{:+.1}", ratio * 100.0));
    let interval = change.interval.filter(|_| relative_change != "new");
    let interval = interval
        .and_then(|(low, high)| Some(format!(" ({} .. {})", percent(low)?, percent(high)?)));
    let what: String = what.chars().take(NAMES - 1).collect();
    format!(
        "{what:NAMES$}{:>FIGURES$}{:>FIGURES$}  {relative_change}{}",
        figure(a),
        figure(b),
        interval.unwrap_or_default()
    )
}

/// Commit messages are read by programs that know no other characters.
fn ascii(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            '\u{2026}' => '.',
            character if character.is_ascii() => character,
            _ => '?',
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_nothing_and_is_nothing_has_no_change_and_what_came_is_new() {
        let shown = |a, b| {
            let change = Difference {
                value: b - a,
                interval: None,
            };
            let row = row("x", [a, b], &change);
            row.split_whitespace().last().map(str::to_owned)
        };
        assert_eq!(shown(0.0, 0.0).as_deref(), Some("none"));
        assert_eq!(shown(0.0, 1.0).as_deref(), Some("new"));
        assert_eq!(shown(1.0, 1.5).as_deref(), Some("+50.0"));
    }
}
