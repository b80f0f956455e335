//! Intervals of shares and of totals that are found by observations.

use crate::quantile::NORMAL;

/// The bounds of a 95 % interval.
pub type Bounds = (f64, f64);

/// What an interval rests on.
#[derive(Debug, Clone, Copy)]
pub struct Observed {
    /// The total that was found.
    pub value: f64,
    /// Its variance.
    pub variance: f64,
    /// How much an observation adds to the total: those that were made, and those that were not. The
    /// variance of a total that is larger by one of them is larger by its square.
    pub weights: [f64; 2],
    /// The whole of which the value is a part; infinite if there is none.
    pub whole: f64,
}

impl Observed {
    /// The totals from which the value is as far as is likely: the solutions for a total t of
    /// (|t - value| - w / 2)² = z² V(t), where V is that of a binomial count of observations of weight w,
    /// w t (1 - t / whole), as far as it follows t (E. B. Wilson, *Probable inference, the law of
    /// succession, and statistical inference*, JASA 22, 1927; with the correction for continuity, w / 2:
    /// R. G. Newcombe, *Two-sided confidence intervals for the single proportion*, Statistics in Medicine
    /// 17, 1998, method 4). Unlike the usual normal approximation it is right for few observations and for
    /// shares near 0 and 1; without the correction, a rare part would lie outside in up to a sixth of the
    /// cases.
    ///
    /// Without an observation, the upper bound is some four weights (the rule of three: J. A. Hanley and
    /// A. Lippman-Hand, *If nothing goes wrong, is everything all right?*, JAMA 249, 1983; three are
    /// one-sided).
    pub fn interval(&self, quantile: f64) -> Bounds {
        let Observed {
            value,
            variance,
            weights: [made, missed],
            whole,
        } = *self;
        let distance = |weight: f64, side: f64| {
            let half = weight / 2.0;
            let z2 = quantile * quantile;
            let square = 1.0 + z2 * weight / whole;
            let slope = half + side * z2 * weight * (1.0 - 2.0 * value / whole) / 2.0;
            let root = slope * slope - square * (half * half - z2 * variance);
            ((slope + root.max(0.0).sqrt()) / square).max(0.0)
        };
        let low = if value <= made / 2.0 {
            0.0
        } else {
            (value - distance(made, -1.0)).max(0.0)
        };
        let high = if value + missed / 2.0 >= whole {
            whole
        } else {
            (value + distance(missed, 1.0)).min(whole)
        };
        (low, high)
    }
}

/// The 95 % interval of a share that was found in so many independent samples of equal weight, as ratios
/// from 0 to 1; 0 to 1 without any.
pub fn wilson(share_ratio: f64, samples: f64) -> Bounds {
    if samples.is_nan() || samples < 1.0 || !share_ratio.is_finite() {
        return (0.0, 1.0);
    }
    let value = share_ratio.clamp(0.0, 1.0);
    let weights = [1.0 / samples; 2];
    let variance = value * (1.0 - value) / samples;
    Observed {
        value,
        variance,
        weights,
        whole: 1.0,
    }
    .interval(NORMAL)
}

/// The 95 % interval of the difference of two shares, the first less the second, that were found in so many independent
/// cases each (R. G. Newcombe, *Interval estimation for the difference between independent proportions*, Statistics in
/// Medicine 17, 1998, method 11).
pub fn difference([first, second]: [f64; 2], [of_first, of_second]: [f64; 2]) -> Bounds {
    let (a, b) = (wilson(first, of_first), wilson(second, of_second));
    let below = (first - a.0).hypot(b.1 - second);
    let above = (a.1 - first).hypot(second - b.0);
    (first - second - below, first - second + above)
}

