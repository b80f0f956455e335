//! For how much time samples of each component stand, over all CPUs of an interval.

use metrics_common::{COMPONENTS, Cost, Kind, confidence};
use netto_estimate::design_effect::Mass;
use netto_estimate::shares::{Design, MEMORY_NS};

use super::{CLOCK_KINDS, Wholes};

/// See the head of this file.
#[derive(Debug, Clone)]
pub(super) struct SampleWeights {
    /// How each whole was divided.
    pub(super) designs: Vec<Design>,
    /// By component: samples of it outside of clocks, by the time for which each stands.
    sampled: Vec<Mass>,
    /// By CPU: those of RX softirqs, by their weights.
    received: Vec<Mass>,
}

impl SampleWeights {
    pub(super) fn new(wholes: usize) -> SampleWeights {
        SampleWeights {
            designs: vec![Design::default(); wholes],
            sampled: vec![Mass::default(); COMPONENTS.len()],
            received: Vec::new(),
        }
    }

    /// Begins an interval of this length.
    pub(super) fn begin(&mut self, interval_ns: u64) {
        self.designs.iter_mut().for_each(Design::clear);
        let left = (-(interval_ns as f64) / MEMORY_NS).exp();
        let masses = self.sampled.iter_mut().chain(&mut self.received);
        masses.for_each(|mass| mass.fade(left));
    }

    /// Adds samples outside of clocks on a CPU, where one of weight 1 stands for this time.
    pub(super) fn add_sampled(&mut self, by_event: &[Mass], period_ns: f64) {
        let masses = self.sampled.iter_mut().zip(by_event);
        masses.for_each(|(sum, mass)| *sum += mass.times(period_ns));
    }

    /// Adds samples of RX softirqs outside of clocks on a CPU; returns their mean weight of late, 1 without any.
    pub(super) fn add_received(&mut self, cpu: usize, samples: Mass) -> f64 {
        if self.received.len() <= cpu {
            self.received.resize(cpu + 1, Mass::default());
        }
        let known = &mut self.received[cpu];
        *known += samples;
        known.mean_or(1.0)
    }

    /// By component, [`Cost::sample_ns_ms`]; `timed` are those that a clock times.
    pub(super) fn sample_ns_ms(&self, wholes: &Wholes, timed: &[bool], cost: &Cost) -> Vec<u64> {
        let weight_ns = |row: usize, total_ns: f64| {
            let sampled_ns = self.sampled[row].mean();
            match COMPONENTS[row].kind {
                Kind::Sum => 0.0,
                Kind::Sampled(_) | Kind::Remainder => match wholes.event_with(row) {
                    Some(event) => self.designs[CLOCK_KINDS + event].weight_ns(row),
                    None => 0.0,
                },
                Kind::Timed(source, _) | Kind::Carved(source, _) => {
                    let clock = &self.designs[usize::from(source.clock_kind())];
                    let clocked = (clock.given_ns(row) / total_ns).min(1.0);
                    let is_timed = timed[row] && !matches!(COMPONENTS[row].kind, Kind::Carved(..));
                    match wholes.event_of(row) {
                        // All samples of it tell its parts.
                        Some(event) if is_timed && clock.is_of(row) => {
                            self.designs[CLOCK_KINDS + event].whole_weight_ns()
                        }
                        _ => clocked * clock.weight_ns(row) + (1.0 - clocked) * sampled_ns,
                    }
                }
                Kind::Estimated(_) => sampled_ns,
            }
        };
        let ns_ms = |row: usize| match cost.total_ns(row) {
            Some(ns) if ns > 0 => confidence::ns_ms(ns as f64 * weight_ns(row, ns as f64)),
            _ => 0,
        };
        (0..COMPONENTS.len()).map(ns_ms).collect()
    }
}
