//! The tables of figures: what netto costs in docs/PERFORMANCE.md, the rest in docs/BENCHMARKS.md. A
//! line keeps its figure and its date until it is measured again.

use std::path::Path;

use anyhow::{Context, Result};

use super::benchmark::Benchmark;
use super::measured::{Measured, Spread};
use super::rows::{DETAILS, HEADLINES, Row};

/// Documents, and the lines of their tables.
const TABLES: [(&str, &[Row]); 2] = [
    ("docs/PERFORMANCE.md", HEADLINES),
    ("docs/BENCHMARKS.md", DETAILS),
];
/// Around a table.
const MARKS: [&str; 2] = ["<!-- figures: begin -->\n", "<!-- figures: end -->"];
const NOT_MEASURED: &str = "not measured";

/// Prints the lines of a benchmark and, if asked for, writes those that were measured into the documents.
///
/// # Errors
/// A document has no table, or cannot be written.
pub fn put(
    root: &Path,
    benchmark: Benchmark,
    measured: &Measured,
    when: &str,
    writes: bool,
) -> Result<()> {
    for (document, rows) in TABLES {
        for row in rows.iter().filter(|row| row.benchmark == benchmark) {
            println!("{}", line(row, &cell(row, measured), when));
        }
        if writes {
            let path = root.join(document);
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let text = updated(&text, rows, |row| {
                let is_measured = row.benchmark == benchmark && measured.spread(row.name).is_some();
                is_measured.then(|| line(row, &cell(row, measured), when))
            })
            .with_context(|| format!("{} has no place for the table", path.display()))?;
            std::fs::write(&path, text)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

/// A document with all lines: those that are new, and those that it had.
fn updated(text: &str, rows: &[Row], new: impl Fn(&Row) -> Option<String>) -> Option<String> {
    let [begin, end] = MARKS;
    let (head, rest) = text.split_once(begin)?;
    let (old, tail) = rest.split_once(end)?;
    let mut table =
        "| | figure | aim | `--only` | measured |\n|---|---:|---:|---|---|\n".to_owned();
    for row in rows {
        let kept = || {
            let begin = format!("| {} |", row.what);
            let kept = old.lines().find(|line| line.starts_with(&begin));
            kept.map_or_else(|| line(row, NOT_MEASURED, ""), str::to_owned)
        };
        table += &new(row).unwrap_or_else(kept);
        table.push('\n');
    }
    Some(format!("{head}{begin}{table}{end}{tail}"))
}

fn line(row: &Row, figure: &str, when: &str) -> String {
    let Row {
        what,
        aim,
        benchmark,
        ..
    } = row;
    let when = if figure == NOT_MEASURED { "" } else { when };
    format!(
        "| {what} | {figure} | {aim} | {} | {when} |",
        benchmark.name()
    )
}

fn cell(row: &Row, measured: &Measured) -> String {
    let figure = match measured.spread(row.name) {
        None => return NOT_MEASURED.to_owned(),
        Some(Spread { median, low, high }) if low == high => show(median),
        Some(Spread { median, low, high }) => {
            format!("{} ({} … {})", show(median), show(low), show(high))
        }
    };
    format!("{figure} {}", row.unit).trim_end().to_owned()
}

/// Three digits, whatever the size.
fn show(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.995 => format!("{value:.3}"),
        size if size < 9.95 => format!("{value:.2}"),
        size if size < 99.5 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_document_has_its_table_with_every_line_as_it_would_be_written() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for (document, rows) in TABLES {
            let text = std::fs::read_to_string(root.join(document)).unwrap();
            assert_eq!(updated(&text, rows, |_| None).unwrap(), text, "{document}");
        }
    }

    #[test]
    fn a_measured_line_is_replaced_and_the_others_are_kept() {
        let [begin, end] = MARKS;
        let (first, second) = (&HEADLINES[0], &HEADLINES[1]);
        let old = line(first, "7 %", "1999-01-01");
        let text = format!("head\n{begin}{old}\n{end}\ntail\n");
        let mut measured = Measured::default();
        measured.add(second.name, [1.0, 2.0, 3.0]);
        let new = updated(&text, HEADLINES, |row| {
            (row.what == second.what).then(|| line(row, &cell(row, &measured), "today"))
        });
        let new = new.unwrap();
        assert!(new.contains(&old), "{new}");
        let shown = format!("| {} | 2.00 (1.00 … 3.00) {} |", second.what, second.unit);
        assert!(new.contains(&shown), "{new}");
        assert!(
            new.starts_with("head\n") && new.ends_with("tail\n"),
            "{new}"
        );
    }

    #[test]
    fn what_was_not_measured_is_said_and_is_not_zero() {
        assert_eq!(cell(&HEADLINES[0], &Measured::default()), NOT_MEASURED);
    }
}
