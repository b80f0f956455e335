//! CPU time of networking, by component and CPU: the clocks' times, split by sampled stacks.

use std::cell::RefCell;

use metrics_common::{Modes, Sections};

use self::analysis::attribute::{Attribution, Interval};
use self::analysis::delta::Deltas;
use self::analysis::idle::IdleSampling;
use self::analysis::missed::Missed;
use self::analysis::samples::{Sample, Samples};
use self::analysis::section::{Cpu, Filling};
use super::{Instrument, ProbeCost};
use crate::ground::{Ground, Tick};
use crate::kernel::cpu_time::Reading;
use crate::kernel::system;

pub mod analysis;

/// It is what netto is for.
pub(super) const IS_ESSENTIAL: bool = true;

/// What is kept from interval to interval.
struct NetworkCost {
    samples: Samples,
    deltas: Deltas,
    /// Each CPU's clock at the previous interval's end.
    previous: Vec<Reading>,
    attribution: Attribution,
    filling: Filling,
    idle_sampling: IdleSampling,
    missed: Missed,
}

/// Begins with an empty buffer and the clocks as they are now.
///
/// # Errors
/// None: what is impossible here, the ground has found out.
pub(super) fn start(ground: &mut Ground) -> anyhow::Result<Box<dyn Instrument>> {
    let possible_cpus = ground.readers.possible_cpus;
    let now_ns = system::monotonic_ns();
    let mut cost = NetworkCost {
        samples: Samples::new(possible_cpus, now_ns),
        deltas: Deltas::default(),
        previous: vec![Reading::default(); possible_cpus],
        attribution: Attribution::default(),
        filling: Filling::default(),
        idle_sampling: IdleSampling::default(),
        missed: Missed::default(),
    };
    cost.drain_stacks(ground);
    for cpu in 0..possible_cpus {
        if let Some(reading) = ground.readers.clocks.read(cpu) {
            cost.deltas.growth(cpu, &reading.total_ns, 0);
            cost.previous[cpu] = reading;
        }
    }
    ground.stacks.put_down(cost.samples.flame.counted(now_ns), 0);
    Ok(Box::new(cost))
}

impl NetworkCost {
    fn drain_stacks(&mut self, ground: &mut Ground) {
        self.samples.begin();
        let Some(classifier) = &mut ground.classifier else {
            return;
        };
        // Two closures count in it, one after the other.
        let samples = RefCell::new(&mut self.samples);
        ground.readers.stacks.drain(
            |trace| {
                let sample = Sample {
                    cpu: trace.cpu,
                    kind: trace.kind,
                    is_idle_task: trace.is_idle_task,
                    frames: trace.frames,
                };
                samples.borrow_mut().add(classifier, sample);
            },
            |cpu, count| samples.borrow_mut().lose(cpu, count),
        );
        if let Some(samplers) = &mut ground.readers.samplers {
            samplers.end_interval();
        }
    }

    /// Adds a CPU's interval to the section.
    fn add_cpu(&mut self, ground: &Ground, cpu: usize, interval_ns: u64) {
        let before = self.previous.get(cpu).copied().unwrap_or_default();
        let reading = ground.readers.clocks.read(cpu).unwrap_or(before);
        if let Some(previous) = self.previous.get_mut(cpu) {
            *previous = reading;
        }
        let clock = self.deltas.growth(cpu, &reading.total_ns, interval_ns);
        let counts = self.samples.of_cpu(cpu);
        // Scale up for lost samples.
        let (taken, lost) = (counts.taken(), self.samples.lost_on(cpu));
        let samplers = ground.readers.samplers.as_ref();
        let period_ns = samplers.map_or(0, |samplers| samplers.period_ns(cpu as u32));
        let interval = Interval {
            length_ns: interval_ns,
            sample_period_ns: period_ns * (taken + lost) / taken.max(1),
        };
        let capabilities = &ground.capabilities;
        let split = self.attribution.attribute(cpu, capabilities, interval, &clock, counts);
        let grown = |now: u64, before: u64| now.saturating_sub(before);
        let ksoftirqd_rx_ns = grown(reading.ksoftirqd_rx_ns, before.ksoftirqd_rx_ns);
        let of_cpu = Cpu {
            entries: std::array::from_fn(|kind| grown(reading.entries[kind], before.entries[kind])),
            ksoftirqd_rx_ns: ground.has_clock.then_some(ksoftirqd_rx_ns),
            taken,
            lost,
        };
        self.filling.add(split, &of_cpu);
    }

    /// Tells which CPUs are not sampled while they are idle, when that becomes known.
    fn watch_idle_cpus(&mut self, ground: &mut Ground, cpus: &[u32], modes: Option<&Modes>) {
        let (Some(samplers), Some(modes)) = (&ground.readers.samplers, modes) else {
            return;
        };
        for (&cpu, modes) in cpus.iter().zip(&modes.cpus) {
            let reading = self.previous.get(cpu as usize);
            let by_stack = self.samples.idle_on(cpu as usize);
            let taken = reading.map_or(0, |reading| reading.idle_samples) + by_stack;
            let period_ns = samplers.period_ns(cpu);
            self.idle_sampling
                .add_interval(cpu, modes.idle_ns, period_ns, taken);
        }
        ground.tell("idle CPUs", self.idle_sampling.note());
    }
}

impl Instrument for NetworkCost {
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        let Tick {
            ground,
            now_ns,
            interval_ns,
            cpus,
        } = tick;
        ground.stacks.take_back();
        self.samples.flame.pass(*now_ns);
        self.drain_stacks(ground);
        self.attribution.begin(*interval_ns, self.samples.counts());
        let counted = self.samples.flame.counted(*now_ns);
        ground.stacks.put_down(counted, ground.symbols_version);

        self.filling.begin(&ground.capabilities, cpus.len());
        for &cpu in *cpus {
            self.add_cpu(ground, cpu as usize, *interval_ns);
        }
        let missed = ground.readers.missed.counts(&self.previous);
        let cost = self.filling.end(self.missed.growth(missed));
        self.watch_idle_cpus(ground, cpus, sections.modes.as_ref());
        let note = self.missed.add_interval(ground.info(), &cost);
        ground.tell("missed runs", note);
        sections.cost = Some(cost);
        Ok(())
    }

    /// Without samples, the split goes on by the shares of before, and then by none.
    fn pause(&mut self, ground: &mut Ground, paused: bool) {
        if let Some(samplers) = &mut ground.readers.samplers {
            samplers.pause(paused);
        }
    }

    fn own_cost(&self, ground: &Ground) -> Option<ProbeCost> {
        let (runs, run_ns) = ground.readers.missed.run_time()?;
        Some(ProbeCost { runs, run_ns })
    }
}
