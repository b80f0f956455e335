//! One measurement from start to end: puts the host's facts, the plan, the
//! probes and the arithmetic together, and makes one snapshot per call.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use metrics_common::component::index_of;
use metrics_common::{
    Availability, ComponentInfo, Cost, CpuModes, Info, Method, Modes, OwnCost, Sections, Snapshot,
};

use crate::actors::trace_analyzer::{SnapshotSource, StackSource};
use crate::analysis::attribute::{
    Attribution, Capabilities, Interval, Request, Split, StackCounts, basis_of, entries,
};
use crate::analysis::classify::Classifier;
use crate::analysis::delta::Deltas;
use crate::analysis::flame::Flame;
use crate::analysis::idle::IdleSampling;
use crate::analysis::missed::Missed;
use crate::analysis::plan::{Facts, Plan, RequestedMethod};
use crate::analysis::proc_stat::{self, ProcStat};
use crate::analysis::rapl::Energy;
use crate::config::Config;
use crate::kernel::cpu_time::Reading;
use crate::kernel::kept::KeptFile;
use crate::kernel::preflight;
use crate::kernel::session::{Readers, Session};
use crate::kernel::system::{self, Roots};
use crate::sampled_stacks::SampledStacks;
use crate::symbol_refresh::SymbolRefresh;

mod cpus;

use cpus::Cpus;

/// What a measurement is asked to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Stack samples per second and CPU.
    pub frequency_hz: u64,
    /// Length of an interval.
    pub user_period: Duration,
    /// By which means.
    pub method: RequestedMethod,
    /// Where `/proc` and `/sys` are.
    pub roots: Roots,
}

impl From<&Config> for Settings {
    fn from(config: &Config) -> Self {
        Settings {
            frequency_hz: config.frequency_hz,
            user_period: config.user_period,
            method: config.method,
            roots: Roots {
                proc_root: config.proc_root.clone(),
                sys_root: config.sys_root.clone(),
            },
        }
    }
}

/// A running measurement. Dropping it detaches the probes.
#[derive(Debug)]
pub struct Measurement {
    /// What it says of itself and its host.
    pub info: Info,
    /// Makes the snapshots.
    pub source: Snapshots,
    /// Keeps the probes attached.
    pub session: Session,
}

/// Attaches the probes and starts counting.
///
/// # Errors
/// What makes every measurement impossible, with the remedy.
pub fn start(settings: &Settings) -> anyhow::Result<Measurement> {
    let softirqs_are_timed = settings.method != RequestedMethod::Sampling;
    let (facts, classifier) =
        preflight::gather(&settings.roots, settings.frequency_hz, softirqs_are_timed)?;
    let plan = Plan::new(&facts, settings.method)?;
    let interval_ms = settings.user_period.as_millis() as u64;
    let (session, readers) =
        Session::start(&plan, &settings.roots, settings.frequency_hz, interval_ms)?;
    let power = settings.roots.rapl_zones();
    let mut notes = plan.notes();
    for probe in session.probes() {
        if let Some(failure) = &probe.failure {
            notes.push(format!("{} is not hooked: {failure}.", probe.name));
        }
    }
    let info = Info {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: system::kernel_release(),
        hostname: system::hostname(),
        boot_id: settings.roots.boot_id(),
        started_unix_ns: unix_ns(),
        user_period_ms: interval_ms,
        frequency_hz: settings.frequency_hz,
        possible_cpus: readers.possible_cpus as u32,
        numa_nodes: settings.roots.numa_nodes(readers.possible_cpus),
        components: ComponentInfo::table(|index| plan.components[index].clone()),
        probes: session.probes().to_vec(),
        missable: readers.missed.ways().to_vec(),
        power: match &power {
            Ok(_) => Availability::by(Method::Rapl),
            Err(error) => Availability::missing(format!("{error:#}")),
        },
        notes,
    };
    let knowledge = Knowledge { facts, info };
    let source = Snapshots::new(
        settings,
        knowledge,
        &plan,
        classifier,
        readers,
        power.is_ok(),
    )?;
    Ok(Measurement {
        info: source.knowledge.info.clone(),
        source,
        session,
    })
}

/// What was found out about the host, and what follows from it.
#[derive(Debug)]
struct Knowledge {
    facts: Facts,
    /// What everybody is told; the availability of its components is the plan's.
    info: Info,
}

impl Knowledge {
    /// Takes the kernel's functions anew. Where that changes what can be measured,
    /// the description says so, and the plan that now holds is returned.
    fn learn(&mut self, has_symbols: Vec<bool>, method: RequestedMethod) -> Option<Plan> {
        self.facts.has_symbols = has_symbols;
        // It was possible at the start, and symbols do not make it impossible.
        let plan = Plan::new(&self.facts, method).ok()?;
        let mut has_news = false;
        for (component, now) in self.info.components.iter_mut().zip(&plan.components) {
            has_news |= component.availability != *now;
            component.availability.clone_from(now);
        }
        has_news.then_some(plan)
    }
}

