//! The CPU time of flows, as samples show it, and whose it was. Pure.
//!
//! Each CPU's time of an event is divided in proportion to its samples of the interval. What is of
//! samples whose flow is not known is no flow's here.

use std::collections::HashMap;

use metrics_common::sections::OwnerFlow;
use metrics_common::{Cost, Owners};
use netto_analysis::tagged::FlowEnds;
use netto_platform::FlowTime;
use rustc_hash::FxHashMap;

/// Samples of one event on one CPU.
#[derive(Debug, Clone, Default)]
struct Samples {
    all: u64,
    /// By owner and flow. Senders choose the ends: a hash that they cannot foresee.
    known: HashMap<(u32, FlowEnds), u64>,
}

impl Samples {
    fn add(&mut self, who: Option<(u32, FlowEnds)>) {
        self.all += 1;
        if let Some(who) = who {
            *self.known.entry(who).or_default() += 1;
        }
    }
}

/// The time of an owner's flow on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnedTime {
    /// The owner that caused it.
    pub cause: u32,
    /// Where, of which flow, and how long.
    pub time: FlowTime,
}

/// Adds the flows of shown owners to the section, the largest of each.
pub fn show(times: &[OwnedTime], owners: &mut Owners, place: impl Fn(u32) -> Option<u32>) {
    let mut sums: HashMap<(u32, FlowEnds), u64> = HashMap::new();
    for own in times {
        if let Some(owner) = place(own.cause) {
            *sums.entry((owner, own.time.flow)).or_default() += own.time.ns;
        }
    }
    owners.flows = sums
        .into_iter()
        .map(|((owner, flow), ns)| OwnerFlow {
            owner,
            protocol: flow.protocol,
            ends: flow.ends,
            ns,
        })
        .collect();
    owners.keep_largest_flows();
}

/// The samples of an interval.
#[derive(Debug, Clone, Default)]
pub struct FlowSamples {
    /// By CPU and event: on top of the idle task, and elsewhere.
    places: FxHashMap<(usize, usize), [Samples; 2]>,
}

impl FlowSamples {
    /// Starts an interval.
    pub fn begin(&mut self) {
        self.places.clear();
    }

    /// Adds a sample of an event on a CPU: on top of its idle task, or not; with its owner and flow,
    /// if that is known.
    pub fn add(
        &mut self,
        (cpu, event): (usize, usize),
        is_on_idle: bool,
        who: Option<(u32, FlowEnds)>,
    ) {
        let place = self.places.entry((cpu, event)).or_default();
        place[usize::from(!is_on_idle)].add(who);
    }

    /// Divides the time of events on these CPUs. `idle_ratio` is the part of a CPU's time of an event
    /// that was on top of its idle task; where it is not known, samples tell.
    pub fn divide(
        &self,
        cost: &Cost,
        cpus: &[u32],
        idle_ratio: impl Fn(usize, usize) -> Option<f64>,
    ) -> Vec<OwnedTime> {
        let mut times = Vec::new();
        for (&(cpu, event), place) in &self.places {
            let column = cpus.iter().position(|own| *own as usize == cpu);
            let ns = column.and_then(|column| cost.cpu_ns(event)?.get(column).copied());
            let Some(ns) = ns else {
                continue;
            };
            let [on_idle, elsewhere] = place.each_ref().map(|samples| samples.all);
            let by_samples = || on_idle as f64 / (on_idle + elsewhere) as f64;
            let ratio = idle_ratio(cpu, event).unwrap_or_else(by_samples);
            let idle_ns = ((ns as f64 * ratio) as u64).min(ns);
            for (samples, whole_ns) in place.iter().zip([idle_ns, ns - idle_ns]) {
                times.extend(samples.known.iter().map(|(&(cause, flow), &own)| {
                    let ns = u128::from(whole_ns) * u128::from(own) / u128::from(samples.all);
                    let time = FlowTime {
                        cpu: cpu as u32,
                        event,
                        flow,
                        ns: ns as u64,
                    };
                    OwnedTime { cause, time }
                }));
            }
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::component::index_of;

    use super::*;

    fn flow(port: u64) -> FlowEnds {
        FlowEnds::from_words([0, 1, 0, 2, 17 << 32 | 53 << 16 | port]).unwrap()
    }

    /// The RX softirq took this long on two CPUs.
    fn cost(ns: [u64; 2]) -> (Cost, usize) {
        let event = index_of("rx_softirq").unwrap();
        let mut components = vec![None; event + 1];
        components[event] = Some(ns.to_vec());
        let cost = Cost {
            components,
            ..Cost::NOTHING
        };
        (cost, event)
    }

    #[test]
    fn each_cpus_time_is_divided_by_its_samples_and_what_is_not_known_is_left() {
        let (cost, event) = cost([900, 500]);
        let mut samples = FlowSamples::default();
        for (cpu, who) in [
            (0, Some((7, flow(1)))),
            (0, Some((7, flow(1)))),
            (0, None),
            (1, Some((8, flow(1)))),
            (3, Some((8, flow(1)))),
        ] {
            samples.add((cpu, event), false, who);
        }
        let mut times = samples.divide(&cost, &[0, 1], |_, _| None);
        times.sort_by_key(|own| own.time.cpu);
        let of = |own: &OwnedTime| (own.cause, own.time.cpu, own.time.ns);
        assert_eq!(
            times.iter().map(of).collect::<Vec<_>>(),
            [(7, 0, 600), (8, 1, 500)]
        );
        samples.begin();
        assert!(samples.divide(&cost, &[0, 1], |_, _| None).is_empty());
    }

    #[test]
    fn what_ran_on_top_of_the_idle_task_is_divided_by_samples_of_there() {
        let (cost, event) = cost([1_000, 0]);
        let mut samples = FlowSamples::default();
        samples.add((0, event), true, Some((7, flow(1))));
        for _ in 0..4 {
            samples.add((0, event), false, Some((7, flow(2))));
        }
        let ns = |ratio| {
            let mut times = samples.divide(&cost, &[0, 1], |_, _| ratio);
            times.sort_by_key(|own| own.time.flow);
            times.iter().map(|own| own.time.ns).collect::<Vec<_>>()
        };
        assert_eq!(ns(Some(0.75)), [750, 250]);
        assert_eq!(ns(None), [200, 800]);
    }
}
