//! CPU time of networking, by component and CPU: the clocks' times, split by sampled stacks.

use std::cell::RefCell;

use metrics_common::component::CLOCK_KINDS;
use metrics_common::{Correction, Cost, Modes, Sections, Source};

use self::analysis::attribute::{Attribution, Interval, is_networking};
use self::analysis::delta::Deltas;
use self::analysis::idle::IdleSampling;
use self::analysis::missed::Missed;
use self::analysis::samples::{Sample, Samples};
use self::analysis::section::{Cpu, Filling};
use netto_analysis::groups::Group;
use netto_analysis::tagged::TaggedSample;
use netto_estimate::mean_length::{MeanLength, Softirqs};
use netto_feature::instruments::{Feature, Instrument};
use netto_pipeline::options::FeatureOptions;
use netto_platform::{Platform, Tick};
use netto_sys::cpu_time::Reading;
use netto_sys::system;

pub mod analysis;
mod api;
pub mod demo;
mod efficiency;
pub mod metrics;
mod report;
mod tables;

#[cfg(feature = "schema")]
pub use api::SCHEMAS;

pub use api::API;

/// The main feature of netto.
pub const FEATURE: Feature = Feature {
    is_essential: true,
    api: API,
    metrics: metrics::METRICS,
    demo: demo::generator,
    summary: Some(report::summarizer),
    tables: tables::TABLES,
    ..Feature::new("cost", start)
};

/// State kept between intervals.
struct NetworkCost {
    samples: Samples,
    deltas: Deltas,
    /// Each CPU's clock at the previous interval's end.
    previous: Vec<Reading>,
    attribution: Attribution,
    /// By CPU, that of RX softirqs.
    lengths: Vec<MeanLength>,
    filling: Filling,
    idle_sampling: IdleSampling,
    missed: Missed,
}

/// Begins with an empty buffer and the clocks as they are now.
///
/// # Errors
/// None: the platform has already found out what is impossible here.
fn start(platform: &mut Platform, _: &FeatureOptions) -> anyhow::Result<Box<dyn Instrument>> {
    let possible_cpus = platform.readers.possible_cpus;
    let now_ns = system::monotonic_ns();
    let mut cost = NetworkCost {
        samples: Samples::new(possible_cpus, now_ns),
        deltas: Deltas::default(),
        previous: vec![Reading::default(); possible_cpus],
        attribution: Attribution::default(),
        lengths: vec![MeanLength::default(); possible_cpus],
        filling: Filling::default(),
        idle_sampling: IdleSampling::new(
            platform
                .roots
                .perf_samples_between_ticks()
                .unwrap_or(u64::MAX),
        ),
        missed: Missed::default(),
    };
    cost.drain_stacks(platform, now_ns, 0, &mut Vec::new());
    for cpu in 0..possible_cpus {
        if let Some(reading) = platform.readers.clocks.read(cpu) {
            cost.deltas.growth(cpu, &reading.total_ns, 0);
            cost.previous[cpu] = reading;
        }
    }
    platform
        .stacks
        .put_down(cost.samples.flame.counted(now_ns), 0);
    Ok(Box::new(cost))
}