/// The independent samples after which the 95 % interval of any share is at most this far from it on either side:
/// those of a half, the share that varies most, z² / 4 h² (W. G. Cochran, *Sampling Techniques*, 3rd edition 1977,
/// formula 4.1).
pub fn samples_for(half_width_ratio: f64) -> f64 {
    (NORMAL / (2.0 * half_width_ratio.max(f64::MIN_POSITIVE))).powi(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_samples_as_a_half_width_needs_give_it_and_few_less_do_not() {
        let half_width = |samples: f64| {
            let (low, high) = wilson(0.5, samples);
            (high - low) / 2.0
        };
        for wanted in [0.01, 0.05, 0.1] {
            let samples = samples_for(wanted);
            assert!(half_width(1.1 * samples) <= wanted, "{wanted}");
            assert!(half_width(0.9 * samples) > wanted, "{wanted}");
        }
    }

    #[test]
    fn known_intervals_come_out() {
        // Values from the literature (Newcombe 1998, table I, method 4).
        for (hits, samples, low, high) in [
            (81, 263.0, 0.2535, 0.3682),
            (15, 148.0, 0.0598, 0.1644),
            (0, 20.0, 0.0, 0.2005),
            (1, 29.0, 0.0018, 0.1963),
        ] {
            let found = wilson(f64::from(hits) / samples, samples);
            assert!((found.0 - low).abs() < 1e-4, "{hits}/{samples}: {found:?}");
            assert!((found.1 - high).abs() < 1e-4, "{hits}/{samples}: {found:?}");
        }
    }

    /// The worst coverage over all rates, computed by the Poisson distribution itself.
    #[test]
    fn however_rare_a_part_is_its_interval_contains_it_as_often_as_it_says() {
        const SAMPLES: f64 = 100_000.0;
        for expected in (1..2_000).map(|hundredth| f64::from(hundredth) / 100.0) {
            let mut chance = (-expected).exp();
            let (mut covered, mut of_totals) = (0.0, 0.0);
            for count in 0..100 {
                let count = f64::from(count);
                let (low, high) = wilson(count / SAMPLES, SAMPLES);
                if (low..=high).contains(&(expected / SAMPLES)) {
                    covered += chance;
                }
                let total = Observed {
                    value: count,
                    variance: count,
                    weights: [1.0; 2],
                    whole: f64::INFINITY,
                };
                let (low, high) = total.interval(NORMAL);
                if (low..=high).contains(&expected) {
                    of_totals += chance;
                }
                chance *= expected / (count + 1.0);
            }
            assert!(covered >= 0.945, "{expected} expected samples: {covered}");
            assert!(
                of_totals >= 0.945,
                "{expected} expected samples: {of_totals}"
            );
        }
    }

    #[test]
    fn more_samples_know_more_and_none_know_nothing() {
        assert_eq!(wilson(0.3, 0.0), (0.0, 1.0));
        let widths: Vec<f64> = [1.0, 10.0, 100.0, 10_000.0]
            .map(|samples| wilson(0.3, samples))
            .map(|(low, high)| high - low)
            .to_vec();
        assert!(widths.is_sorted_by(|a, b| a > b), "{widths:?}");
    }

    #[test]
    fn a_share_of_less_than_half_a_sample_may_be_nothing() {
        for samples in [1.0, 2.0, 50.0] {
            assert_eq!(wilson(0.4 / samples, samples).0, 0.0);
            assert_eq!(wilson(1.0 - 0.4 / samples, samples).1, 1.0);
        }
    }

    #[test]
    fn the_share_lies_in_its_interval_and_the_interval_among_the_ratios() {
        for share in [-1.0, 0.0, 1e-9, 0.5, 1.0 - 1e-12, 1.0, 2.0] {
            for samples in [1.0, 7.0, 1e6, 1e18] {
                let (low, high) = wilson(share, samples);
                let share = share.clamp(0.0, 1.0);
                assert!(0.0 <= low && low <= share && share <= high && high <= 1.0);
            }
        }
    }

    #[test]
    fn the_difference_of_two_shares_is_as_published() {
        // 56 of 70 and 48 of 80: 0.0428 to 0.3422 by method 11, in the table of the paper.
        let (low, high) = difference([56.0 / 70.0, 48.0 / 80.0], [70.0, 80.0]);
        assert!((low - 0.0428).abs() < 5e-4, "{low}");
        assert!((high - 0.3422).abs() < 5e-4, "{high}");
    }
}
