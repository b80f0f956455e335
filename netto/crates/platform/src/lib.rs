//! The platform of features: the host's facts and the plan, the per-CPU clock, the stack sampler
//! and its buffer, the kernel's symbols, the online CPUs, and the notes about all that.
//!
//! It knows no feature and no section. A feature is given the platform with each [`Tick`], takes
//! what it needs, and keeps its own state.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use metrics_common::{Availability, ComponentInfo, Info, InstrumentCost, Owner, ProbeInfo};

use netto_analysis::analyzer_cost::AnalyzerCost;
use netto_analysis::classify::Classifier;
use netto_analysis::groups::GroupSet;
use netto_analysis::kernel_counts::context_switches;
use netto_analysis::long_softirqs::{LongSoftirq, keep_longest};
use netto_analysis::plan::{Capabilities, Facts, Plan, RequestedMethod};
use netto_analysis::planner::Planner;
use netto_analysis::precision::Precision;
use netto_analysis::proc_stat::{self, ProcStat};
use netto_analysis::profile::IntervalProfile;
use netto_analysis::rates::Rates;
use netto_analysis::sampler::{Choice, RequestedSampler};
use netto_analysis::tagged::{FlowEnds, TaggedSample, Tags};
use netto_sys::function_names::FunctionNames;
use netto_sys::preflight;
use netto_sys::reopenable::ReopenableFile;
use netto_sys::session::{Readers, Session};
use netto_sys::system::{self, Roots};

pub mod background;
mod cpus;
pub mod displacement;
mod notes;
mod open_profiles;
pub mod overhead;
mod process;
pub mod programs;
pub mod sampled_stacks;
mod sampling;
mod symbol_refresh;

use self::cpus::Cpus;
use self::notes::Notes;
use self::overhead::{IntervalFindings, Overhead, Taken};
use self::programs::Programs;
use self::sampled_stacks::SampledStacks;
use self::symbol_refresh::SymbolRefresh;

/// Most long softirqs of an interval: no more are kept of one CPU.
pub const MOST_LONG: usize = netto_sys::long_softirqs::MOST;

/// The settings of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Stack samples per second and CPU.
    pub frequency_hz: u64,
    /// Whether the user gave that frequency.
    pub frequency_is_given: bool,
    /// The requested sampler.
    pub sampler: RequestedSampler,
    /// Length of an interval.
    pub user_period: Duration,
    /// Most periods of an interval that somebody reads.
    pub most_read_periods: u32,
    /// The requested method.
    pub method: RequestedMethod,
    /// Limit of netto's own cost, as a share of each CPU's time.
    pub max_overhead_ratio: f64,
    /// How well the parts of events are to be known, where that limit allows.
    pub precision: Precision,
    /// The paths of `/proc` and `/sys`.
    pub roots: Roots,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Platform {
    /// The paths of `/proc` and `/sys`.
    pub roots: Roots,
    /// The readers of the probes' data, each read once per interval.
    pub readers: Readers,
    /// Classifies stacks; `None` if symbols or stacks are unavailable.
    pub classifier: Option<Classifier>,
    /// The sampler and the reason for it; `None` if no stacks are sampled.
    pub sampling: Option<Choice>,
    /// The components that can be measured now.
    pub capabilities: Capabilities,
    /// Whether the per-CPU clock runs.
    pub has_clock: bool,
    /// netto's own cost, and its limit.
    pub overhead: Overhead,
    /// Of the interval, the time of flows that samples show, where they do.
    pub flow_times: Option<Vec<FlowTime>>,
    /// The longest softirqs that ended in the interval, by CPU and time, if something wants them
    /// ([`Readers::long_softirqs`]).
    pub long_softirqs: Vec<LongSoftirq>,
    /// For each of these, who caused it and who paid, where that is looked for.
    pub long_parties: Vec<[Owner; 2]>,
    /// CPUs of which [`Platform::taken_there`] is wanted, ascending.
    pub watched_cpus: Vec<u32>,
    /// Of the interval, softirq time on these CPUs whose cause and payer were found.
    pub taken_there: Vec<TakenThere>,
    /// The kernel's BPF programs and the samples in them, once something wants them.
    pub programs: Option<Programs>,
    /// Of the interval, the samples in them whose owner is known, where owners are.
    pub program_causes: Option<Vec<ProgramCause>>,
    /// Names the kernel's functions.
    pub function_names: Arc<FunctionNames>,
    /// The stacks, for readers of the flame graph between two drains.
    pub stacks: Arc<SampledStacks>,
    /// The samples of the interval, while profiles are recorded.
    pub profile: Option<IntervalProfile>,
    /// Incremented each time symbols are read again.
    pub symbols_version: u64,
    /// `/proc/stat` now.
    pub stat: ProcStat,
    stat_file: ReopenableFile,
    symbol_refresh: SymbolRefresh,
    cpus: Cpus,
    knowledge: Knowledge,
    notes: Notes,
    method: RequestedMethod,
    sequence: u64,
    previous_ns: u64,
}

