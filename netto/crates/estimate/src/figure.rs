//! A figure: a value, how far it may be off, and the interval that follows.

use crate::proportion::{Bounds, Observed};
use crate::quantile::{NORMAL, student};

/// An estimate of a total, in any unit.
///
/// It is the sum of observations, each of which stands for a part of the total, its *weight*. Sums
/// over strata (CPUs, intervals, hosts) add values and variances, because strata are sampled
/// independently (W. G. Cochran, *Sampling Techniques*, 3rd edition, 1977, section 5.3), and shared
/// errors, because they are one error: what is too much in one stratum is so in all.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Figure {
    /// What is estimated.
    pub value: f64,
    /// The sampling variance of the value, of a total without a bound: of independent observations, the
    /// sum of their squared weights. A part of a known whole has less ([`Figure::part_of`]).
    pub variance: f64,
    /// The standard deviation of an error that is the same in all strata.
    pub shared: f64,
    /// The variance's own uncertainty: its square by its degrees of freedom; 0 if it is known.
    pub square_by_freedom: f64,
}

impl Figure {
    /// A value whose observations have this weight on average (L. Kish, *Survey Sampling*, 1965,
    /// section 11.7: squared weights by weights).
    pub fn weighted(value: f64, weight: f64) -> Figure {
        Figure {
            value,
            variance: value * weight,
            ..Figure::default()
        }
    }

    /// The mean weight of an observation; `None` without any.
    pub fn weight(&self) -> Option<f64> {
        (self.value > 0.0).then(|| self.variance / self.value)
    }

    /// With another error of this standard deviation that is the same in all strata.
    #[must_use]
    pub fn with_shared_error(self, deviation: f64) -> Figure {
        Figure {
            shared: self.shared.hypot(deviation),
            ..self
        }
    }

    /// The standard deviation of all errors.
    pub fn deviation(&self) -> f64 {
        (self.variance + self.shared * self.shared).sqrt()
    }

    /// The degrees of freedom of its variance (F. E. Satterthwaite, *An approximate distribution of
    /// estimates of variance components*, Biometrics Bulletin 2, 1946).
    pub fn freedom(&self) -> f64 {
        if self.square_by_freedom > 0.0 {
            self.variance * self.variance / self.square_by_freedom
        } else {
            f64::INFINITY
        }
    }

    /// The interval of a total of clusters, of which nobody knows how large they are: its variance is known
    /// from how much they differ, and an event stands for `weight`.
    pub fn of_clusters(&self, weight: f64) -> Bounds {
        self.within(f64::INFINITY, self.variance, [weight; 2])
    }

    /// The interval of a total without a bound. An observation that was not made could have added `missed`.
    pub fn interval(&self, missed: f64) -> Bounds {
        let made = self.weight().unwrap_or(missed);
        self.within(f64::INFINITY, self.variance, [made, made.max(missed)])
    }

    /// The interval of a part of a whole whose value is known.
    ///
    /// Its observations tell as much as so many of equal weight in a simple random sample: the
    /// *effective sample size* (E. L. Korn and B. I. Graubard, *Confidence intervals for proportions
    /// with small expected number of positive counts estimated from survey data*, Survey Methodology 24,
    /// 1998). Those that were not made could be where each stands for as much as one of the whole.
    pub fn part_of(&self, whole: &Figure) -> Bounds {
        let missed = whole.weight().unwrap_or(0.0);
        let made = self.weight().unwrap_or(missed);
        let others = 1.0 - self.value / whole.value.max(f64::MIN_POSITIVE);
        let variance = self.variance * others.clamp(0.0, 1.0);
        self.within(whole.value, variance, [made, made.max(missed)])
    }

    fn within(&self, whole: f64, variance: f64, weights: [f64; 2]) -> Bounds {
        let observed = Observed {
            value: self.value,
            variance,
            weights,
            whole,
        };
        self.with_shared(observed.interval(student(NORMAL, self.freedom())))
    }

    /// Widens an interval of sampling errors by the shared error.
    fn with_shared(&self, bounds: Bounds) -> Bounds {
        let shared = NORMAL * self.shared;
        sum_of_bounds(&[(self.value, bounds), (0.0, (-shared, shared))])
    }
}

/// The interval of a sum of independent estimates, given the value and the interval of each: the squares
/// of distances add (G. Y. Zou and A. Donner, *Construction of confidence limits about effect measures*,
/// Statistics in Medicine 27, 2008).
pub fn sum_of_bounds(parts: &[(f64, Bounds)]) -> Bounds {
    let value: f64 = parts.iter().map(|(value, _)| value).sum();
    let root = |distance: fn(&(f64, Bounds)) -> f64| {
        parts
            .iter()
            .map(|part| distance(part).powi(2))
            .sum::<f64>()
            .sqrt()
    };
    (
        (value - root(|(value, (low, _))| value - low)).max(0.0),
        value + root(|(value, (_, high))| high - value),
    )
}

/// Of strata that are sampled independently, and share the shared error.
impl std::ops::AddAssign for Figure {
    fn add_assign(&mut self, more: Figure) {
        self.value += more.value;
        self.variance += more.variance;
        self.shared += more.shared;
        self.square_by_freedom += more.square_by_freedom;
    }
}

impl std::iter::Sum for Figure {
    fn sum<I: Iterator<Item = Figure>>(figures: I) -> Figure {
        figures.fold(Figure::default(), |mut sum, more| {
            sum += more;
            sum
        })
    }
}