impl NetworkCost {
    fn drain_stacks(
        &mut self,
        platform: &mut Platform,
        now_ns: u64,
        interval_ns: u64,
        tagged: &mut Vec<TaggedSample>,
    ) {
        let readers = &mut platform.readers;
        readers.end_sampling_interval();
        let cpus = 0..readers.possible_cpus as u32;
        let clocks = cpus.map(|cpu| readers.sampling_clocks(cpu));
        self.samples.begin(now_ns, interval_ns, clocks);
        if let Some(programs) = &mut platform.programs {
            programs.begin(now_ns, platform.readers.possible_cpus);
        }
        let Some(classifier) = &mut platform.classifier else {
            return;
        };
        // Two closures use it, one after the other.
        let samples = RefCell::new(&mut self.samples);
        platform.readers.stacks.drain(
            |trace| {
                let sample = Sample {
                    cpu: trace.cpu,
                    process: trace.process,
                    kind: trace.kind,
                    is_idle_task: trace.is_idle_task,
                    is_by_tick: trace.is_by_tick,
                    frames: trace.frames,
                };
                let found = if trace.is_of_window {
                    Samples::classify(classifier, sample)
                } else {
                    samples.borrow_mut().add(classifier, sample)
                };
                let found = found.filter(|found| is_networking(found.owner.event));
                if let (Some(found), Some(profile)) = (found, &mut platform.profile)
                    && !trace.is_of_window
                {
                    let what = (trace.cpu, found.owner.event, found.owner.part);
                    let place = trace.tag.is_some().then_some(tagged.len());
                    let functions = classifier.own_functions(trace.frames);
                    profile.add(what, place, found.weight, functions);
                }
                let mut program = None;
                if let (Some(found), Some(programs)) = (found, &mut platform.programs) {
                    program = programs.at_work(classifier, trace.frames);
                    if !trace.is_of_window {
                        let event = found.owner.event;
                        programs
                            .samples
                            .add(trace.cpu, event, program, found.weight);
                    }
                }
                if let (Some(found), Some(tag)) = (found, trace.tag) {
                    tagged.push(TaggedSample {
                        cpu: trace.cpu,
                        event: found.owner.event,
                        part: found.owner.part,
                        has_met_packet: found.has_met_packet,
                        program,
                        is_of_window: trace.is_of_window,
                        weight: found.weight,
                        tag,
                    });
                }
            },
            |cpu, count| samples.borrow_mut().lose(cpu, count),
        );
        for cpu in 0..platform.readers.possible_cpus {
            if platform.overhead.is_looking(cpu) && self.samples.forget(cpu) {
                platform.overhead.has_seen_network(cpu);
            }
            if let Some(programs) = &mut platform.programs
                && platform.overhead.is_looking(cpu)
            {
                programs.samples.forget(cpu);
            }
        }
    }

    /// Adds a CPU's interval to the section.
    fn add_cpu(&mut self, platform: &mut Platform, cpu: usize, interval_ns: u64) {
        let before = self.previous.get(cpu).copied().unwrap_or_default();
        let reading = platform.readers.clocks.read(cpu).unwrap_or(before);
        if let Some(previous) = self.previous.get_mut(cpu) {
            *previous = reading;
        }
        let clock = self.deltas.growth(cpu, &reading.total_ns, interval_ns);
        let counts = self.samples.of_cpu(cpu);
        let (taken, lost) = (counts.taken(), self.samples.lost_on(cpu));
        let grown = |now: u64, before: u64| now.saturating_sub(before);
        let mut entries: [u64; CLOCK_KINDS] =
            std::array::from_fn(|kind| grown(reading.entries[kind], before.entries[kind]));
        let rx = usize::from(Source::NET_RX.clock_kind());
        let interval = Interval {
            length_ns: interval_ns,
            sample_period_ns: self.samples.worth_ns(cpu),
            received: self.lengths.get_mut(cpu).and_then(|length| {
                // Softirqs have the kinds after 0.
                let all = platform.overhead.softirqs(cpu)?[rx - 1];
                let added_ns = entries[rx] * platform.overhead.added_to_softirq_ns();
                length.end_interval(Softirqs {
                    interval_ns,
                    all,
                    timed: entries[rx],
                    timed_ns: clock[rx].saturating_sub(added_ns),
                })
            }),
        };
        let is_counted =
            platform.readers.perf_hz(cpu as u32) > 0 && !platform.overhead.is_looking(cpu);
        if is_counted {
            let shown = counts.shown().times(interval.sample_period_ns as f64);
            let worth_ns = shown.mean_or(interval.sample_period_ns as f64);
            let bias = &mut platform.overhead.bias;
            bias.add(clock[rx] as f64, shown.sum() / worth_ns, worth_ns);
        }
        let capabilities = &platform.capabilities;
        let split = self
            .attribution
            .attribute(cpu, capabilities, interval, &clock, counts);
        let ksoftirqd_rx_ns = grown(reading.ksoftirqd_rx_ns, before.ksoftirqd_rx_ns);
        // The kernel counts softirqs that no probe counts, or not all the time.
        for (vector, count) in platform.overhead.softirqs(cpu).iter().flatten().enumerate() {
            entries[usize::from(Source::Softirq(vector as u8).clock_kind())] = *count;
        }
        let timed = platform.overhead.timed();
        let rx_is_timed = timed.has(Group::Softirqs);
        let of_cpu = Cpu {
            entries,
            ksoftirqd_rx_ns: rx_is_timed.then_some(ksoftirqd_rx_ns),
            taken,
            lost,
            due: is_counted.then(|| self.samples.due(cpu, interval_ns)),
            due_in_tasks: self
                .samples
                .due_in_tasks(cpu, interval_ns)
                .filter(|_| is_counted),
        };
        self.filling.add(split, &of_cpu);
    }

