//! CPU time of the kernel's BPF programs on the way of packets, from the samples in their code, and
//! whose packets they ran for, where owners are measured.

use metrics_common::component::{children, index_of};
use metrics_common::confidence;
use metrics_common::sections::{About, Causes, Packets, Program, Programs};
use metrics_common::{Cost, Sections, Traffic};
use netto_analysis::pace;
use netto_analysis::programs::{InProgram, ProgramSamples};
use netto_estimate::design_effect::Mass;
use netto_feature::instruments::{Feature, Instrument};
use netto_pipeline::options::FeatureOptions;
use netto_platform::programs::Programs as Loaded;
use netto_platform::{Platform, ProgramCause, Tick};
use rustc_hash::FxHashMap;

use self::analysis::causes::{Evidence, Place};
use self::analysis::division::{Division, Event, OTHERS};
use self::analysis::packets::packets_of;
use self::analysis::slots::Slots;
use self::kernel::NettoPrograms;
use self::kernel::runs::RunCounts;
use self::kernel::search::Search;

mod analysis;
mod api;
mod demo;
mod kernel;
mod metrics;
mod report;
mod tables;
mod terminal;

#[cfg(feature = "schema")]
pub use api::SCHEMAS;

/// It needs samples and the right to list programs.
pub const FEATURE: Feature = Feature {
    command: Some(terminal::COMMAND),
    metrics: metrics::METRICS,
    api: api::API,
    demo: demo::generator,
    summary: Some(report::summarizer),
    tables: tables::TABLES,
    ..Feature::new(NAME, start)
};

const NAME: &str = "programs";

/// A program that has, or had a short time ago, samples.
#[derive(Debug, Default)]
struct Shown {
    /// Without anything of an interval.
    about: About,
    /// How often it had run at the end of the last interval; `None` if it is gone, or the kernel
    /// does not count.
    runs: Option<u64>,
    is_loaded: bool,
}

/// State kept between intervals.
struct ProgramCost {
    /// Rows of the events of networking.
    events: Vec<usize>,
    slots: Slots<Shown>,
    division: Division,
    evidence: Evidence,
    /// Of the interval, the time of each slot in each event, nanoseconds, and where it was.
    times: FxHashMap<(usize, usize), u64>,
    portions: Vec<(Place, u64)>,
    search: Search,
    netto_programs: NettoPrograms,
    run_counts: RunCounts,
}

/// Begins with the programs that are loaded now.
///
/// # Errors
/// Without samples, or if the kernel does not tell where programs are.
fn start(platform: &mut Platform, _: &FeatureOptions) -> anyhow::Result<Box<dyn Instrument>> {
    if platform.classifier.is_none() {
        anyhow::bail!("no stacks are sampled");
    }
    platform.programs = Some(Loaded::start()?);
    Ok(Box::new(ProgramCost {
        events: children(index_of("network").unwrap_or(0)).to_vec(),
        slots: Slots::default(),
        division: Division::default(),
        evidence: Evidence::default(),
        times: FxHashMap::default(),
        portions: Vec::new(),
        search: Search::new(platform.roots.clone()),
        netto_programs: NettoPrograms::default(),
        run_counts: RunCounts::open(&platform.roots),
    }))
}

impl ProgramCost {
    /// The slot of a program's samples.
    fn slot_of(&mut self, loaded: &Loaded, program: u32, now_ns: u64) -> usize {
        let Some(known) = loaded.get(program) else {
            return OTHERS;
        };
        let netto_programs = &mut self.netto_programs;
        let shown = || Shown {
            about: About {
                id: known.id,
                name: known.name.clone(),
                kind: known.kind.to_owned(),
                tag: known.tag.iter().map(|byte| format!("{byte:02x}")).collect(),
                is_own: netto_programs.has(known),
                ..About::default()
            },
            ..Shown::default()
        };
        self.slots.of(program, now_ns, shown).unwrap_or(OTHERS)
    }

    /// A section without times, with a program for each slot.
    fn section(&self, cpus: usize) -> Programs {
        let program = |shown: Option<&Shown>| Program {
            about: shown.map_or(About::default(), |shown| shown.about.clone()),
            cpu_ns: vec![0; cpus],
            variance_ns_ms: None,
            causes: None,
        };
        Programs {
            programs: self.slots.iter().map(program).collect(),
            other_cpu_ns: vec![0; cpus],
            other_samples: 0,
        }
    }

