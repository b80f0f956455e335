//! Arithmetic on measured figures, and the table that shows them. Pure.

use std::fmt;

/// Several measurements of one thing, on a machine that does other things too.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The smallest of the middle half.
    pub low: f64,
    /// The largest of the middle half.
    pub high: f64,
}

impl Spread {
    /// Of these values; `None` if there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let median = (values[last / 2] + values[last.div_ceil(2)]) / 2.0;
        Some(Spread {
            median,
            low: values[last / 4],
            high: values[last - last / 4],
        })
    }

    /// Of the differences, pair by pair: what a machine does slowly in both falls out.
    pub fn of_differences(with: &[f64], without: &[f64]) -> Option<Spread> {
        Spread::of(
            with.iter()
                .zip(without)
                .map(|(with, without)| with - without),
        )
    }

    /// Of the relative changes, pair by pair: 0.01 is one percent more.
    pub fn of_changes(with: &[f64], without: &[f64]) -> Option<Spread> {
        Spread::of(
            with.iter()
                .zip(without)
                .map(|(with, without)| with / without - 1.0),
        )
    }

    /// Times a factor, for another unit.
    pub fn scaled(self, factor: f64) -> Spread {
        let (a, b) = (self.low * factor, self.high * factor);
        Spread {
            median: self.median * factor,
            low: a.min(b),
            high: a.max(b),
        }
    }
}

/// What a figure should be at most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Aim(pub f64);

/// One line of the table.
#[derive(Debug, Clone)]
pub struct Figure {
    /// What was measured.
    pub what: String,
    /// How much; `None` where it could not be measured.
    pub value: Option<Spread>,
    /// Unit of the value.
    pub unit: &'static str,
    /// The aim, where there is one.
    pub aim: Option<Aim>,
}

impl Figure {
    /// A figure without an aim.
    pub fn new(what: impl Into<String>, value: Option<Spread>, unit: &'static str) -> Self {
        Figure {
            what: what.into(),
            value,
            unit,
            aim: None,
        }
    }

    /// One that was measured once.
    pub fn single(what: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Figure::new(what, Spread::of([value]), unit)
    }

    /// With an aim.
    pub fn at_most(self, aim: f64) -> Self {
        Figure {
            aim: Some(Aim(aim)),
            ..self
        }
    }
}

/// Figures that belong together.
#[derive(Debug, Clone)]
pub struct Section {
    /// What they have in common.
    pub title: String,
    /// The lines.
    pub figures: Vec<Figure>,
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| {} | median | middle half | aim |", self.title)?;
        writeln!(f, "|---|---:|---:|---:|")?;
        for figure in &self.figures {
            let unit = figure.unit;
            let (median, middle) = match figure.value {
                Some(v) if v.low == v.high => (show(v.median), String::new()),
                Some(v) => (
                    show(v.median),
                    format!("{} … {}", show(v.low), show(v.high)),
                ),
                None => ("not measured".to_owned(), String::new()),
            };
            let aim = figure
                .aim
                .map(|Aim(aim)| format!("≤ {} {unit}", show(aim)))
                .unwrap_or_default();
            writeln!(
                f,
                "| {} | {median} {unit} | {middle} | {aim} |",
                figure.what
            )?;
        }
        Ok(())
    }
}

/// Three digits, whatever the size.
pub fn show(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.995 => format!("{value:.3}"),
        size if size < 9.95 => format!("{value:.2}"),
        size if size < 99.5 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Replaces what stands between the markers; `None` if the text has none.
pub fn replace_between(text: &str, begin: &str, end: &str, new: &str) -> Option<String> {
    let (head, rest) = text.split_once(begin)?;
    let (_, tail) = rest.split_once(end)?;
    Some(format!("{head}{begin}\n{new}{end}{tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_pairs_does_not_feel_a_machine_that_slows_down() {
        let without = [100.0, 150.0, 200.0, 400.0, 800.0];
        let with = [110.0, 160.0, 210.0, 410.0, 810.0];
        let spread = Spread::of_differences(&with, &without).unwrap();
        assert_eq!((spread.median, spread.low, spread.high), (10.0, 10.0, 10.0));
    }

    #[test]
    fn one_run_that_was_disturbed_moves_neither_median_nor_middle_half() {
        let spread = Spread::of([5.0, 1.0, 4.0, 900.0, 3.0, 2.0, 4.5]).unwrap();
        assert_eq!(spread.median, 4.0);
        assert!(spread.high < 10.0, "{spread:?}");
    }

    #[test]
    fn half_the_throughput_is_a_loss_of_fifty_percent() {
        let loss = Spread::of_changes(&[5.0, 4.0, 6.0], &[10.0, 10.0, 10.0]).unwrap();
        let loss = loss.scaled(-100.0);
        assert_eq!((loss.low, loss.median, loss.high), (40.0, 50.0, 60.0));
    }

    #[test]
    fn an_even_number_of_values_has_its_median_between_two() {
        assert_eq!(Spread::of([1.0, 2.0, 4.0, 8.0]).unwrap().median, 3.0);
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([f64::NAN]), None);
    }

    #[test]
    fn what_could_not_be_measured_is_said_and_is_not_zero() {
        let section = Section {
            title: "Things".to_owned(),
            figures: vec![
                Figure::new("a", None, "ns"),
                Figure::single("b", 0.2531, "µs").at_most(0.3),
            ],
        };
        let text = section.to_string();
        assert!(text.contains("| a | not measured ns |"), "{text}");
        assert!(text.contains("| b | 0.253 µs |  | ≤ 0.300 µs |"), "{text}");
    }

    #[test]
    fn only_what_stands_between_the_markers_is_replaced() {
        let text = "head\n<b>\nold\n<e>\ntail\n";
        let new = replace_between(text, "<b>", "<e>", "new\n").unwrap();
        assert_eq!(new, "head\n<b>\nnew\n<e>\ntail\n");
        assert_eq!(replace_between("nothing", "<b>", "<e>", "new\n"), None);
    }
}
