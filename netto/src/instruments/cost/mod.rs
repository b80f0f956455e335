//! CPU time of networking, by component and CPU: the clocks' times, split by sampled stacks.

use metrics_common::{Cost, Modes, Sections};

use self::analysis::attribute::{
    Attribution, Interval, Request, Split, StackCounts, basis_of, entries,
};
use self::analysis::delta::Deltas;
use self::analysis::idle::IdleSampling;
use self::analysis::missed::Missed;
use super::{Instrument, ProbeCost};
use crate::analysis::flame::Flame;
use crate::ground::{Ground, Tick};
use crate::kernel::cpu_time::Reading;
use crate::kernel::system;

pub mod analysis;

/// It is what netto is for.
pub(super) const IS_ESSENTIAL: bool = true;

/// What is kept from interval to interval.
struct NetworkCost {
    flame: Flame,
    deltas: Deltas,
    /// Each CPU's clock at the previous interval's end.
    previous: Vec<Reading>,
    /// Samples of each CPU in the interval, by owner.
    counts: Vec<StackCounts>,
    /// Stacks lost on each CPU in the interval.
    lost: Vec<u64>,
    attribution: Attribution,
    /// Stacks that turned out to show nothing but an idle CPU, since the start.
    idle_samples: Vec<u64>,
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
        flame: Flame::new(now_ns),
        deltas: Deltas::default(),
        previous: vec![Reading::default(); possible_cpus],
        counts: vec![StackCounts::default(); possible_cpus],
        lost: vec![0; possible_cpus],
        attribution: Attribution::default(),
        idle_samples: vec![0; possible_cpus],
        idle_sampling: IdleSampling::new(
            ground
                .roots
                .perf_samples_between_ticks()
                .unwrap_or(u64::MAX),
        ),
        missed: Missed::default(),
    };
    cost.drain_stacks(ground);
    for cpu in 0..possible_cpus {
        if let Some(reading) = ground.readers.clocks.read(cpu) {
            cost.deltas.growth(cpu, &reading.total_ns, 0);
            cost.previous[cpu] = reading;
        }
    }
    ground.stacks.put_down(cost.flame.counted(now_ns), 0);
    Ok(Box::new(cost))
}

impl NetworkCost {
    fn drain_stacks(&mut self, ground: &mut Ground) {
        self.counts.iter_mut().for_each(StackCounts::clear);
        self.lost.fill(0);
        let Some(classifier) = &mut ground.classifier else {
            return;
        };
        let (counts, lost) = (&mut self.counts, &mut self.lost);
        let idle_samples = &mut self.idle_samples;
        let flame = &mut self.flame;
        ground.readers.stacks.drain(
            |trace| {
                let found = classifier.classify_on(trace.cpu, trace.kind, trace.frames);
                // Without a clock, networking on top of the idle task is told by the stack alone.
                if found.is_none() && trace.is_idle_task {
                    if let Some(count) = idle_samples.get_mut(trace.cpu) {
                        *count += 1;
                    }
                    return;
                }
                if let Some(owner) = found
                    && flame.wants(owner.event)
                {
                    flame.add(owner.event, classifier.own_functions(trace.frames));
                }
                let Some(counts) = counts.get_mut(trace.cpu) else {
                    return;
                };
                counts.add(trace.kind, found);
                if let Some(request) = found.and_then(|owner| Request::of(owner.event))
                    && classifier.is_io_thread(trace.frames)
                {
                    counts.add_request(request);
                }
            },
            |cpu, count| {
                if let Some(lost) = lost.get_mut(cpu) {
                    *lost += count;
                }
            },
        );
        if let Some(samplers) = &mut ground.readers.samplers {
            samplers.end_interval();
        }
    }

