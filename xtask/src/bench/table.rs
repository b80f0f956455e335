//! A table of figures before and after: what was measured before is kept by the document, and
//! read from there. Pure.

use std::fmt;

use super::figures::{Spread, show};

/// The column that the document keeps.
const BEFORE: &str = "before";
const NOT_MEASURED: &str = "not measured";

/// One line.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// What was measured: by this a line is found again.
    pub what: String,
    /// The least that there can be, and why.
    pub floor: String,
    /// Now.
    pub now: String,
    /// What it should be.
    pub aim: &'static str,
}

impl Row {
    /// A figure with its middle half, where it was measured more than once.
    pub fn new(what: &str, now: Option<Spread>, unit: &str) -> Self {
        let now = match now {
            None => NOT_MEASURED.to_owned(),
            Some(spread) if spread.low == spread.high => {
                format!("{} {unit}", show(spread.median))
            }
            Some(spread) => format!(
                "{} ({} … {}) {unit}",
                show(spread.median),
                show(spread.low),
                show(spread.high)
            ),
        };
        Row {
            what: what.to_owned(),
            now: now.trim_end().to_owned(),
            ..Row::default()
        }
    }

    /// The median of differences between so many pairs, with its interval.
    pub fn of_pairs(what: &str, median: Option<Interval>, unit: &str) -> Self {
        let now = match median {
            None => NOT_MEASURED.to_owned(),
            Some(Interval {
                median,
                low,
                high,
                pairs,
            }) => format!(
                "{} {unit} ({} … {}), {pairs} pairs",
                show(median),
                show(low),
                show(high)
            ),
        };
        Row {
            what: what.to_owned(),
            now,
            ..Row::default()
        }
    }

    /// With the least that there can be.
    pub fn floor(self, floor: &str) -> Self {
        Row {
            floor: floor.to_owned(),
            ..self
        }
    }

    /// With an aim.
    pub fn aim(self, aim: &'static str) -> Self {
        Row { aim, ..self }
    }
}

/// Lines below a heading, and what they were before.
#[derive(Debug)]
pub struct Table {
    title: String,
    rows: Vec<(Row, String)>,
}

impl Table {
    /// With what the document's text says of before.
    pub fn new(title: &str, rows: Vec<Row>, document: &str) -> Self {
        let rows = rows.into_iter().map(|row| {
            let before = before(document, title, &row.what).unwrap_or_default();
            (row, before)
        });
        Table {
            title: title.to_owned(),
            rows: rows.collect(),
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| {} | floor | {BEFORE} | now | aim |", self.title)?;
        writeln!(f, "|---|---:|---:|---:|---:|")?;
        for (row, before) in &self.rows {
            let Row {
                what,
                floor,
                now,
                aim,
            } = row;
            writeln!(f, "| {what} | {floor} | {before} | {now} | {aim} |")?;
        }
        Ok(())
    }
}

fn cells(line: &str) -> Vec<&str> {
    let inner = line.trim().trim_start_matches('|').trim_end_matches('|');
    inner.split('|').map(str::trim).collect()
}

/// What the table of this title says in its column *before* in the line of this name.
fn before(document: &str, title: &str, what: &str) -> Option<String> {
    let mut lines = document.lines();
    let heading = lines
        .by_ref()
        .map(cells)
        .find(|heading| heading[0] == title)?;
    let column = heading.iter().position(|cell| *cell == BEFORE)?;
    let mut rows = lines.take_while(|line| line.starts_with('|')).map(cells);
    let row = rows.find(|row| row[0] == what)?;
    row.get(column).map(|cell| (*cell).to_owned())
}

/// A median and where that of all possible pairs lies, as far as these tell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The middle one.
    pub median: f64,
    /// With 95 % confidence, it is not less.
    pub low: f64,
    /// And not more.
    pub high: f64,
    /// How many there were.
    pub pairs: usize,
}

impl Interval {
    /// By the sign test, which knows nothing of how values are distributed: the values of those
    /// ranks between which the median lies with 95 % at least. `None` for fewer than six.
    pub fn of(values: &[f64]) -> Option<Interval> {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        let count = values.len();
        // The chance that the median is below the value of rank `outside` (from 0), and that as
        // far above.
        let (mut outside, mut chance, mut term) = (0, 0.0, 0.5_f64.powi(count as i32));
        while outside < count / 2 && 2.0 * (chance + term) <= 0.05 {
            chance += term;
            term *= (count - outside) as f64 / (outside + 1) as f64;
            outside += 1;
        }
        let rank = outside.checked_sub(1)?;
        Some(Interval {
            median: Spread::of(values.iter().copied())?.median,
            low: values[rank],
            high: values[count - 1 - rank],
            pairs: count,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_keeps_what_was_before() {
        let table = |now: f64, document: &str| {
            let rows = vec![Row::new("a", Spread::of([now]), "ns").aim("≤ 3 ns")];
            Table::new("Things", rows, document).to_string()
        };
        let first = table(5.0, "");
        assert!(first.contains("| a |  |  | 5.00 ns | ≤ 3 ns |"), "{first}");
        let kept = first.replace("| a |  |  |", "| a |  | 9.00 ns |");
        let other = format!("| Others | floor | before |\n|---|---|---|\n| a |  | 7 |\n\n{kept}");
        let second = table(2.0, &other);
        assert!(second.contains("| a |  | 9.00 ns | 2.00 ns |"), "{second}");
    }

    #[test]
    fn the_interval_of_twenty_pairs_leaves_out_five_at_each_end() {
        // Tables of the sign test: for 20 values, ranks 6 and 15 (counted from 1).
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        let interval = Interval::of(&values).unwrap();
        assert_eq!((interval.low, interval.high), (6.0, 15.0));
        assert_eq!(interval.median, 10.5);
        assert_eq!(
            Interval::of(&values[..6]).map(|i| (i.low, i.high)),
            Some((1.0, 6.0))
        );
        assert_eq!(
            Interval::of(&values[..5]),
            None,
            "five say nothing with 95 %"
        );
    }

    #[test]
    fn what_was_not_measured_is_said_and_is_not_zero() {
        assert_eq!(Row::new("a", None, "ns").now, NOT_MEASURED);
        assert_eq!(Row::of_pairs("a", None, "%").now, NOT_MEASURED);
    }
}
