//! By how much more windows of observations differ than independent observations would: the *design
//! effect* of clusters (L. Kish, *Survey Sampling*, 1965, section 8.2). Observations of one window show the
//! same packets. It is learnt from the shares in successive windows, so that a load that changes slowly
//! does not count as uncertainty.

use rustc_hash::FxHashMap;

/// Number of windows after which one counts half.
const WINDOWS: f64 = 60.0;
/// Pairs of windows that the assumption of independent samples counts as.
const PRIOR: f64 = 1.0;
/// Least variance of an owner's share that tells anything (a share of 5 %).
const LEAST_VARIANCE: f64 = 0.05 * 0.95;
/// Most owners kept, each on each of its CPUs; above that, those without samples in the last window are
/// forgotten.
const MOST: usize = 4_096;
/// How far sums of the same weights may differ, as a ratio: an observation of many has more.
const ROUNDING: f64 = 1e-9;

/// Weights, of which few may count more than all others.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Mass {
    sum: f64,
    squares: f64,
}

impl Mass {
    /// Adds an observation.
    pub fn add(&mut self, weight: f64) {
        self.sum += weight;
        self.squares += weight * weight;
    }

    /// Adds so many observations of equal weight.
    pub fn add_equal(&mut self, weight: f64, number: f64) {
        self.sum += weight * number;
        self.squares += weight * weight * number;
    }

    /// In another unit, of which one of this has so many.
    pub fn times(self, factor: f64) -> Mass {
        Mass {
            sum: self.sum * factor,
            squares: self.squares * factor * factor,
        }
    }

    /// Leaves this part of it.
    pub fn fade(&mut self, left: f64) {
        self.sum *= left;
        self.squares *= left;
    }

    /// One observation.
    pub fn one(weight: f64) -> Mass {
        let mut mass = Mass::default();
        mass.add(weight);
        mass
    }

    /// Whether it is more than what sums of the same weights differ by in another order.
    pub fn is_part_of(self, all: Mass) -> bool {
        self.sum > ROUNDING * all.sum
    }

    /// So many observations of weight 1.
    pub fn of(number: u32) -> Mass {
        let mut mass = Mass::default();
        mass.add_equal(1.0, f64::from(number));
        mass
    }

    /// Their sum.
    pub fn sum(self) -> f64 {
        self.sum
    }

    /// The mean weight of what they sum to; 0 without any.
    pub fn mean(self) -> f64 {
        self.squares / self.sum.max(f64::MIN_POSITIVE)
    }

    /// The mean weight; this one without any.
    pub fn mean_or(self, assumed: f64) -> f64 {
        if self.sum > 0.0 { self.mean() } else { assumed }
    }

    /// The number of equal weights that tell as much: the effective sample size (L. Kish, *Survey
    /// Sampling*, 1965, section 11.7).
    pub fn number(self) -> f64 {
        self.sum * self.sum / self.squares.max(f64::MIN_POSITIVE)
    }
}

impl std::ops::AddAssign for Mass {
    fn add_assign(&mut self, more: Mass) {
        self.sum += more.sum;
        self.squares += more.squares;
    }
}

/// Of observations that are among them.
impl std::ops::SubAssign for Mass {
    fn sub_assign(&mut self, less: Mass) {
        self.sum = (self.sum - less.sum).max(0.0);
        self.squares = (self.squares - less.squares).max(0.0);
    }
}

/// For how much time one observation stands by which a CPU's time is divided. Each interval is divided by its
/// own observations, few or many, and without any by all earlier ones together.
#[derive(Debug, Clone, Copy, Default)]
pub struct Weights {
    /// Observations of the interval, and of earlier ones, of which one is independent of the others.
    now: Mass,
    past: Mass,
    /// Decayed: time, that of intervals with observations, and the sum over these of their squares by the
    /// number of independent observations.
    time: f64,
    covered: f64,
    squares: f64,
}

impl Weights {
    /// Adds an observation of the interval.
    pub fn add(&mut self, weight: f64) {
        self.now.add(weight);
    }

    /// Ends an interval with this time, whose observations have this design effect; this part is left of what
    /// was before. Observations of one cluster are still one.
    pub fn end(&mut self, time: f64, left: f64, effect: f64) {
        self.time = self.time * left + time;
        (self.covered, self.squares) = (self.covered * left, self.squares * left);
        self.past.fade(left);
        let now = std::mem::take(&mut self.now);
        if now.sum > 0.0 {
            let number = (now.number() / effect).max(1.0);
            self.covered += time;
            self.squares += time * time / number;
            self.past.add_equal(now.sum / number, number);
        }
    }