    fn read_cpu(&mut self, ground: &Ground, cpu: usize, interval_ns: u64) -> Column {
        let before = self.previous.get(cpu).copied().unwrap_or_default();
        let reading = ground.readers.clocks.read(cpu).unwrap_or(before);
        if let Some(previous) = self.previous.get_mut(cpu) {
            *previous = reading;
        }
        let clock = self.deltas.growth(cpu, &reading.total_ns, interval_ns);
        let growth =
            std::array::from_fn(|kind| reading.entries[kind].saturating_sub(before.entries[kind]));
        let nothing = StackCounts::default();
        let counts = self.counts.get(cpu).unwrap_or(&nothing);
        // Scale up for lost samples.
        let (taken, lost) = (counts.taken(), self.lost.get(cpu).copied().unwrap_or(0));
        let period_ns = ground.readers.sample_period_ns(cpu as u32);
        let interval = Interval {
            length_ns: interval_ns,
            sample_period_ns: period_ns * (taken + lost) / taken.max(1),
        };
        let capabilities = &ground.capabilities;
        Column {
            split: self
                .attribution
                .attribute(cpu, capabilities, interval, &clock, counts),
            entries: entries(capabilities, &growth),
            ksoftirqd_rx_ns: reading
                .ksoftirqd_rx_ns
                .saturating_sub(before.ksoftirqd_rx_ns),
        }
    }

    /// Tells which CPUs are not sampled while they are idle, when that becomes known.
    fn watch_idle_cpus(&mut self, ground: &mut Ground, cpus: &[u32], modes: Option<&Modes>) {
        let (Some(samplers), Some(modes)) = (&ground.readers.samplers, modes) else {
            return;
        };
        for (&cpu, modes) in cpus.iter().zip(&modes.cpus) {
            let reading = self.previous.get(cpu as usize);
            let by_stack = self.idle_samples.get(cpu as usize).copied().unwrap_or(0);
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
        self.flame.pass(*now_ns);
        self.drain_stacks(ground);
        self.attribution.begin(*interval_ns, &self.counts);
        let counted = self.flame.counted(*now_ns);
        ground.stacks.put_down(counted, ground.symbols_version);

        let columns: Vec<Column> = cpus
            .iter()
            .map(|&cpu| self.read_cpu(ground, cpu as usize, *interval_ns))
            .collect();
        let taken = |&cpu: &u32| self.counts.get(cpu as usize).map_or(0, StackCounts::taken);
        let lost = |&cpu: &u32| self.lost.get(cpu as usize).copied().unwrap_or(0);
        let missed = ground.readers.missed.counts(&self.previous);
        let ksoftirqd_rx_ns = || {
            columns
                .iter()
                .map(|column| column.ksoftirqd_rx_ns)
                .collect()
        };
        let cost = Cost {
            components: transpose(&columns, |column| &column.split.time_ns),
            samples: transpose(&columns, |column| &column.split.samples),
            split_basis: basis_of(columns.iter().map(|column| &column.split)),
            entries: transpose(&columns, |column| &column.entries),
            ksoftirqd_rx_ns: ground.has_clock.then(ksoftirqd_rx_ns),
            stacks_taken: cpus.iter().map(taken).collect(),
            stacks_lost: cpus.iter().map(lost).collect(),
            probe_missed: self.missed.growth(missed),
        };
        self.watch_idle_cpus(ground, cpus, sections.modes.as_ref());
        let note = self.missed.add_interval(ground.info(), &cost);
        ground.tell("missed runs", note);
        sections.cost = Some(cost);
        Ok(())
    }

    /// Without samples, the split goes on by the shares of before, and then by none.
    fn pause(&mut self, ground: &mut Ground, paused: bool) {
        ground.readers.pause_sampling(paused);
    }

    fn own_cost(&self, ground: &Ground) -> Option<ProbeCost> {
        let (runs, run_ns) = ground.readers.missed.run_time()?;
        Some(ProbeCost { runs, run_ns })
    }
}

/// Everything of one CPU, by component.
struct Column {
    split: Split,
    entries: Vec<Option<u64>>,
    ksoftirqd_rx_ns: u64,
}

/// Columns of optional cells → optional rows; a row is absent if a cell is.
fn transpose<T: Copy>(
    columns: &[Column],
    cells: impl Fn(&Column) -> &Vec<Option<T>>,
) -> Vec<Option<Vec<T>>> {
    let rows = columns.first().map_or(0, |column| cells(column).len());
    (0..rows)
        .map(|row| columns.iter().map(|column| cells(column)[row]).collect())
        .collect()
}
