//! netto's assumed cost on the made-up host: probes by number of events, stacks by number of
//! samples, and a process on one CPU.

use metrics_common::sections::{Price, SamplePrice};
use metrics_common::{COMPONENTS, CostliestCpu, InstrumentCost, Kind, OwnCost, OwnPart, Source};
use netto_feature::demo::{Generator, Work};

/// Cost of a pair of probes, nanoseconds, and of a stack with its timer interrupt.
const SOFTIRQ_NS: u64 = 240;
const CALL_NS: u64 = 290;
const LOCAL_CALL_NS: u64 = 110;
const SWITCH_NS: u64 = 105;
const INTERRUPT_NS: u64 = 60;
const STACK_NS: u64 = 2_900;
/// Most of any CPU's time that netto takes; somewhat below its limit.
const MOST: f64 = 0.0085;
/// Times are estimates, and multiples of this step pack well.
const STEP_NS: u64 = 10_000;
/// Averaging time of a CPU's share, nanoseconds.
const AVERAGED_NS: f64 = 1e10;

/// Costs depend on the work of the CPUs.
pub fn generator() -> Generator {
    let mut overhead = Overhead::default();
    Box::new(move |interval, sections| {
        let own_cost = overhead.interval(interval.work, interval.length_ns, interval.stacks);
        sections.own = Some(own_cost);
    })
}

/// netto's recent share of each CPU's time.
#[derive(Default)]
struct Overhead {
    ratios: Vec<f64>,
}

impl Overhead {
    /// The section for an interval with this work and this many stacks on each CPU.
    fn interval(&mut self, work: &Work, interval_ns: u64, stacks: u64) -> OwnCost {
        let cpus = work.modes.len();
        let user_ns = interval_ns / 800 + cpus as u64 * 3_000;
        let system_ns = interval_ns / 900;
        let mut taken_ns = vec![Some(vec![0; cpus]); OwnPart::ALL.len()];
        // As on a host without latencies, flows and health; the last rows.
        taken_ns[OwnPart::Latency as usize] = None;
        taken_ns[OwnPart::Flows as usize] = None;
        taken_ns[OwnPart::Health as usize] = None;
        let mut sampling_hz = vec![0; cpus];
        for cpu in 0..cpus {
            let mut parts = parts_of(work, cpu, stacks);
            // The process runs on the least busy CPU.
            let daemon_ns = if cpu + 1 == cpus {
                user_ns + system_ns
            } else {
                0
            };
            let most_ns = ((interval_ns as f64 * MOST) as u64).saturating_sub(daemon_ns);
            let sum: u64 = parts.iter().sum();
            for ns in &mut parts {
                *ns = *ns * most_ns.min(sum) / sum.max(1);
            }
            parts[OwnPart::Daemon as usize] = daemon_ns;
            for (row, ns) in taken_ns.iter_mut().flatten().zip(parts) {
                row[cpu] = ns / STEP_NS * STEP_NS;
            }
            sampling_hz[cpu] = stacks * 1_000_000_000 / interval_ns.max(1);
        }
        let analysis_ns = 400_000 + cpus as u64 * 8_000;
        let shares = [
            ("modes", 10),
            ("cost", 70),
            ("power", 3),
            ("traffic", 13),
            ("drops", 2),
            ("own", 2),
        ];
        let mut own_cost = OwnCost {
            user_ns,
            system_ns,
            resident_bytes: 17_000_000 + cpus as u64 * 60_000,
            analysis_ns,
            taken_ns,
            sampling_hz: Some(sampling_hz),
            costliest: None,
            sample_price: Some(SamplePrice {
                perf: Price {
                    ns: STACK_NS as f64,
                    half_width_ns: 700.0,
                },
                tick: None,
                trials: 120,
            }),
            instruments: shares
                .map(|(name, percent)| InstrumentCost {
                    name: name.to_owned(),
                    analysis_ns: analysis_ns * percent / 100,
                })
                .to_vec(),
        };
        self.average(&own_cost, interval_ns);
        let most = (0_u32..)
            .zip(&self.ratios)
            .max_by(|a, b| a.1.total_cmp(b.1));
        own_cost.costliest = most.map(|(cpu, &ratio)| CostliestCpu { cpu, ratio });
        own_cost
    }

    fn average(&mut self, own_cost: &OwnCost, interval_ns: u64) {
        let interval = interval_ns as f64;
        let now = |cpu: usize| own_cost.cpu_taken_ns(cpu).unwrap_or(0) as f64 / interval;
        for cpu in self.ratios.len()..own_cost.taken_ns[0].as_ref().map_or(0, Vec::len) {
            self.ratios.push(now(cpu));
        }
        let weight = (interval / AVERAGED_NS).min(1.0);
        for (cpu, ratio) in self.ratios.iter_mut().enumerate() {
            *ratio += (now(cpu) - *ratio) * weight;
        }
    }
}

/// Time that each part would take from a CPU, nanoseconds.
fn parts_of(work: &Work, cpu: usize, stacks: u64) -> [u64; OwnPart::ALL.len()] {
    let mut parts = [0; OwnPart::ALL.len()];
    let mut put = |part: OwnPart, ns: u64| parts[part as usize] += ns;
    let mut calls = 0;
    for (component, row) in COMPONENTS.iter().zip(&work.entries) {
        let (Kind::Timed(source, _), Some(row)) = (&component.kind, row) else {
            continue;
        };
        let entries = row[cpu];
        match *source {
            Source::Softirq(_) => put(OwnPart::Softirqs, entries * SOFTIRQ_NS),
            Source::SocketSend => put(OwnPart::Sends, entries * CALL_NS),
            Source::SocketReceive => put(OwnPart::Receives, entries * CALL_NS),
            Source::LocalIpc => put(OwnPart::LocalIpc, entries * LOCAL_CALL_NS),
            Source::NicInterrupt => put(OwnPart::Interrupts, entries * INTERRUPT_NS),
            Source::IoWorker => {}
        }
        if matches!(source, Source::SocketReceive | Source::IoWorker) {
            calls += entries;
        }
    }
    put(OwnPart::Switches, calls / 2 * SWITCH_NS);
    put(OwnPart::Sampler, stacks * STACK_NS);
    parts
}

#[cfg(test)]
mod tests {
    use netto_demo::load::Load;
    use netto_feature::demo::MAX_OVERHEAD;

    use super::*;

    #[test]
    fn netto_costs_no_cpu_more_than_it_may() {
        let (mut load, mut overhead) = (Load::new(16, 2, 1), Overhead::default());
        for number in 1..=40 {
            let work = load.interval(f64::from(number) / 2.0, 500_000_000, 500);
            let own_cost = overhead.interval(&work, 500_000_000, 500);
            let costliest = own_cost.costliest.unwrap();
            assert!(costliest.ratio > 0.001 && costliest.ratio < MAX_OVERHEAD);
            let total: u64 = (0..16).filter_map(|cpu| own_cost.cpu_taken_ns(cpu)).sum();
            assert_eq!(own_cost.taken_total_ns(), Some(total));
        }
    }
}