impl Knowledge {
    /// Why there is nothing for a flame graph, if so.
    fn why_no_stacks(&self, has_symbols: bool) -> Option<String> {
        let facts = &self.facts;
        let reason = facts.stacks.as_ref().and(facts.symbols.as_ref()).err();
        (!has_symbols).then(|| reason.cloned().unwrap_or_default())
    }
}

/// Makes one snapshot per interval from the running probes.
#[derive(Debug)]
pub struct Snapshots {
    roots: Roots,
    knowledge: Knowledge,
    /// Whether what can be measured has changed and nobody has been told yet.
    has_news: bool,
    method: RequestedMethod,
    capabilities: Capabilities,
    softirqs_are_timed: bool,
    classifier: Option<Classifier>,
    flame: Flame,
    /// Where readers find the stacks between two drains.
    stacks: Arc<SampledStacks>,
    /// How often symbols have been read anew.
    symbols_version: u64,
    symbol_refresh: SymbolRefresh,
    readers: Readers,
    deltas: Deltas,
    /// Each CPU's clock at the previous snapshot.
    previous: Vec<Reading>,
    tallies: Vec<StackCounts>,
    attribution: Attribution,
    lost: Vec<u64>,
    /// Stacks that turned out to show nothing but an idle CPU, since the start.
    idle_samples: Vec<u64>,
    idle_sampling: IdleSampling,
    missed: Missed,
    /// What was told of both.
    told: [Option<String>; 2],
    cpus: Cpus,
    energy: Option<Energy>,
    stat_file: KeptFile,
    previous_stat: ProcStat,
    previous_ns: u64,
    previous_own_ns: (u64, u64),
    tick_ns: u64,
    sequence: u64,
}

impl Snapshots {
    fn new(
        settings: &Settings,
        knowledge: Knowledge,
        plan: &Plan,
        classifier: Option<Classifier>,
        readers: Readers,
        has_power: bool,
    ) -> anyhow::Result<Self> {
        let possible_cpus = readers.possible_cpus;
        let roots = settings.roots.clone();
        let stacks = Arc::new(SampledStacks::new(
            roots.clone(),
            knowledge.why_no_stacks(classifier.is_some()),
        ));
        let stat_file = roots.proc_stat()?;
        let mut source = Snapshots {
            capabilities: plan.capabilities(),
            has_news: false,
            method: settings.method,
            softirqs_are_timed: plan.has_clock,
            previous_stat: proc_stat::parse(&stat_file.text()?)?,
            stat_file,
            symbol_refresh: SymbolRefresh::new(roots.clone(), plan.has_clock),
            roots,
            knowledge,
            classifier,
            flame: Flame::new(system::monotonic_ns()),
            stacks,
            symbols_version: 0,
            readers,
            deltas: Deltas::default(),
            previous: vec![Reading::default(); possible_cpus],
            tallies: vec![StackCounts::default(); possible_cpus],
            attribution: Attribution::default(),
            lost: vec![0; possible_cpus],
            idle_samples: vec![0; possible_cpus],
            idle_sampling: IdleSampling::default(),
            missed: Missed::default(),
            told: Default::default(),
            cpus: Cpus::default(),
            energy: has_power.then(Energy::default),
            previous_ns: system::monotonic_ns(),
            previous_own_ns: system::own_cpu_ns(),
            tick_ns: system::tick_ns(),
            sequence: 0,
        };
        let stat = source.previous_stat.clone();
        source.follow_cpus(&stat)?;
        source.has_news = false;
        // What the probes saw before now belongs to no interval.
        source.drain_stacks();
        for cpu in 0..possible_cpus {
            if let Some(reading) = source.readers.clocks.read(cpu) {
                source.deltas.growth(cpu, &reading.total_ns, 0);
                source.previous[cpu] = reading;
            }
        }
        source
            .stacks
            .put_down(source.flame.counted(source.previous_ns), 0);
        if let Some(energy) = &mut source.energy {
            energy.advance(&source.roots.rapl_zones().unwrap_or_default(), 0, 0, 0);
        }
        Ok(source)
    }

    /// CPUs of this snapshot; the sampler is started on those that are new.
    ///
    /// # Errors
    /// If nothing says which CPUs there are.
    fn follow_cpus(&mut self, stat: &ProcStat) -> anyhow::Result<Vec<u32>> {
        let shown = &mut self.knowledge.info.notes;
        let before = self.cpus.notes().to_vec();
        let cpus = self
            .cpus
            .follow(&self.roots, stat, &mut self.readers, self.sequence > 0)?;
        if self.cpus.notes() != before {
            shown.retain(|note| !before.contains(note));
            shown.extend_from_slice(self.cpus.notes());
            self.has_news = true;
        }
        Ok(cpus)
    }