    /// Warns once about CPUs that are not sampled while they are idle.
    fn watch_idle_cpus(&mut self, platform: &mut Platform, cpus: &[u32], modes: Option<&Modes>) {
        let (Some(samplers), Some(modes)) = (&platform.readers.samplers, modes) else {
            return;
        };
        for (&cpu, modes) in cpus.iter().zip(&modes.cpus) {
            let reading = self.previous.get(cpu as usize);
            let by_stack = self.samples.idle_on(cpu as usize);
            let taken = reading.map_or(0, |reading| reading.idle_samples) + by_stack;
            if samplers.rate_hz(cpu) == 0 {
                continue;
            }
            let period_ns = samplers.period_ns(cpu);
            self.idle_sampling
                .add_interval(cpu, modes.idle_ns, period_ns, taken);
        }
        platform.tell("idle CPUs", self.idle_sampling.note());
    }
}

/// The remark for the user on figures of softirqs that are not timed all the time, with a rounded
/// ratio, so that small changes give no new remark.
fn note_of(correction: Correction) -> String {
    format!(
        "Softirqs are timed in a part of the time: the time of RX softirqs is their number times \
         their mean length in it; the sampled time of others is multiplied by {:.2}, a ratio \
         measured in it, too.",
        (20.0 * correction.ratio).round() / 20.0
    )
}

impl Instrument for NetworkCost {
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        let Tick {
            platform,
            now_ns,
            interval_ns,
            cpus,
            samples,
            ..
        } = tick;
        platform.stacks.take_back();
        self.samples.flame.pass(*now_ns);
        self.drain_stacks(platform, *now_ns, *interval_ns, samples);
        self.attribution.begin(*interval_ns, self.samples.counts());
        let counted = self.samples.flame.counted(*now_ns);
        platform.stacks.put_down(counted, platform.symbols_version);
        if let Some(profile) = &mut platform.profile {
            profile.set_worth(|cpu| self.samples.worth_ns(cpu));
        }

        let softirqs_are_timed = platform.overhead.timed().has(Group::Softirqs);
        let correction = platform
            .overhead
            .bias
            .correction()
            .filter(|_| !softirqs_are_timed);
        self.attribution.correct_softirqs(correction);
        self.filling.begin(&platform.capabilities, cpus.len());
        for &cpu in *cpus {
            self.add_cpu(platform, cpu as usize, *interval_ns);
        }
        let missed = platform.readers.missed.counts(&self.previous, *now_ns);
        let mut cost = Cost {
            softirq_correction: correction,
            ..self.filling.end(self.missed.growth(missed))
        };
        let sample_ns_ms = self.attribution.sample_ns_ms(&platform.capabilities, &cost);
        cost.sample_ns_ms = Some(sample_ns_ms);
        if platform.readers.tick.is_some() {
            let ratios = &self.samples.ratios;
            let capabilities = &platform.capabilities;
            cost.ticks_shared_ns = Some(self.attribution.shared_ns(ratios, capabilities, &cost));
        }
        self.watch_idle_cpus(platform, cpus, sections.modes.as_ref());
        let note = self.missed.add_interval(platform.info(), &cost);
        platform.tell("missed runs", note);
        platform.tell_quietly("correction", correction.map(note_of));
        sections.cost = Some(cost);
        Ok(())
    }
}
