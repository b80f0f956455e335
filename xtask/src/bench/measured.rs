//! What was measured: figures by name, and what their values come to. Pure.

use std::collections::BTreeMap;

/// Begins each line of the measuring program that holds a figure.
const FIGURE: &str = "bench figure: ";

/// Figures by name, each with all of its values.
#[derive(Debug, Default)]
pub struct Measured(BTreeMap<String, Vec<f64>>);

impl Measured {
    /// Adds values to those of a figure.
    pub fn add(&mut self, name: &str, values: impl IntoIterator<Item = f64>) {
        self.0.entry(name.to_owned()).or_default().extend(values);
    }

    /// Reads a line of the measuring program; its figures' names begin with `prefix` then. What
    /// is no figure is passed on.
    pub fn line(&mut self, prefix: &str, line: &str) {
        if let Some((name, values)) = line
            .strip_prefix(FIGURE)
            .and_then(|figure| figure.split_once(' '))
        {
            let values = values.split(' ').filter_map(|value| value.parse().ok());
            self.add(&format!("{prefix}{name}"), values);
        } else if !line.trim().is_empty() {
            eprintln!("{line}");
        }
    }

    /// What the values of a figure come to; `None` if it was not measured.
    pub fn spread(&self, name: &str) -> Option<Spread> {
        Spread::of(self.0.get(name)?)
    }
}

/// A median, and where that of all possible measurements lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// With 95 % confidence, it is not less; of fewer than six, the least.
    pub low: f64,
    /// And not more; of fewer than six, the largest.
    pub high: f64,
}

impl Spread {
    /// By the sign test, which knows nothing of how values are distributed: the values of those
    /// ranks between which the median lies with 95 % at least. `None` if there are no values.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let mut values: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let count = values.len();
        let last = count.checked_sub(1)?;
        // The chance that the median is below the value of rank `outside` (from 0), and that as
        // far above.
        let (mut outside, mut chance, mut term) = (0_usize, 0.0, 0.5_f64.powi(count as i32));
        while outside < count / 2 && 2.0 * (chance + term) <= 0.05 {
            chance += term;
            term *= (count - outside) as f64 / (outside + 1) as f64;
            outside += 1;
        }
        let rank = outside.saturating_sub(1);
        Some(Spread {
            median: (values[last / 2] + values[last.div_ceil(2)]) / 2.0,
            low: values[rank],
            high: values[last - rank],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_twenty_pairs_leaves_out_five_at_each_end() {
        // Tables of the sign test: for 20 values, ranks 6 and 15 (counted from 1).
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        let spread = Spread::of(&values).unwrap();
        assert_eq!((spread.low, spread.median, spread.high), (6.0, 10.5, 15.0));
        let bounds = |count| Spread::of(&values[..count]).map(|s| (s.low, s.high));
        assert_eq!(bounds(6), Some((1.0, 6.0)));
        assert_eq!(bounds(3), Some((1.0, 3.0)), "three say nothing with 95 %");
        assert_eq!(bounds(0), None);
        assert_eq!(Spread::of(&[f64::NAN]), None);
    }

    #[test]
    fn figures_of_a_guest_have_names_of_their_own_and_values_add_up() {
        let mut measured = Measured::default();
        measured.line("", "bench figure: a 1");
        measured.line("", "bench figure: a 3");
        measured.line("2/", "bench figure: a 9 9.5 10");
        assert_eq!(measured.spread("a").unwrap().median, 2.0);
        assert_eq!(measured.spread("2/a").unwrap().median, 9.5);
        assert_eq!(measured.spread("b"), None);
    }
}