/// An interval that has just ended, as features are given it.
#[derive(Debug)]
pub struct Tick<'a> {
    /// The platform.
    pub platform: &'a mut Platform,
    /// Its end, CLOCK_MONOTONIC.
    pub now_ns: u64,
    /// Its end, nanoseconds since the Unix epoch.
    pub time_unix_ns: u64,
    /// Its length, by the same clock as `now_ns`.
    pub interval_ns: u64,
    /// Its CPUs: the columns of everything per CPU.
    pub cpus: &'a [u32],
    /// The analysis cost of the features that have already run.
    pub analysis: Vec<InstrumentCost>,
    /// The interval's samples of networking with their owner tags, once they are classified; none
    /// if samples have no tags.
    pub samples: &'a mut Vec<TaggedSample>,
}

/// CPU time that was spent on a flow, as samples show it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowTime {
    /// Its CPU.
    pub cpu: u32,
    /// Row of the event.
    pub event: usize,
    /// Which flow.
    pub flow: FlowEnds,
    /// Nanoseconds; all of a CPU sum to at most the event's time there.
    pub ns: u64,
    /// For how long one independent sample of the event stands there, milliseconds.
    pub sample_ms: f64,
}

/// Softirq time on one of [`Platform::watched_cpus`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenThere {
    /// The CPU.
    pub cpu: u32,
    /// Row of the event.
    pub event: usize,
    /// Who caused it.
    pub cause: Owner,
    /// Who was interrupted.
    pub payer: Owner,
    /// Nanoseconds; all of a CPU and event sum to at most the event's time there.
    pub ns: u64,
}

/// Samples in a BPF program that worked for an owner.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramCause {
    /// The program's number.
    pub program: u32,
    /// Row of the event.
    pub event: usize,
    /// Number of the CPU.
    pub cpu: usize,
    /// Whose packets they were.
    pub owner: Owner,
    /// The sum of their weights, those taken in addition included.
    pub weight: f64,
    /// For how long one independent sample of the event stands there, milliseconds.
    pub sample_ms: f64,
}

/// The end of an interval.
#[derive(Debug)]
pub struct End {
    /// Number of the interval, from 1.
    pub sequence: u64,
    /// Its end, nanoseconds since the Unix epoch.
    pub time_unix_ns: u64,
    /// Its end, CLOCK_MONOTONIC.
    pub now_ns: u64,
    /// Length of the interval.
    pub interval_ns: u64,
    /// CPUs of the interval.
    pub cpus: Vec<u32>,
}

