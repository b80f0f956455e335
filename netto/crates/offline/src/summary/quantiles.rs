//! Quantiles of a figure over any number of intervals, in little memory. Pure.
//!
//! Values are counted on a fixed grid, each cell 1 % wider than the previous one, and represented
//! by the geometric middle of their cell: the error of a quantile is at most half a percent of its
//! value. 0, the minimum and the maximum are exact. Cells count nanoseconds, so that an interval is
//! weighted by its length.

/// Ratio of a cell's upper to its lower end.
const STEP: f64 = 1.01;
/// Values below this count as 0: a nanosecond in a second of one CPU.
const LEAST: f64 = 1e-9;
/// Larger values count as this.
const MOST: f64 = 1e5;

/// Counts values, weighted by the length of their interval.
#[derive(Debug, Clone, Default)]
pub struct Quantiles {
    /// Nanoseconds in which the value was 0, or less than [`LEAST`].
    zero_ns: u64,
    /// Nanoseconds by cell, up to the last cell used.
    cells_ns: Vec<u64>,
    all_ns: u64,
    least: Option<f64>,
    most: Option<f64>,
}

impl Quantiles {
    /// Counts an interval of this length with this value of the figure. NaN and negative values are
    /// not counted.
    pub fn add(&mut self, value: f64, interval_ns: u64) {
        if value.is_nan() || value < 0.0 {
            return;
        }
        self.least = Some(self.least.map_or(value, |least| least.min(value)));
        self.most = Some(self.most.map_or(value, |most| most.max(value)));
        self.all_ns = self.all_ns.saturating_add(interval_ns);
        if value < LEAST {
            self.zero_ns = self.zero_ns.saturating_add(interval_ns);
            return;
        }
        let cell = ((value.min(MOST) / LEAST).ln() / STEP.ln()) as usize;
        if cell >= self.cells_ns.len() {
            self.cells_ns.resize(cell + 1, 0);
        }
        if let Some(ns) = self.cells_ns.get_mut(cell) {
            *ns = ns.saturating_add(interval_ns);
        }
    }

    /// The value that the figure did not exceed in this share of the time; `None` if nothing was
    /// counted.
    pub fn at(&self, share_ratio: f64) -> Option<f64> {
        let (least, most) = (self.least?, self.most?);
        let wanted_ns = share_ratio.clamp(0.0, 1.0) * self.all_ns as f64;
        let mut below_ns = self.zero_ns;
        if self.zero_ns > 0 && below_ns as f64 >= wanted_ns {
            return Some(least);
        }
        for (cell, ns) in self.cells_ns.iter().enumerate() {
            below_ns = below_ns.saturating_add(*ns);
            if *ns > 0 && below_ns as f64 >= wanted_ns {
                let middle = LEAST * STEP.powf(cell as f64 + 0.5);
                return Some(middle.clamp(least, most));
            }
        }
        Some(most)
    }

    /// The maximum; `None` if nothing was counted.
    pub fn most(&self) -> Option<f64> {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_quantile_is_off_by_half_a_per_cent_at_most(
            mut values in prop::collection::vec((1e-8..1e4_f64, 1_u64..1_000), 1..300),
            share in 0.0..=1.0_f64,
        ) {
            let mut quantiles = Quantiles::default();
            for &(value, ns) in &values {
                quantiles.add(value, ns);
            }
            values.sort_by(|a, b| a.0.total_cmp(&b.0));
            let all: u64 = values.iter().map(|(_, ns)| ns).sum();
            let mut below = 0;
            let exact = values.iter().find(|(_, ns)| {
                below += ns;
                below as f64 >= share * all as f64
            });
            let exact = exact.map_or(values[values.len() - 1].0, |(value, _)| *value);
            let found = quantiles.at(share).unwrap();
            prop_assert!((found / exact - 1.0).abs() <= 0.005, "{found} {exact}");
        }
    }

    #[test]
    fn an_interval_counts_by_its_length() {
        let mut quantiles = Quantiles::default();
        quantiles.add(0.0, 900);
        quantiles.add(0.5, 100);
        assert_eq!(quantiles.at(0.5), Some(0.0));
        assert!((quantiles.at(0.95).unwrap() - 0.5).abs() < 0.0025);
        assert_eq!(quantiles.most(), Some(0.5));
    }

    #[test]
    fn hostile_values_make_no_panic_and_nothing_makes_no_quantile() {
        let mut quantiles = Quantiles::default();
        assert_eq!(quantiles.at(0.5), None);
        for value in [f64::NAN, -1.0, f64::INFINITY, f64::MAX, 1e-300] {
            quantiles.add(value, u64::MAX);
        }
        assert!(quantiles.at(0.5).is_some() && quantiles.at(f64::NAN).is_some());
        assert!(quantiles.cells_ns.len() < 4_000);
    }
}
