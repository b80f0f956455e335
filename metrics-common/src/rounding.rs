//! Times and counts in steps that are narrower than what chance scatters, with nothing lost in sums.
//!
//! The nanoseconds of an interval take four times as much room as everything that they say: the
//! next interval of the same load differs in all but the first digits. So CPU times are kept in
//! multiples of [`TIME_UNIT_NS`], and these as well as counts in `steps`; what a value is more or
//! less than its step is added to the next value of the same CPU and row that is not 0. Over any
//! time, therefore, a sum is right but for half a step at either end.
//!
//! Pure arithmetic; which tables of a section are rounded, the section says.

use std::collections::BTreeMap;

use crate::steps;

/// Times are kept in multiples of this, nanoseconds: 20 millionths of half a second.
pub const TIME_UNIT_NS: u64 = 10_000;

/// What rounding has left over of a section, in the unit of the values, by table, row and CPU.
#[derive(Debug, Default)]
pub struct Carry(BTreeMap<&'static str, Vec<Vec<i64>>>);

impl Carry {
    /// Rounds a table, whose name is one of the section's own, to steps of a unit.
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

    /// The same of counts of all CPUs together.
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

/// A value as exactly as half the room allows.
pub fn seven_digits(value: f64) -> f64 {
    f64::from(value as f32)
}

/// The multiple of its step that is nearest to the value and what was left.
fn round(value: u64, left: &mut i64, unit: u64) -> u64 {
    // Beyond 2^62, which is a century, nothing is rounded.
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