impl Platform {
    /// Finds out what the host allows, attaches the probes and starts the clock. `tags`: what samples
    /// carry.
    ///
    /// # Errors
    /// Conditions that make every measurement impossible, with the remedy.
    pub fn start(settings: &Settings, tags: Tags) -> anyhow::Result<(Platform, Session)> {
        let roots = settings.roots.clone();
        let (facts, classifier) = preflight::gather(&roots, settings.frequency_hz)?;
        let plan = Plan::new(&facts, settings.method)?;
        let interval_ms = settings.user_period.as_millis() as u64;
        let tags = if plan.stacks.is_ok() {
            tags
        } else {
            Tags::None
        };
        let (session, mut readers) =
            Session::start(&plan, &roots, settings.frequency_hz, interval_ms, tags)?;
        let sampling = sampling::start(settings, &plan, &session, &mut readers)?;
        let ticks_hz = sampling.as_ref().map_or(0, |choice| choice.ticks_hz);
        let rates = Rates::new(settings.frequency_hz, ticks_hz);
        if let Some(perf) = &mut readers.samplers {
            perf.begin_at(rates.first_hz());
        }
        let mut notes = plan.notes();
        notes.extend(session.probes().iter().filter_map(not_hooked));
        let info = Info {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: system::kernel_release(),
            hostname: system::hostname(),
            boot_id: roots.boot_id(),
            started_unix_ns: unix_ns(),
            user_period_ms: interval_ms,
            frequency_hz: settings.frequency_hz,
            sampler: sampling
                .as_ref()
                .map(|choice| choice.sampler.name().to_owned()),
            max_overhead_ratio: Some(settings.max_overhead_ratio),
            possible_cpus: readers.possible_cpus as u32,
            numa_nodes: roots.numa_nodes(readers.possible_cpus),
            components: ComponentInfo::table(|index| plan.components[index].clone()),
            probes: session.probes().to_vec(),
            missable: readers.missed.ways().to_vec(),
            power: Availability::missing("not looked for"),
            instruments: Vec::new(),
            notes,
        };
        let knowledge = Knowledge { facts, info };
        let stat_file = roots.proc_stat()?;
        // A requested method is kept whatever its cost, and so are components that only probes can
        // measure.
        let may_detach = settings.method == RequestedMethod::Auto && plan.stacks.is_ok();
        let planner = |groups, seed| {
            Planner::new(
                settings.max_overhead_ratio,
                settings.precision,
                groups,
                rates,
                AnalyzerCost::new(settings.user_period, settings.most_read_periods),
                seed,
            )
        };
        let overhead = Overhead::new(planner, &plan, may_detach, &roots, &readers);
        let function_names = Arc::new(FunctionNames::start(roots.clone())?);
        let mut platform = Platform {
            capabilities: plan.capabilities(),
            has_clock: plan.has_clock,
            overhead,
            flow_times: None,
            long_softirqs: Vec::new(),
            long_parties: Vec::new(),
            watched_cpus: Vec::new(),
            taken_there: Vec::new(),
            programs: None,
            program_causes: None,
            stacks: Arc::new(SampledStacks::new(
                Arc::clone(&function_names),
                knowledge.why_no_stacks(classifier.is_some()),
            )),
            function_names,
            profile: None,
            stat: proc_stat::parse(&stat_file.text()?)?,
            stat_file,
            symbol_refresh: SymbolRefresh::new(roots.clone()),
            symbols_version: 0,
            roots,
            readers,
            sampling,
            classifier,
            cpus: Cpus::default(),
            knowledge,
            notes: Notes::default(),
            method: settings.method,
            sequence: 0,
            previous_ns: system::monotonic_ns(),
        };
        platform.follow_cpus()?;
        Ok((platform, session))
    }

    /// How many periods the coming interval has, by whether somebody takes each; `None` where the load must
    /// be looked at after each period, since a change could make the interval cost too much.
    pub fn settled_periods(&self, is_read: bool) -> Option<u32> {
        self.overhead.settled_periods(is_read, &self.readers)
    }

    /// How many periods the interval under way has, by whether somebody reads it and by what has happened
    /// since its begin.
    pub fn periods(&self, is_read: bool) -> u32 {
        let interval_ns = system::monotonic_ns().saturating_sub(self.previous_ns);
        self.overhead.periods(is_read, interval_ns, &self.readers)
    }

