//! Time that is divided twice: among those who paid for it, and the time of each of them among those who
//! caused it. Its variance on a CPU (stratum) is that of two-phase sampling (W. G. Cochran, *Sampling
//! Techniques*, 3rd edition, 1977, section 12.2): of the payers' shares, and of the causes' shares of each
//! payer. Where the time of CPUs is itself an estimate, owners whose shares differ between CPUs have that
//! error, too.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// How long one independent observation stands for, in the unit of time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Worth {
    /// Of a cause.
    pub cause: f64,
    /// Of a payer.
    pub payer: f64,
    /// Of the CPU's time itself: its variance divided by it; 0 if it is timed.
    pub time: f64,
}

/// A share of a CPU's time, which is made of parts of payers' times.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    ratio: f64,
    /// Mean square of the parts of payers' times.
    square: f64,
    /// The variance of the causes of each payer's time.
    within: f64,
}

impl Share {
    /// Adds this part of the time of a payer, who has this share of the whole.
    fn add(&mut self, payer: f64, part: f64) {
        self.ratio += payer * part;
        self.square += payer * part * part;
        self.within += payer * part * (1.0 - part);
    }

    /// For how much time one observation stands, times the variance of a single one.
    fn variance(self, worth: Worth) -> f64 {
        let between = (self.square - self.ratio * self.ratio).max(0.0);
        worth.cause * self.within + worth.payer * between
    }
}

/// A figure of a division.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Of<K> {
    /// What one caused.
    Cause(K),
    /// What one caused and others paid, who lose by it.
    OthersPaid(K),
    /// What one paid.
    Payer(K),
    /// What one paid for others.
    ForOthers(K),
    /// What one caused and another paid.
    Pair(K, K),
}

/// What is expected of a figure.
#[derive(Debug, Clone, Copy, Default)]
struct Expected {
    time: f64,
    /// The sum over CPUs of their time by the square of the share of it.
    squares: f64,
    variance: f64,
}

impl Expected {
    /// Adds a CPU with this time.
    fn add(&mut self, time: f64, share: Share, worth: Worth) {
        self.time += time * share.ratio;
        self.squares += time * share.ratio * share.ratio;
        self.variance += time * share.variance(worth);
    }
}

/// See the head of this file.
#[derive(Debug, Clone, Default)]
pub struct Crossed<K> {
    whole: f64,
    cause_moment: f64,
    payer_moment: f64,
    time_variance: f64,
    figures: FxHashMap<Of<K>, Expected>,
    // Scratch: shares of a CPU's time.
    paid: FxHashMap<K, f64>,
    pairs: FxHashMap<(K, K), f64>,
    shares: FxHashMap<Of<K>, Share>,
}

impl<K: Copy + Eq + Hash> Crossed<K> {
    /// Begins another division; what was allocated is kept.
    pub fn clear(&mut self) {
        (self.whole, self.time_variance) = (0.0, 0.0);
        (self.cause_moment, self.payer_moment) = (0.0, 0.0);
        self.figures.clear();
    }

    /// Adds a CPU: its time, and the weights of (cause, payer) by which it is divided.
    pub fn add(
        &mut self,
        time: f64,
        worth: Worth,
        weights: &[((K, K), f64)],
        loses: impl Fn(K) -> bool,
    ) {
        let all: f64 = weights.iter().map(|(_, weight)| weight).sum();
        if time <= 0.0 {
            return;
        }
        self.whole += time;
        self.cause_moment += time * worth.cause;
        self.payer_moment += time * worth.payer;
        self.time_variance += time * worth.time;
        if all <= 0.0 {
            return;
        }
        let Crossed {
            figures,
            paid,
            pairs,
            shares,
            ..
        } = self;
        paid.clear();
        for ((_, payer), weight) in weights {
            *paid.entry(*payer).or_default() += weight / all;
        }
        // Evidence may have a pair more than once.
        pairs.clear();
        for (pair, weight) in weights {
            *pairs.entry(*pair).or_default() += weight / all;
        }
        // Of one part each.
        let mut single = |figure, payer, part| {
            let mut share = Share::default();
            share.add(payer, part);
            figures.entry(figure).or_default().add(time, share, worth);
        };
        for (&payer, &share) in paid.iter() {
            let itself = pairs.get(&(payer, payer)).copied().unwrap_or(0.0);
            single(Of::Payer(payer), share, 1.0);
            single(Of::ForOthers(payer), share, 1.0 - itself / share);
        }
        for (&(cause, payer), &share) in pairs.iter() {
            let of_payer = paid[&payer];
            let part = share / of_payer;
            single(Of::Pair(cause, payer), of_payer, part);
            let mut add = |figure| shares.entry(figure).or_default().add(of_payer, part);
            add(Of::Cause(cause));
            if cause != payer && loses(payer) {
                add(Of::OthersPaid(cause));
            }
        }
        for (figure, share) in shares.drain() {
            figures.entry(figure).or_default().add(time, share, worth);
        }
    }

    /// Over all CPUs: for how much time one of so many observations of equal weight would stand that tell
    /// as much of a figure. Its variance is this × its time × the others' share.
    pub fn weight(&self, figure: Of<K>) -> f64 {
        let expected = self.figures.get(&figure).copied().unwrap_or_default();
        let whole = self.whole.max(f64::MIN_POSITIVE);
        let binomial = expected.time * (1.0 - expected.time / whole);
        // With the time of all CPUs as given.
        let between = expected.squares - expected.time * expected.time / whole;
        let of_time = self.time_variance / whole * between.max(0.0);
        if binomial > 1e-9 * whole {
            (expected.variance + of_time) / binomial
        } else {
            self.whole_weight()
        }
    }

    /// For how much time one observation of the whole stands, on average: of causes, and of payers.
    pub fn whole_weights(&self) -> [f64; 2] {
        [self.cause_moment, self.payer_moment]
            .map(|moment| moment / self.whole.max(f64::MIN_POSITIVE))
    }

    /// The larger of both.
    pub fn whole_weight(&self) -> f64 {
        let [causes, payers] = self.whole_weights();
        causes.max(payers)
    }
}
