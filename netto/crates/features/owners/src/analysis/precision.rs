//! Learns for how much time one independent sample of a cause or payer stands, on each CPU: its own share
//! of the time that is divided by it, times the design effect of windows. Where an event's time on each
//! CPU is itself an estimate, and owners differ between CPUs, that counts, too.

use netto_estimate::crossed::{Crossed, Of, Worth};
use netto_estimate::design_effect::{Clusters, Weights};
use rustc_hash::FxHashMap;

use super::pool::Pair;

/// Half-life of what is known of weights, nanoseconds.
const HALF_LIFE_NS: f64 = 10e9;
/// Least number of samples that a time is divided by.
const LEAST_SAMPLES: f64 = 0.5;
/// The host's samples count as so many of a CPU's own, where it has few: as in the division of
/// components.
const OF_HOST: f64 = 4.0;

/// The samples of an event on a CPU.
#[derive(Debug, Clone, Copy, Default)]
struct OfCpu {
    causes: Weights,
    payers: Weights,
    ended_ns: u64,
}

/// An event whose samples tell the owners of another's time, too.
pub type StandIn = Option<usize>;

/// See the head of this file.
#[derive(Debug, Clone, Default)]
pub struct Precision {
    /// By event and CPU.
    events: FxHashMap<(usize, usize), OfCpu>,
    causes: Clusters,
    payers: Clusters,
    now_ns: u64,
    /// Of the event that is divided.
    crossed: Crossed<u32>,
    time_ns: FxHashMap<Of<u32>, f64>,
}

impl Precision {
    /// Starts an interval of this length.
    pub fn begin(&mut self, interval_ns: u64) {
        self.causes.end();
        self.payers.end();
        self.now_ns += interval_ns;
    }

    /// Adds a sample, or charged time, whose cause is known; of a softirq, windows are compared by
    /// it.
    pub fn add_cause(
        &mut self,
        (event, cpu): (usize, usize),
        cause: u32,
        weight: f64,
        is_softirq: bool,
    ) {
        self.events
            .entry((event, cpu))
            .or_default()
            .causes
            .add(weight);
        if is_softirq {
            self.causes.add(cpu, cause, weight);
        }
    }

    /// Adds a sample, or charged time, of a softirq whose payer is known.
    pub fn add_payer(&mut self, (event, cpu): (usize, usize), payer: u32, weight: f64) {
        self.events
            .entry((event, cpu))
            .or_default()
            .payers
            .add(weight);
        self.payers.add(cpu, payer, weight);
    }

    /// Ends the interval of an event on a CPU, with its time. The windows of others' packets are clusters
    /// of causes, and all are of payers.
    pub fn end(&mut self, event: usize, cpu: usize, ns: u64, is_for_others: bool) {
        let of_causes = if is_for_others {
            self.causes.effect()
        } else {
            1.0
        };
        let of_event = match ns {
            0 => self.events.get_mut(&(event, cpu)),
            _ => Some(self.events.entry((event, cpu)).or_default()),
        };
        if let Some(of_event) = of_event {
            let elapsed_ns = self.now_ns.saturating_sub(of_event.ended_ns) as f64;
            let left = 0.5_f64.powf(elapsed_ns / HALF_LIFE_NS);
            of_event.causes.end(ns as f64, left, of_causes);
            of_event.payers.end(ns as f64, left, self.payers.effect());
            of_event.ended_ns = self.now_ns;
        }
    }

    /// For how long one independent sample stands of those by which an event's time is divided on a CPU:
    /// its own, and those of the events that stand in for it. `time` is that of its time.
    pub fn worth(&self, (event, cpu): (usize, usize), stand_ins: [StandIn; 2], time: f64) -> Worth {
        let weights_of = |event: usize| self.events.get(&(event, cpu)).copied().unwrap_or_default();
        let of_event = weights_of(event);
        let worth = |weights: Weights, other: Option<Weights>| {
            let number = weights.number() + other.map_or(0.0, |other| other.number());
            weights.time() / number.max(LEAST_SAMPLES)
        };
        let [causes, payers] = stand_ins.map(|event| event.map(weights_of));
        Worth {
            cause: worth(of_event.causes, causes.map(|other| other.causes)),
            payer: worth(of_event.payers, payers.map(|other| other.payers)),
            time,
        }
    }

    /// Begins the division of an event.
    pub fn begin_event(&mut self) {
        self.crossed.clear();
        self.time_ns.clear();
    }

    /// Adds a CPU: its time, and by what weights of its own and of the host it is divided.
    pub fn add_cpu(
        &mut self,
        ns: u64,
        worth: Worth,
        [of_cpu, host]: [Vec<(Pair, f64)>; 2],
        spared: [u32; 2],
    ) {
        let of_host: f64 = host.iter().map(|(_, weight)| weight).sum();
        let host = host
            .iter()
            .map(|(pair, weight)| (*pair, weight * OF_HOST / of_host));
        let weights: Vec<((u32, u32), f64)> = of_cpu
            .iter()
            .copied()
            .chain(host)
            .map(|(pair, weight)| ((pair.cause, pair.payer), weight))
            .collect();
        self.crossed
            .add(ns as f64, worth, &weights, |payer| !spared.contains(&payer));
    }

    /// Adds time that was given to a pair.
    pub fn add_time(&mut self, Pair { cause, payer }: Pair, ns: u64, spared: [u32; 2]) {
        let others = [Of::OthersPaid(cause), Of::ForOthers(payer)];
        let others = others.into_iter().filter(|of| match of {
            Of::OthersPaid(_) => cause != payer && !spared.contains(&payer),
            _ => cause != payer,
        });
        let figures = [Of::Cause(cause), Of::Payer(payer), Of::Pair(cause, payer)];
        for figure in figures.into_iter().chain(others) {
            *self.time_ns.entry(figure).or_default() += ns as f64;
        }
    }

    /// Each figure of the event, with its time × the time for which one independent sample stands, square
    /// nanoseconds.
    pub fn figures(&self) -> impl Iterator<Item = (Of<u32>, f64)> + '_ {
        let with_weight =
            |(figure, ns): (&Of<u32>, &f64)| (*figure, ns * self.crossed.weight(*figure));
        self.time_ns.iter().map(with_weight)
    }

    /// For how long one independent sample of the event's causes, and of its payers, stands on average.
    pub fn worths(&self) -> [f64; 2] {
        self.crossed.whole_weights()
    }

    /// Renumbers owners by `renamed`.
    pub fn rename(&mut self, renamed: impl Fn(u32) -> u32) {
        self.causes.rename(&renamed);
        self.payers.rename(&renamed);
    }
}

#[cfg(test)]
mod tests;
