//! The CPU time of flows, as samples show it, and whose it was. Pure.
//!
//! Each CPU's time of an event is divided in proportion to its samples of the interval, that of RX
//! softirqs as it was charged to packets. What is of samples or packets whose flow is not known is no
//! flow's here.

use std::collections::HashMap;

use metrics_common::sections::OwnerFlow;
use metrics_common::{Cost, Owners};
use netto_analysis::tagged::FlowEnds;
use netto_platform::FlowTime;
use rustc_hash::FxHashMap;

/// How long charged time stands for that until there is more, nanoseconds: windows are a second
/// apart.
const STANDS_NS: u64 = 2_000_000_000;

/// What is known of one event on one CPU: samples, or charged time.
#[derive(Debug, Clone, Default)]
struct Seen {
    all: u64,
    /// By owner and flow. Senders choose the ends: a hash that they cannot foresee.
    known: HashMap<(u32, FlowEnds), u64>,
    /// Since when it stands for later time.
    age_ns: u64,
}

impl Seen {
    fn add(&mut self, who: Option<(u32, FlowEnds)>, weight: u64) {
        self.all += weight;
        if let Some(who) = who {
            *self.known.entry(who).or_default() += weight;
        }
    }
}

/// A sample of weight 1.
const OF_SAMPLE: f64 = 1_000.0;

/// The time of an owner's flow on a CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OwnedTime {
    /// The owner that caused it.
    pub cause: u32,
    /// Where, of which flow, and how long.
    pub time: FlowTime,
}

/// Adds the flows of shown owners to the section, the largest of each.
pub fn show(times: &[OwnedTime], owners: &mut Owners, place: impl Fn(u32) -> Option<u32>) {
    let mut sums: HashMap<(u32, FlowEnds), u64> = HashMap::new();
    for owned in times {
        if let Some(owner) = place(owned.cause) {
            *sums.entry((owner, owned.time.flow)).or_default() += owned.time.ns;
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

/// The samples of an interval, and the last charged time.
#[derive(Debug, Clone, Default)]
pub struct FlowSamples {
    /// By CPU and event.
    samples: FxHashMap<(usize, usize), Seen>,
    charged: FxHashMap<(usize, usize), Seen>,
}

impl FlowSamples {
    /// Starts an interval of this length.
    pub fn begin(&mut self, interval_ns: u64) {
        self.samples.clear();
        self.charged.retain(|_, seen| {
            seen.age_ns += interval_ns.max(1);
            seen.age_ns <= STANDS_NS
        });
    }

    /// Adds a sample of an event on a CPU, with its owner and flow, if that is known.
    pub fn add(&mut self, place: (usize, usize), who: Option<(u32, FlowEnds)>, weight: f64) {
        let seen = self.samples.entry(place).or_default();
        seen.add(who, (OF_SAMPLE * weight).max(1.0) as u64);
    }

    /// Adds time of an event on a CPU that was charged to a packet. Where any was, samples tell
    /// nothing.
    pub fn add_charge(&mut self, place: (usize, usize), who: Option<(u32, FlowEnds)>, ns: u64) {
        let seen = self.charged.entry(place).or_default();
        if seen.age_ns > 0 {
            *seen = Seen::default();
        }
        seen.add(who, ns);
    }

    /// Renumbers the owners of charged time, which later intervals use, by `renamed`.
    pub fn rename(&mut self, renamed: impl Fn(u32) -> u32) {
        for seen in self.charged.values_mut() {
            for ((who, flow), ns) in std::mem::take(&mut seen.known) {
                *seen.known.entry((renamed(who), flow)).or_default() += ns;
            }
        }
    }

    /// Divides the time of events on these CPUs; `sample_ms` is for how long one independent sample of an event
    /// stands on a CPU, milliseconds.
    pub fn divide(
        &self,
        cost: &Cost,
        cpus: &[u32],
        sample_ms: impl Fn(usize, usize) -> f64,
    ) -> Vec<OwnedTime> {
        let mut times = Vec::new();
        let sampled = self.samples.iter();
        let sampled = sampled.filter(|(place, _)| !self.charged.contains_key(place));
        for (&(cpu, event), seen) in self.charged.iter().chain(sampled) {
            let column = cpus.iter().position(|number| *number as usize == cpu);
            let ns = column.and_then(|column| cost.cpu_ns(event)?.get(column).copied());
            let Some(whole_ns) = ns else {
                continue;
            };
            let sample_ms = sample_ms(event, cpu);
            times.extend(seen.known.iter().map(|(&(cause, flow), &weight)| {
                let ns = u128::from(whole_ns) * u128::from(weight) / u128::from(seen.all);
                let time = FlowTime {
                    cpu: cpu as u32,
                    event,
                    flow,
                    ns: ns as u64,
                    sample_ms,
                };
                OwnedTime { cause, time }
            }));
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
            samples.add((cpu, event), who, 1.0);
        }
        let mut times = samples.divide(&cost, &[0, 1], |_, _| 2.0);
        times.sort_by_key(|owned| owned.time.cpu);
        let summary = |owned: &OwnedTime| (owned.cause, owned.time.cpu, owned.time.ns);
        assert_eq!(
            times.iter().map(summary).collect::<Vec<_>>(),
            [(7, 0, 600), (8, 1, 500)]
        );
        samples.begin(1);
        assert!(samples.divide(&cost, &[0, 1], |_, _| 2.0).is_empty());
    }

    #[test]
    fn charged_time_takes_the_place_of_samples_until_there_is_more() {
        let (cost, event) = cost([1_000, 0]);
        let mut samples = FlowSamples::default();
        let ns = |samples: &FlowSamples| {
            let mut times = samples.divide(&cost, &[0, 1], |_, _| 2.0);
            times.sort_by_key(|owned| owned.time.flow);
            times.iter().map(|owned| owned.time.ns).collect::<Vec<_>>()
        };
        for (who, charged) in [(Some(1), 300), (Some(2), 100), (None, 100)] {
            let who = who.map(|port| (7, flow(port)));
            samples.add_charge((0, event), who, charged);
        }
        samples.add((0, event), Some((7, flow(3))), 1.0);
        assert_eq!(ns(&samples), [600, 200]);
        samples.rename(|who| who + 1);
        let renamed = samples.divide(&cost, &[0, 1], |_, _| 2.0);
        assert!(renamed.iter().all(|owned| owned.cause == 8), "{renamed:?}");
        samples.rename(|who| who - 1);
        samples.begin(500_000_000);
        assert_eq!(ns(&samples), [600, 200]);
        samples.add_charge((0, event), Some((7, flow(2))), 1);
        assert_eq!(ns(&samples), [1_000]);
        samples.begin(2 * STANDS_NS);
        samples.add((0, event), Some((7, flow(3))), 1.0);
        assert_eq!(ns(&samples), [1_000], "by samples");
    }
}