    /// Looks for network devices that came or were brought up, now and then.
    fn follow_interrupts(&mut self, now_ns: u64) {
        if self.softirqs_are_timed
            && let Err(error) = self.readers.interrupts.follow(&self.roots, now_ns)
        {
            tracing::warn!("interrupts of new network devices are not timed: {error}");
        }
    }

    fn drain_stacks(&mut self) {
        self.tallies.iter_mut().for_each(StackCounts::clear);
        self.lost.fill(0);
        let Some(classifier) = &mut self.classifier else {
            return;
        };
        let (tallies, lost) = (&mut self.tallies, &mut self.lost);
        let idle_samples = &mut self.idle_samples;
        let flame = &mut self.flame;
        self.readers.stacks.drain(
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
                let Some(tally) = tallies.get_mut(trace.cpu) else {
                    return;
                };
                tally.add(trace.kind, found);
                if let Some(request) = found.and_then(|owner| Request::of(owner.event))
                    && classifier.is_io_thread(trace.frames)
                {
                    tally.add_request(request);
                }
            },
            |cpu, count| {
                if let Some(lost) = lost.get_mut(cpu) {
                    *lost += count;
                }
            },
        );
        if let Some(samplers) = &mut self.readers.samplers {
            samplers.end_interval();
        }
    }

    fn read_cpu(&mut self, cpu: usize, interval_ns: u64) -> Column {
        let before = self.previous.get(cpu).copied().unwrap_or_default();
        let reading = self.readers.clocks.read(cpu).unwrap_or(before);
        if let Some(previous) = self.previous.get_mut(cpu) {
            *previous = reading;
        }
        let clock = self.deltas.growth(cpu, &reading.total_ns, interval_ns);
        let growth =
            std::array::from_fn(|kind| reading.entries[kind].saturating_sub(before.entries[kind]));
        let nothing = StackCounts::default();
        let tally = self.tallies.get(cpu).unwrap_or(&nothing);
        // Scale up for lost samples.
        let (taken, lost) = (tally.taken(), self.lost.get(cpu).copied().unwrap_or(0));
        let samplers = self.readers.samplers.as_ref();
        let period_ns = samplers.map_or(0, |samplers| samplers.period_ns(cpu as u32));
        let interval = Interval {
            length_ns: interval_ns,
            sample_period_ns: period_ns * (taken + lost) / taken.max(1),
        };
        Column {
            split: self
                .attribution
                .attribute(cpu, &self.capabilities, interval, &clock, tally),
            entries: entries(&self.capabilities, &growth),
            ksoftirqd_rx_ns: reading
                .ksoftirqd_rx_ns
                .saturating_sub(before.ksoftirqd_rx_ns),
        }
    }

    /// Tells which CPUs are not sampled while they are idle, when that becomes known.
    fn watch_idle_cpus(&mut self, cpus: &[u32], modes: &[CpuModes]) {
        let Some(samplers) = &self.readers.samplers else {
            return;
        };
        for (&cpu, modes) in cpus.iter().zip(modes) {
            let reading = self.previous.get(cpu as usize);
            let by_stack = self.idle_samples.get(cpu as usize).copied().unwrap_or(0);
            let taken = reading.map_or(0, |reading| reading.idle_samples) + by_stack;
            let period_ns = samplers.period_ns(cpu);
            self.idle_sampling
                .add_interval(cpu, modes.idle_ns, period_ns, taken);
        }
        self.tell(0, self.idle_sampling.note());
    }

    /// Says a note that is not the same as before, or takes it back.
    fn tell(&mut self, place: usize, note: Option<String>) {
        if note == self.told[place] {
            return;
        }
        let notes = &mut self.knowledge.info.notes;
        notes.retain(|other| Some(other) != self.told[place].as_ref());
        if let Some(note) = &note {
            tracing::warn!("{note}");
            notes.push(note.clone());
        }
        self.told[place] = note;
        self.has_news = true;
    }

    fn modes_of(&self, stat: &ProcStat, cpu: u32, interval_ns: u64) -> CpuModes {
        let find = |stat: &ProcStat| {
            stat.cpus
                .iter()
                .find(|(number, _)| *number == cpu)
                .map(|(_, modes)| *modes)
        };
        match (find(&self.previous_stat), find(stat)) {
            (Some(before), Some(after)) => {
                proc_stat::growth(&before, &after, self.tick_ns, interval_ns, 1)
            }
            _ => CpuModes::default(),
        }
    }

    /// Takes symbols that were read anew. What they change holds from the next
    /// snapshot on.
    fn refresh_symbols(&mut self, now_ns: u64) {
        if self.classifier.is_none() {
            return;
        }
        let Some(classifier) = self.symbol_refresh.poll(now_ns) else {
            return;
        };
        if let Some(plan) = self
            .knowledge
            .learn(classifier.found().availability(), self.method)
        {
            self.capabilities = plan.capabilities();
            self.has_news = true;
        }
        self.classifier = Some(classifier);
        self.symbols_version += 1;
    }

    /// What was found out about the host.
    pub fn facts(&self) -> &Facts {
        &self.knowledge.facts
    }
}