    /// Divides the time of all events on one CPU.
    fn divide(&mut self, cost: &Cost, cpu: Cpu<'_>, section: &mut Programs) {
        let column = cpu.column;
        let mut samples = cpu.inside;
        for (place, &event) in self.events.iter().enumerate() {
            let (inside, rest) =
                samples.split_at(samples.partition_point(|(sample, _)| sample.event <= event));
            samples = rest;
            let time_ns = cost.cpu_ns(event).and_then(|row| row.get(column));
            let divided = Event {
                cpu: cpu.number,
                place,
                time_ns: time_ns.copied().unwrap_or(0),
                period_ns: cpu.period_ns,
                samples: cpu.all.of(cpu.number, event),
            };
            let slots = inside.iter().map(|(sample, slot)| (*slot, sample.weight));
            self.division.divide(divided, slots, |slot, ns| {
                match section.programs.get_mut(slot) {
                    Some(program) => {
                        program.cpu_ns[column] += ns;
                        *self.times.entry((slot, event)).or_default() += ns;
                        let cpu = Some(cpu.number);
                        self.portions.push((Place { slot, event, cpu }, ns));
                    }
                    None => section.other_cpu_ns[column] += ns,
                }
            });
        }
    }

    /// Divides the programs' times among owners, by samples of the interval whose owner is known.
    fn find_causes(&mut self, known: Vec<(usize, ProgramCause)>, section: &mut Programs) {
        for (slot, known) in known {
            let place = Place {
                slot,
                event: known.event,
                cpu: Some(known.cpu),
            };
            self.evidence
                .add(place, &known.owner, known.weight, known.sample_ms);
        }
        for (slot, program) in section.programs.iter_mut().enumerate() {
            let mut causes = Causes::default();
            let portions = self.portions.iter();
            for (place, ns) in portions.filter(|(place, _)| place.slot == slot) {
                self.evidence.divide(*place, *ns, &mut causes);
            }
            causes.keep_largest();
            program.causes = Some(causes);
        }
    }

    /// Adds where programs are attached, and how many packets each had.
    fn follow(&mut self, now_ns: u64, traffic: Option<&Traffic>, section: &mut Programs) {
        let shown = self.slots.iter().flatten();
        let ids: Vec<u32> = shown.map(|shown| shown.about.id).collect();
        let found = self.search.poll(now_ns, &ids);
        let are_counted = self.run_counts.are_counted();
        let interfaces = traffic.and_then(|traffic| traffic.interfaces.as_ref());
        for (shown, program) in self.slots.iter_mut().zip(&mut section.programs) {
            let Some(shown) = shown else { continue };
            let Program { about, cpu_ns, .. } = program;
            about.unattached = match found.get(&about.id) {
                None => "not looked for yet",
                Some(places) if places.is_empty() => kernel::why_unattached(&about.kind),
                Some(places) => {
                    about.attached.clone_from(places);
                    ""
                }
            }
            .to_owned();
            let runs = kernel::runs::of(about.id);
            let is_there = runs.is_some() && shown.is_loaded;
            shown.is_loaded = runs.is_some();
            let runs = runs.filter(|_| are_counted);
            let before = std::mem::replace(&mut shown.runs, runs);
            let counted = match before.zip(runs) {
                Some((before, now)) => Ok((now.saturating_sub(before), true)),
                None if !is_there => Err("it was not there all the time"),
                None => packets_of(&about.attached, interfaces).map(|count| (count, false)),
            };
            match counted {
                Ok((count, are_runs)) => {
                    about.packets = Some(Packets {
                        count,
                        cpu_ns: cpu_ns.iter().sum(),
                        are_runs,
                    });
                }
                Err(reason) => about.uncounted = reason.to_owned(),
            }
        }
    }
}

/// The variance of an event's time, square nanoseconds: none if it is timed.
fn event_variance(cost: &Cost, event: usize, is_timed: bool) -> f64 {
    let received = cost
        .received()
        .filter(|_| index_of("rx_softirq") == Some(event));
    match received {
        Some(received) => received.deviation().powi(2),
        None if is_timed => 0.0,
        None => {
            let ns_ms = cost.sample_ns_ms.as_ref().and_then(|row| row.get(event));
            ns_ms.map_or(0.0, |ns_ms| confidence::variance(*ns_ms))
        }
    }
}

