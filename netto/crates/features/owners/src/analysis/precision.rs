//! Learns for how much time one independent sample of a cause or payer stands.
//!
//! Samples of one window show the same packets, so windows differ more than as many independent
//! samples would. How much more (the *design effect*; L. Kish, 1965) is learnt from the owners'
//! shares in successive windows, so that a load that changes slowly does not count as uncertainty.
//! Without windows, the samples of an interval take the window's place. Where an event's time on each
//! CPU is itself an estimate, and owners differ between CPUs, the samples behind it count, too.

use rustc_hash::FxHashMap;

/// Half-life of times and numbers of samples, nanoseconds.
const HALF_LIFE_NS: f64 = 10e9;
/// Number of windows after which one counts half.
const WINDOWS: f64 = 60.0;
/// Pairs of windows that the assumption of independent samples counts as.
const PRIOR: f64 = 1.0;
/// Least variance of an owner's share that tells anything (a share of 5 %).
const LEAST_VARIANCE: f64 = 0.05 * 0.95;
/// Least number of samples that a time is divided by.
const LEAST_SAMPLES: f64 = 0.5;
/// Most owners kept; above that, those without samples in the last window are forgotten.
const MOST: usize = 512;

/// Weights, of which few may count more than all others.
#[derive(Debug, Clone, Copy, Default)]
struct Mass {
    sum: f64,
    squares: f64,
}

impl Mass {
    fn add(&mut self, weight: f64) {
        self.sum += weight;
        self.squares += weight * weight;
    }

    fn fade(&mut self, left: f64) {
        self.sum *= left;
        self.squares *= left;
    }

    /// The number of equal weights that tell as much.
    fn number(self) -> f64 {
        self.sum * self.sum / self.squares.max(f64::MIN_POSITIVE)
    }
}

/// An owner in windows.
#[derive(Debug, Clone, Copy, Default)]
struct Watched {
    now: f64,
    last: f64,
    /// Decayed weight of samples.
    sum: f64,
    /// Decayed sum of differences between successive windows, in units of their variance if
    /// samples were independent, and the number of these.
    excess: f64,
    pairs: f64,
}

/// The design effect of one side, causes or payers.
#[derive(Debug, Clone, Default)]
struct Clusters {
    owners: FxHashMap<u32, Watched>,
    now: Mass,
    last: Mass,
    sum: f64,
}

impl Clusters {
    fn add(&mut self, who: u32, weight: f64) {
        self.owners.entry(who).or_default().now += weight;
        self.now.add(weight);
    }

    /// Ends a window; one without samples is none.
    fn end(&mut self) {
        if self.now.sum <= 0.0 {
            return;
        }
        let left = 0.5_f64.powf(1.0 / WINDOWS);
        self.sum = self.sum * left + self.now.sum;
        let [now, last] = [self.now, self.last].map(Mass::number);
        // Harmonic: the variance of the difference of two shares is p (1 - p) / weight.
        let weight = now * last / (now + last);
        for own in self.owners.values_mut() {
            own.sum = own.sum * left + own.now;
            own.excess *= left;
            own.pairs *= left;
            let share = own.sum / self.sum;
            let variance = share * (1.0 - share);
            if weight > 0.0 && variance >= LEAST_VARIANCE {
                let difference = own.now / self.now.sum - own.last / self.last.sum;
                own.excess += difference * difference * weight / variance;
                own.pairs += 1.0;
            }
            own.last = std::mem::take(&mut own.now);
        }
        self.last = std::mem::take(&mut self.now);
        if self.owners.len() > MOST {
            self.owners.retain(|_, own| own.last > 0.0);
        }
    }

    /// By how much windows differ more than independent samples: that of the roughest owner, at
    /// least 1.
    fn effect(&self) -> f64 {
        let effects = self.owners.values();
        let effects = effects.map(|own| (own.excess + PRIOR) / (own.pairs + PRIOR));
        effects.fold(1.0, f64::max)
    }

    fn rename(&mut self, renamed: impl Fn(u32) -> u32) {
        for (who, own) in std::mem::take(&mut self.owners) {
            let known = self.owners.entry(renamed(who)).or_default();
            known.now += own.now;
            known.last += own.last;
            known.sum += own.sum;
            if own.pairs > known.pairs {
                (known.excess, known.pairs) = (own.excess, own.pairs);
            }
        }
    }
}

/// Of an event: its time, and what is known of causes and payers. All decay.
#[derive(Debug, Clone, Copy, Default)]
struct Event {
    ns: f64,
    causes: Mass,
    payers: Mass,
    /// Samples by which its time on each CPU is known, or as many as would tell as much; none where
    /// that is timed.
    samples: f64,
    /// Between CPUs: see [`Spread`].
    causes_spread: f64,
    payers_spread: f64,
}

/// Time of an interval by owner and CPU.
#[derive(Debug, Clone, Default)]
pub struct Spread {
    owners: FxHashMap<(u32, usize), f64>,
}