impl SnapshotSource for Snapshots {
    fn new_info(&mut self) -> Option<Info> {
        std::mem::take(&mut self.has_news).then(|| self.knowledge.info.clone())
    }

    fn stacks(&self) -> Arc<dyn StackSource> {
        self.stacks.clone()
    }

    fn next_snapshot(&mut self) -> anyhow::Result<Snapshot> {
        let begun_ns = system::monotonic_ns();
        let time_unix_ns = unix_ns();
        let interval_ns = begun_ns.saturating_sub(self.previous_ns);
        self.previous_ns = begun_ns;
        self.sequence += 1;

        self.follow_interrupts(begun_ns);
        let stat = proc_stat::parse(&self.stat_file.text()?).context("cannot tell CPU modes")?;
        let cpus = self.follow_cpus(&stat)?;
        self.stacks.take_back();
        self.flame.pass(begun_ns);
        self.drain_stacks();
        self.attribution.begin(interval_ns, &self.tallies);
        self.stacks
            .put_down(self.flame.counted(begun_ns), self.symbols_version);

        let mut columns = Vec::with_capacity(cpus.len());
        for &cpu in &cpus {
            columns.push(self.read_cpu(cpu as usize, interval_ns));
        }
        let components = transpose(&columns, |column| &column.split.time_ns);
        let samples = transpose(&columns, |column| &column.split.samples);
        let entries = transpose(&columns, |column| &column.entries);
        let ksoftirqd_rx_ns = self.softirqs_are_timed.then(|| {
            columns
                .iter()
                .map(|column| column.ksoftirqd_rx_ns)
                .collect()
        });
        let per_cpu = |counts: &dyn Fn(usize) -> u64| {
            cpus.iter()
                .map(|&cpu| counts(cpu as usize))
                .collect::<Vec<u64>>()
        };
        let stacks_taken = per_cpu(&|cpu| self.tallies.get(cpu).map_or(0, StackCounts::taken));
        let stacks_lost = per_cpu(&|cpu| self.lost.get(cpu).copied().unwrap_or(0));

        let cpu_modes: Vec<CpuModes> = cpus
            .iter()
            .map(|cpu| self.modes_of(&stat, *cpu, interval_ns))
            .collect();
        self.watch_idle_cpus(&cpus, &cpu_modes);
        let host_modes = proc_stat::growth(
            &self.previous_stat.host,
            &stat.host,
            self.tick_ns,
            interval_ns,
            cpus.len().max(stat.cpus.len()),
        );
        self.previous_stat = stat;

        let network_ns = index_of("network")
            .and_then(|index| components[index].as_ref())
            .map_or(0, |row: &Vec<u64>| row.iter().sum());
        let power = self.energy.as_mut().and_then(|energy| {
            let zones = self.roots.rapl_zones().ok()?;
            energy.advance(&zones, interval_ns, network_ns, host_modes.busy_ns())
        });

        self.refresh_symbols(begun_ns);
        let own_ns = system::own_cpu_ns();
        let own = OwnCost {
            user_ns: own_ns.0.saturating_sub(self.previous_own_ns.0),
            system_ns: own_ns.1.saturating_sub(self.previous_own_ns.1),
            resident_bytes: system::own_resident_bytes(),
            analysis_ns: system::monotonic_ns().saturating_sub(begun_ns),
        };
        self.previous_own_ns = own_ns;
        let probe_missed = self
            .missed
            .growth(self.readers.missed.counts(&self.previous));
        let snapshot = Snapshot {
            sequence: self.sequence,
            time_unix_ns,
            interval_ns,
            cpus,
            sections: Sections {
                cost: Some(Cost {
                    components,
                    samples,
                    split_basis: basis_of(columns.iter().map(|column| &column.split)),
                    entries,
                    ksoftirqd_rx_ns,
                    stacks_taken,
                    stacks_lost,
                    probe_missed,
                }),
                modes: Some(Modes {
                    cpus: cpu_modes,
                    host: host_modes,
                }),
                power,
                own: Some(own),
            },
        };
        let note = self.missed.add_interval(&self.knowledge.info, &snapshot);
        self.tell(1, note);
        Ok(snapshot)
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

fn unix_ns() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |time| time.as_nanos() as u64)
}

#[cfg(test)]
mod tests;