/// What is known of one CPU in the interval.
struct Cpu<'a> {
    number: usize,
    column: usize,
    period_ns: u64,
    /// Samples in programs by event, with their slots.
    inside: &'a [(InProgram, usize)],
    all: &'a ProgramSamples,
}

impl Instrument for ProgramCost {
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        let now_ns = tick.now_ns;
        let Some(cost) = &sections.cost else {
            return Ok(());
        };
        let platform = &mut *tick.platform;
        let correction = cost.softirq_correction;
        let error = |event: &usize| confidence::systematic(platform.info(), correction, *event);
        let errors: Vec<f64> = self.events.iter().map(error).collect();
        let timed = platform.capabilities.timed.clone();
        let known = platform.program_causes.take();
        let Some(loaded) = &mut platform.programs else {
            return Ok(());
        };
        for slot in self.slots.give_back(now_ns) {
            self.division.forget(slot);
            self.evidence.forget(slot);
        }
        self.times.clear();
        self.portions.clear();
        self.evidence.begin(tick.interval_ns);
        loaded.samples.sort();
        let samples = loaded.samples.in_programs().iter();
        let inside: Vec<(InProgram, usize)> = samples
            .map(|sample| (*sample, self.slot_of(loaded, sample.program, now_ns)))
            .collect();
        let known = known.map(|known| -> Vec<(usize, ProgramCause)> {
            let known = known.into_iter();
            known
                .map(|sample| (self.slot_of(loaded, sample.program, now_ns), sample))
                .collect()
        });
        let mut section = self.section(tick.cpus.len());
        for (_, slot) in &inside {
            match section.programs.get_mut(*slot) {
                Some(program) => program.about.samples += 1,
                None => section.other_samples += 1,
            }
        }
        let place_of = |event: usize| self.events.iter().position(|row| *row == event);
        let slots = inside.iter();
        let slots = slots
            .filter_map(|(sample, slot)| Some((place_of(sample.event)?, *slot, sample.weight)));
        let all = self
            .events
            .iter()
            .map(|event| loaded.samples.of_all(*event));
        self.division
            .begin(tick.interval_ns, &all.collect::<Vec<Mass>>(), slots);
        for (column, &cpu) in tick.cpus.iter().enumerate() {
            let number = cpu as usize;
            let first = inside.partition_point(|(sample, _)| sample.cpu < number);
            let end = inside.partition_point(|(sample, _)| sample.cpu <= number);
            let count = |row: &[u64]| row.get(column).copied().unwrap_or(0);
            let (taken, lost) = (count(&cost.stacks_taken), count(&cost.stacks_lost));
            let period_ns = platform.readers.sampling_clocks(cpu).period_ns() as u64;
            let of_cpu = Cpu {
                number,
                column,
                period_ns: pace::worth_ns(period_ns, taken, lost),
                inside: &inside[first..end],
                all: &loaded.samples,
            };
            self.divide(cost, of_cpu, &mut section);
        }
        for (slot, program) in section.programs.iter_mut().enumerate() {
            let events = self.events.iter().zip(&errors);
            let off_ns = events.map(|(event, error)| {
                let ns = self.times.get(&(slot, *event)).copied().unwrap_or(0);
                ns as f64 * error
            });
            program.about.systematic_ns = off_ns.sum::<f64>() as u64;
            let of_event = |(place, event): (usize, &usize)| {
                let ns = self.times.get(&(slot, *event)).copied().unwrap_or(0);
                // Of the event's time, and of the program's share of it.
                let share = ns as f64 / cost.total_ns(*event).unwrap_or(0).max(1) as f64;
                let of_whole = event_variance(cost, *event, timed[*event]);
                self.division.variance(place, slot, ns) + share * share * of_whole
            };
            let variance: f64 = self.events.iter().enumerate().map(of_event).sum();
            program.variance_ns_ms = Some(confidence::ns_ms(variance));
        }
        if let Some(known) = known {
            self.find_causes(known, &mut section);
        }
        self.follow(now_ns, sections.traffic.as_ref(), &mut section);
        // Empty slots.
        section.programs.retain(|program| program.about.id != 0);
        section
            .programs
            .sort_by_key(|program| std::cmp::Reverse(program.total_ns()));
        sections.programs = Some(section);
        Ok(())
    }
}
