//! Rounds times and counts to steps below their random error, without changing sums.
//!
//! The nanoseconds of an interval take four times as much space as their information needs: the
//! next interval of the same load differs in all but the first digits. CPU times are therefore
//! multiples of [`TIME_UNIT_NS`], and these as well as counts are rounded to `steps`. The rounding
//! error of a value is carried over to the next value of the same CPU and row that is not 0. A sum
//! over any time is therefore exact to half a step at either end.
//!
//! Pure arithmetic; each section chooses the tables to round.

use std::collections::BTreeMap;

use crate::steps;

/// Unit of rounded times, nanoseconds: 20 millionths of half a second.
pub const TIME_UNIT_NS: u64 = 10_000;

/// The rounding errors carried over, in the unit of the values, by table, row and CPU.
#[derive(Debug, Default)]
pub struct Carry(BTreeMap<&'static str, Vec<Vec<i64>>>);

impl Carry {
    /// Rounds a table, named by its section, to steps of a unit.
    pub fn round_rows(&mut self, table: &'static str, rows: &mut [Option<Vec<u64>>], unit: u64) {
        let left = self.0.entry(table).or_default();
        left.resize_with(rows.len(), Vec::new);
        for (row, left) in rows.iter_mut().zip(left) {
            let Some(row) = row else {
                continue;
            };
            left.resize(row.len(), 0);
            for (value, left) in row.iter_mut().zip(left) {
                *value = round(*value, left, unit);
            }
        }
    }

    /// The same for counts of all CPUs together.
    pub fn round_counts(&mut self, table: &'static str, counts: &mut [Option<u64>]) {
        let left = self.0.entry(table).or_default();
        left.resize(counts.len(), vec![0]);
        for (count, left) in counts.iter_mut().zip(left) {
            if let (Some(count), Some(left)) = (count, left.first_mut()) {
                *count = round(*count, left, 1);
            }
        }
    }
}

/// A value rounded to seven digits, which take half the space.
pub fn seven_digits(value: f64) -> f64 {
    f64::from(value as f32)
}

/// The multiple of its step that is nearest to the value plus the carried error.
fn round(value: u64, left: &mut i64, unit: u64) -> u64 {
    // Values beyond 2^62 (a century) are not rounded.
    let Some(wanted) = i64::try_from(value)
        .ok()
        .filter(|&value| 0 < value && value < 1 << 62)
    else {
        return value;
    };
    let wanted = wanted + *left;
    let kept = match u64::try_from(wanted) {
        Ok(wanted) => steps::nearest((wanted + unit / 2) / unit).saturating_mul(unit),
        Err(_) => 0,
    };
    *left = wanted.saturating_sub_unsigned(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_counts_are_exact() {
        let mut left = 0;
        let kept = (1..=8).map(|count| round(count, &mut left, 1));
        assert_eq!(kept.sum::<u64>(), 36);
    }
}