    /// A descriptor that becomes readable when a load may have begun; `None` if nothing tells that.
    pub fn alarm(&self) -> Option<OwnedFd> {
        let descriptor = self.readers.alarm.as_ref()?.descriptor();
        descriptor
            .inspect_err(|error| tracing::warn!("the begin of a load costs more: {error:#}"))
            .ok()
    }

    /// Whether a load has begun that is to end the interval.
    pub fn take_alarm(&self) -> bool {
        self.overhead.has_load_begun(&self.readers)
    }

    /// Ends an interval.
    ///
    /// # Errors
    /// If the host no longer tells which CPUs it has and what they do.
    pub fn end_interval(&mut self) -> anyhow::Result<End> {
        let now_ns = system::monotonic_ns();
        let time_unix_ns = unix_ns();
        let interval_ns = now_ns.saturating_sub(self.previous_ns);
        self.previous_ns = now_ns;
        self.sequence += 1;
        self.follow_interrupts(now_ns);
        let text = self.stat_file.text()?;
        proc_stat::parse_into(&text, &mut self.stat).context("cannot tell CPU modes")?;
        self.overhead
            .begin(context_switches(&text), interval_ns, now_ns);
        self.take_long_softirqs();
        self.profile = self.stacks.are_recorded().then(IntervalProfile::default);
        let cpus = self.follow_cpus()?;
        Ok(End {
            sequence: self.sequence,
            time_unix_ns,
            now_ns,
            interval_ns,
            cpus,
        })
    }

    /// Adds the samples of the interval to the profiles that are recorded; features have completed
    /// them.
    pub fn end_profile(&mut self, interval_ns: u64) {
        if let Some(profile) = self.profile.take() {
            self.stacks.record_interval(&profile, interval_ns);
        }
    }

    /// Takes the longest softirqs before the stacks: so all samples of one are among those of its
    /// interval, or of the one before.
    fn take_long_softirqs(&mut self) {
        let found = &mut self.long_softirqs;
        found.clear();
        self.long_parties.clear();
        if let Some(kept) = &self.readers.long_softirqs {
            kept.take(|softirq| found.push(softirq));
        }
        keep_longest(found, MOST_LONG);
    }

    /// Returns the CPUs of this interval, and starts the sampler on new ones.
    fn follow_cpus(&mut self) -> anyhow::Result<Vec<u32>> {
        let warns = self.sequence > 0;
        let cpus = self
            .cpus
            .follow(&self.roots, &self.stat, &mut self.readers, warns)?;
        let notes = self.cpus.notes().to_vec();
        self.notes
            .set("cpus", notes, &mut self.knowledge.info.notes);
        Ok(cpus)
    }

    /// Checks now and then for network devices that were added or brought up.
    fn follow_interrupts(&mut self, now_ns: u64) {
        if self.has_clock
            && let Err(error) = self.readers.interrupts.follow(&self.roots, now_ns)
        {
            tracing::warn!("interrupts of new network devices are not timed: {error}");
        }
    }

    /// Closes an interval for netto's own cost; returns the time taken, and decides the methods.
    pub fn keep_to_budget(&mut self, findings: &IntervalFindings<'_>, now_ns: u64) -> Taken {
        let before = self.overhead.timed();
        let taken = self
            .overhead
            .finish_interval(findings, now_ns, &mut self.readers);
        for (topic, note) in self.overhead.notes() {
            let is_new = self.set_note(topic, note.map(str::to_owned));
            if let (Some(note), true) = (note, is_new) {
                self.overhead.say(note);
            }
        }
        let displaced = self.overhead.displaced();
        self.set_note("displaced", displaced);
        let too_few = self.overhead.precision_note();
        self.tell_quietly("precision", too_few);
        if self.overhead.timed() != before {
            let has_symbols = self.knowledge.facts.has_symbols.clone();
            self.learn(has_symbols);
        }
        taken
    }

    fn learn(&mut self, has_symbols: Vec<bool>) {
        let timed = self.overhead.timed();
        if let Some(plan) = self.knowledge.learn(has_symbols, self.method, timed) {
            self.capabilities = plan.capabilities();
            self.notes.has_news = true;
        }
    }