    /// The time that was divided.
    pub fn time(&self) -> f64 {
        self.time
    }

    /// The number of independent observations of equal weight that tell as much as those by which it was
    /// divided. An observation of an interval counts for its part of that, and once more for its part of the
    /// time of intervals without any.
    pub fn number(&self) -> f64 {
        let others = self.time - self.covered;
        let by_past = others * (2.0 * self.covered + others) / self.past.number();
        if self.squares > 0.0 {
            self.time * self.time / (self.squares + by_past)
        } else {
            0.0
        }
    }
}

/// What is observed of one of many on a CPU (stratum), or of all there.
#[derive(Debug, Clone, Copy, Default)]
struct Watched {
    now: Mass,
    last: Mass,
    /// Decayed weight of observations.
    sum: f64,
}

impl Watched {
    fn end(&mut self, left: f64) {
        self.sum = self.sum * left + self.now.sum;
        self.last = std::mem::take(&mut self.now);
    }
}

/// All that is observed on a CPU.
#[derive(Debug, Clone, Copy, Default)]
struct Stratum {
    all: Watched,
    /// Decayed: pairs of windows, and the sum of what the variance of the difference of two shares p is, in
    /// units of p (1 - p), if observations are independent.
    pairs: f64,
    expected: f64,
}

impl Stratum {
    /// Adds the pair of the window that ends and the one before.
    fn compare(&mut self, left: f64) {
        let Watched { now, last, .. } = self.all;
        if now.sum > 0.0 && last.sum > 0.0 {
            self.pairs = self.pairs * left + 1.0;
            self.expected = self.expected * left + 1.0 / now.number() + 1.0 / last.number();
        }
    }
}

/// Decayed sum of squared differences between successive windows, in units of their variance if
/// observations were independent, and the number of these.
#[derive(Debug, Clone, Copy, Default)]
struct Excess {
    sum: f64,
    pairs: f64,
}

/// The design effect of one side, causes or payers.
#[derive(Debug, Clone, Default)]
pub struct Clusters {
    /// By CPU, and by CPU and owner: what differs between CPUs is no cluster.
    cpus: FxHashMap<usize, Stratum>,
    owners: FxHashMap<(usize, u32), Watched>,
    excess: Excess,
}

impl Clusters {
    /// Adds an observation of the window on this CPU.
    pub fn add(&mut self, cpu: usize, who: u32, weight: f64) {
        self.owners.entry((cpu, who)).or_default().now.add(weight);
        self.cpus.entry(cpu).or_default().all.now.add(weight);
    }

    /// Ends a window; on a CPU without observations there was none.
    pub fn end(&mut self) {
        let left = 0.5_f64.powf(1.0 / WINDOWS);
        let Clusters {
            cpus,
            owners,
            excess,
        } = self;
        (excess.sum, excess.pairs) = (excess.sum * left, excess.pairs * left);
        let strata = cpus.values_mut();
        strata.for_each(|stratum| stratum.compare(left));
        for ((cpu, _), owner) in owners.iter_mut() {
            let stratum = cpus.get(cpu).filter(|stratum| stratum.all.now.sum > 0.0);
            let Some(Stratum {
                all,
                pairs,
                expected,
            }) = stratum
            else {
                continue;
            };
            let share = (owner.sum * left + owner.now.sum) / (all.sum * left + all.now.sum);
            let variance = share * (1.0 - share);
            if all.last.sum > 0.0 && variance >= LEAST_VARIANCE {
                let difference = owner.now.sum / all.now.sum - owner.last.sum / all.last.sum;
                // A ratio of means: a window of one large burst has both more observations and more
                // variance than it should have by these.
                excess.sum += difference * difference / variance * pairs / expected;
                excess.pairs += 1.0;
            }
            owner.end(left);
        }
        for Stratum { all, .. } in cpus.values_mut() {
            if all.now.sum > 0.0 {
                all.end(left);
            }
        }
        if owners.len() > MOST {
            owners.retain(|_, owner| owner.last.sum > 0.0);
        }
    }

    /// By how much windows differ more than independent observations, on average over owners: at least 1.
    pub fn effect(&self) -> f64 {
        let effect = (self.excess.sum + PRIOR) / (self.excess.pairs + PRIOR);
        effect.max(1.0)
    }

    /// Renumbers owners by `renamed`.
    pub fn rename(&mut self, renamed: impl Fn(u32) -> u32) {
        for ((cpu, who), owner) in std::mem::take(&mut self.owners) {
            let known = self.owners.entry((cpu, renamed(who))).or_default();
            known.now += owner.now;
            known.last += owner.last;
            known.sum += owner.sum;
        }
    }
}