impl Spread {
    /// Adds time on the CPU in this column.
    pub fn add(&mut self, who: u32, column: usize, ns: u64) {
        *self.owners.entry((who, column)).or_default() += ns as f64;
    }

    /// The part of the variance of owners' shares that is between CPUs, from 0 to 1.
    fn ratio(&self) -> f64 {
        let (mut by_owner, mut by_cpu) = (FxHashMap::default(), FxHashMap::default());
        for (&(who, column), ns) in &self.owners {
            *by_owner.entry(who).or_insert(0.0) += ns;
            *by_cpu.entry(column).or_insert(0.0) += ns;
        }
        let all: f64 = by_cpu.values().sum();
        let of_all = by_owner.values().map(|ns| ns * ns).sum::<f64>() / all;
        let own = self.owners.iter();
        let of_cpus: f64 = own.map(|((_, column), ns)| ns * ns / by_cpu[column]).sum();
        match all - of_all > 0.0 {
            true => ((of_cpus - of_all) / (all - of_all)).clamp(0.0, 1.0),
            false => 0.0,
        }
    }
}

/// See the head of this file.
#[derive(Debug, Clone)]
pub struct Precision {
    /// By row.
    events: Vec<Event>,
    causes: Clusters,
    payers: Clusters,
}

impl Precision {
    /// Of this many rows.
    pub fn new(rows: usize) -> Precision {
        Precision {
            events: vec![Event::default(); rows],
            causes: Clusters::default(),
            payers: Clusters::default(),
        }
    }

    /// Starts an interval of this length.
    pub fn begin(&mut self, interval_ns: u64) {
        self.causes.end();
        self.payers.end();
        let left = 0.5_f64.powf(interval_ns as f64 / HALF_LIFE_NS);
        for event in &mut self.events {
            event.ns *= left;
            event.causes.fade(left);
            event.payers.fade(left);
            event.samples *= left;
        }
    }

    /// Adds a sample, or charged time, whose cause is known; of a softirq, windows are compared by
    /// it.
    pub fn add_cause(&mut self, event: usize, cause: u32, weight: f64, is_softirq: bool) {
        if let Some(event) = self.events.get_mut(event) {
            event.causes.add(weight);
        }
        if is_softirq {
            self.causes.add(cause, weight);
        }
    }

    /// Adds a sample, or charged time, of a softirq whose payer is known.
    pub fn add_payer(&mut self, event: usize, payer: u32, weight: f64) {
        if let Some(event) = self.events.get_mut(event) {
            event.payers.add(weight);
        }
        self.payers.add(payer, weight);
    }

    /// Adds an event's time of the interval.
    pub fn add_time(&mut self, event: usize, ns: u64) {
        if let Some(event) = self.events.get_mut(event) {
            event.ns += ns as f64;
        }
    }

    /// Adds samples by which an event's time on its CPU is known, but not its owners.
    pub fn add_samples(&mut self, event: usize, samples: f64) {
        if let Some(event) = self.events.get_mut(event) {
            event.samples += samples;
        }
    }

    /// Sets how the causes and payers of an event's sampled time differ between CPUs.
    pub fn set_spread(&mut self, event: usize, causes: &Spread, payers: &Spread) {
        if let Some(event) = self.events.get_mut(event) {
            (event.causes_spread, event.payers_spread) = (causes.ratio(), payers.ratio());
        }
    }

    /// For how long one independent sample stands of those by which the causes of an event are
    /// found, milliseconds: its own, and those of a row that it is divided by.
    pub fn cause_ms(&self, event: usize, stand_in: Option<usize>, is_softirq: bool) -> f64 {
        let samples = |row: usize| {
            self.events
                .get(row)
                .map_or(0.0, |event| event.causes.number())
        };
        let known = samples(event) + stand_in.map_or(0.0, samples);
        let effect = match is_softirq {
            true => self.causes.effect(),
            false => 1.0,
        };
        let own = self.events.get(event).copied().unwrap_or_default();
        ms(own.ns, known) * effect + ms(own.ns, own.samples) * own.causes_spread
    }

    /// The same of an event's payers.
    pub fn payer_ms(&self, event: usize, stand_in: Option<usize>) -> f64 {
        let samples = |row: usize| {
            self.events
                .get(row)
                .map_or(0.0, |event| event.payers.number())
        };
        let known = samples(event) + stand_in.map_or(0.0, samples);
        let own = self.events.get(event).copied().unwrap_or_default();
        ms(own.ns, known) * self.payers.effect() + ms(own.ns, own.samples) * own.payers_spread
    }

    /// Renumbers owners by `renamed`.
    pub fn rename(&mut self, renamed: impl Fn(u32) -> u32) {
        self.causes.rename(&renamed);
        self.payers.rename(&renamed);
    }
}

/// How long each of so many samples stands for, milliseconds.
fn ms(ns: f64, samples: f64) -> f64 {
    ns / samples.max(LEAST_SAMPLES) / 1e6
}

#[cfg(test)]
mod tests;