    /// Takes over symbols that were read again. Changes apply from the next interval on.
    pub fn refresh_symbols(&mut self, now_ns: u64) {
        if self.classifier.is_none() {
            return;
        }
        let Some(mut classifier) = self.symbol_refresh.poll(now_ns) else {
            return;
        };
        self.learn(classifier.has_symbols().to_vec());
        if let Some(before) = self.classifier.take() {
            classifier.take_over(before);
        }
        self.classifier = Some(classifier);
        self.symbols_version += 1;
    }

    /// Sets the note on this topic, or removes it.
    pub fn tell(&mut self, topic: &'static str, note: Option<String>) {
        if self.set_note(topic, note.clone())
            && let Some(note) = note
        {
            tracing::warn!("{note}");
        }
    }

    /// The same about something that comes and goes by itself, which the log need not have.
    pub fn tell_quietly(&mut self, topic: &'static str, note: Option<String>) {
        if self.set_note(topic, note.clone())
            && let Some(note) = note
        {
            tracing::debug!("{note}");
        }
    }

    /// Whether the note on this topic has changed.
    fn set_note(&mut self, topic: &'static str, note: Option<String>) -> bool {
        let notes = &mut self.knowledge.info.notes;
        self.notes.set(topic, note.into_iter().collect(), notes)
    }

    /// Begins the first interval, once all is started: the start is not netto's cost of it.
    pub fn begin_intervals(&mut self) {
        self.overhead.begin_process();
        self.overhead.arm_alarms(&self.readers);
    }

    /// The description of the measurement and its host.
    pub fn info(&self) -> &Info {
        &self.knowledge.info
    }

    /// Sets a feature's availability.
    pub fn set_instrument(&mut self, name: &str, availability: Availability) {
        self.knowledge.info.set_instrument(name, availability);
        self.notes.has_news = true;
    }

    /// Reports a feature's probes, attached or not.
    pub fn tell_probes(&mut self, probes: Vec<ProbeInfo>) {
        let info = &mut self.knowledge.info;
        info.notes.extend(probes.iter().filter_map(not_hooked));
        info.probes.extend(probes);
        self.notes.has_news = true;
    }

    /// The description, if it has changed since the previous call.
    pub fn new_info(&mut self) -> Option<Info> {
        std::mem::take(&mut self.notes.has_news).then(|| self.knowledge.info.clone())
    }
}

/// The facts found about the host, and the plan that follows.
#[derive(Debug)]
struct Knowledge {
    facts: Facts,
    /// The published description; the availability of its components is the plan's.
    info: Info,
}

impl Knowledge {
    /// Takes over the kernel's functions and the attached probes. If that changes the measurable
    /// components, updates the description and returns the plan that now applies.
    fn learn(
        &mut self,
        has_symbols: Vec<bool>,
        method: RequestedMethod,
        timed: GroupSet,
    ) -> Option<Plan> {
        self.facts.has_symbols = has_symbols;
        // It was possible at the start, and symbols do not make it impossible.
        let plan = Plan::while_timed(&self.facts, method, timed).ok()?;
        let mut has_news = false;
        for (component, now) in self.info.components.iter_mut().zip(&plan.components) {
            has_news |= component.availability != *now;
            component.availability.clone_from(now);
        }
        has_news.then_some(plan)
    }

    /// Why there is no flame graph; `None` if there is one.
    fn why_no_stacks(&self, has_symbols: bool) -> Option<String> {
        let facts = &self.facts;
        let reason = facts.stacks.as_ref().and(facts.symbols.as_ref()).err();
        (!has_symbols).then(|| reason.cloned().unwrap_or_default())
    }
}

/// The note for a probe that is not attached.
fn not_hooked(probe: &ProbeInfo) -> Option<String> {
    let failure = probe.failure.as_ref()?;
    Some(format!("{} is not hooked: {failure}.", probe.name))
}

fn unix_ns() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |time| time.as_nanos() as u64)
}

#[cfg(test)]
mod tests;
