//! Owners of networking's CPU time: the owner that caused it, and the one that paid for it.
//!
//! The time of each component and CPU in the section `cost` is divided in proportion to its
//! samples. The owner of a task's work is the task. The owner of a softirq's work is the socket
//! that receives the packet, as probes report (`kernel/events.rs`); the interrupted task pays.

use metrics_common::component::index_of_source;
use metrics_common::sections::{Caused, Interruption, event_of};
use metrics_common::{Owner, OwnerKind, Owners, Sections, Source};
use rustc_hash::FxHashMap;

use self::analysis::divide::{
    Attributed, Division, Portion, interrupts, leaf_of, takes, works_for_others,
};
use self::analysis::flows::{self, FlowSamples, OwnedTime};
use self::analysis::owner_table::{NOBODY, OTHER, OwnerId, OwnerTable, Process, UNKNOWN};
use self::analysis::pool::{Evidence, Pair};
use self::analysis::ranking::Ranking;
pub use self::analysis::verdict::OwnerLevel;
use self::analysis::verdict::{Causer, causer, flow, owner, process, who_runs};
use self::kernel::events::{self, Charge, Loaded, OwnerEvents};
use self::resolver::OwnerResolver;
use netto_analysis::groups::Group;
use netto_analysis::long_softirqs::{LongSoftirq, Tally, place_of};
use netto_analysis::tagged::{SampleTag, TaggedSample, Tags};
use netto_feature::instruments::{Feature, Instrument, TurnedOff};
use netto_pipeline::options::FeatureOptions;
use netto_platform::overhead::{Limit, Overhead, ProbeGroup, RegisteredGroup};
use netto_platform::{Platform, ProgramCause, TakenThere, Tick};

pub mod analysis;
mod api;
pub mod demo;
pub mod kernel;
pub mod metrics;
mod options;
mod question;
pub mod report;
mod resolver;
mod tables;
mod terminal;

#[cfg(feature = "schema")]
pub use api::SCHEMAS;

pub use api::API;

/// Without it, only the owners of the cost are unknown. Its options are an [`OwnerLevel`].
pub const FEATURE: Feature = Feature {
    is_asked_for: |options| level(options) != OwnerLevel::None,
    turned_off: TURNED_OFF,
    tags: |options| match level(options) {
        OwnerLevel::None => Tags::None,
        _ => Tags::Owners,
    },
    options: Some(options::OPTIONS),
    api: API,
    metrics: metrics::METRICS,
    demo: demo::generator,
    summary: Some(report::summarizer),
    tables: tables::TABLES,
    ..Feature::new("owners", start)
};

/// Its probes. Most sockets are met in the softirq that receives.
const GROUP: ProbeGroup = ProbeGroup {
    name: "owners",
    label: "owners of softirqs",
    event_ns: 120.0,
    limit: Limit::Budget {
        met_in: Source::NET_RX,
    },
    note_while_off: "Finding the owners of softirqs all the time would cost too much: they are \
                     found in a part of each second, which stands for the whole.",
};

/// See the head of this file.
struct WhoseCost {
    level: OwnerLevel,
    events: OwnerEvents,
    group: RegisteredGroup,
    resolver: OwnerResolver,
    register: OwnerTable,
    division: Division,
    flows: FlowSamples,
    /// Weights of samples in BPF programs, by program, event, CPU and cause.
    programs: FxHashMap<(u32, usize, usize, u32), f64>,
    ranking: Ranking,
    portions: Vec<Portion>,
    /// The cause of each sample, while a profile is recorded.
    causes: Vec<Option<u32>>,
    /// Causes of the samples in each long softirq of the interval.
    long_causes: Vec<Tally<u32>>,
}

const TURNED_OFF: &str = "not enabled; --owners cgroup (or process) tells them";

fn level(options: &FeatureOptions) -> OwnerLevel {
    options.of(FEATURE.name).copied().unwrap_or_default()
}

/// Starts with an empty table of owners.
///
/// # Errors
/// If owners are not requested, or samples or probes are unavailable.
fn start(platform: &mut Platform, options: &FeatureOptions) -> anyhow::Result<Box<dyn Instrument>> {
    if level(options) == OwnerLevel::None {
        return Err(TurnedOff(TURNED_OFF).into());
    }
    anyhow::ensure!(
        platform.sampling.is_some(),
        "no stacks are sampled here, and CPU time is divided among owners by them"
    );
    if let Err(reason) = &platform.readers.tracepoints {
        anyhow::bail!("{reason}");
    }
    let resolver = OwnerResolver::start(&platform.roots)?;
    let Loaded {
        events,
        probes,
        statuses,
    } = events::start(&platform.readers, resolver.cgroups.as_ref().ok())?;
    platform.tell_probes(statuses);
    let group = platform.overhead.register(GROUP, probes)?;
    let mut level = level(options);
    if let Err(reason) = &resolver.cgroups {
        level = OwnerLevel::Process;
        platform.tell("owners", Some(format!("Owners are processes: {reason}.")));
    }
    if level == OwnerLevel::Process {
        tracing::info!(
            "owners: whoever reads netto learns the names of all users' processes; a password \
             (--web.config.file) or a UNIX socket (--address) limits who does"
        );
    }
    Ok(Box::new(WhoseCost {
        level,
        events,
        group,
        resolver,
        register: OwnerTable::default(),
        division: Division::default(),
        flows: FlowSamples::default(),
        programs: FxHashMap::default(),
        ranking: Ranking::default(),
        portions: Vec::new(),
        causes: Vec::new(),
        long_causes: Vec::new(),
    }))
}

impl WhoseCost {
    /// Adds the interval's samples, in which these softirqs took long.
    fn add_samples(
        &mut self,
        overhead: &Overhead,
        long: &[LongSoftirq],
        samples: &[TaggedSample],
        now_ns: u64,
    ) {
        self.long_causes.clear();
        self.long_causes.resize_with(long.len(), Tally::default);
        for (place, sample) in samples.iter().enumerate() {
            let runner = self.runner(&sample.tag);
            let is_for_others = works_for_others(sample.event) || sample.tag.is_of_kernel;
            // Without its probes, the owner of work for others is unknown; the payer is not.
            let are_asked = || overhead.was_attached(&self.group, sample.tag.time_ns);
            // A task's own work needs no evidence.
            if sample.is_of_window && !is_for_others {
                continue;
            }
            let (cause, found) = if is_for_others && !are_asked() {
                (UNKNOWN, Evidence::Unknown)
            } else {
                let answer = match sample.tag.number {
                    0 => None,
                    number => self.events.of(sample.cpu, number),
                };
                let causer = causer(sample, answer);
                let cause = self.number(causer, runner, now_ns);
                let flow = flow(sample, answer).map(|flow| (cause, flow));
                self.flows
                    .add((sample.cpu, sample.event), flow, sample.weight);
                (cause, causer.found())
            };
            if let Some(of_sample) = self.causes.get_mut(place) {
                *of_sample = Some(cause);
            }
            if let Some(program) = sample.program
                && cause != UNKNOWN
            {
                let place = (program, sample.event, sample.cpu, cause);
                *self.programs.entry(place).or_default() += sample.weight;
            }
            let payer = if interrupts(sample.event) {
                runner
            } else {
                cause
            };
            if !long.is_empty()
                && matches!(found, Evidence::Socket | Evidence::Interface)
                && let Some(place) = place_of(long, sample.cpu, sample.tag.time_ns)
            {
                self.long_causes[place].add(cause);
            }
            self.division.add(Attributed {
                cpu: sample.cpu,
                event: sample.event,
                leaf: leaf_of(sample.event, sample.part),
                pair: Pair { cause, payer },
                found,
                is_of_window: sample.is_of_window,
                weight: sample.weight,
            });
        }
    }

    /// Adds the time of RX softirqs that was charged to packets.
    fn add_charges(&mut self, overhead: &Overhead, cpus: &[u32], now_ns: u64) {
        let Some(event) = index_of_source(Source::NET_RX) else {
            return;
        };
        for Charge { cpu, ns, tag } in self.events.charges(cpus) {
            // Before all probes were attached, packets were missed.
            if !overhead.was_attached(&self.group, tag.time_ns) {
                continue;
            }
            let payer = self.runner(&tag);
            let causer = owner(&tag.last).unwrap_or(Causer::Nobody);
            let cause = self.number(causer, payer, now_ns);
            let flow = tag.last.flow.map(|flow| (cause, flow));
            self.flows.add_charge((cpu, event), flow, ns);
            let pair = Pair { cause, payer };
            self.division.add_charge(cpu, pair, causer.found(), ns);
        }
    }

    /// The number of who work was for; `runner` is the running task's.
    fn number(&mut self, causer: Causer, runner: u32, now_ns: u64) -> u32 {
        match causer {
            Causer::Task => runner,
            Causer::Socket(socket) => self.holder(socket, now_ns),
            Causer::Interface(who) => self.register.number(who),
            Causer::Nobody => NOBODY,
            Causer::Unknown => UNKNOWN,
        }
    }

    /// Cause and payer of each of these softirqs: of most of its samples that tell, or else of the
    /// packet that it met last.
    fn name_long(
        &mut self,
        overhead: &Overhead,
        long: &[LongSoftirq],
        now_ns: u64,
    ) -> Vec<[Owner; 2]> {
        let mut named = Vec::with_capacity(long.len());
        for (place, softirq) in long.iter().enumerate() {
            let runner = self.runner(&softirq.tag);
            let sampled = self.long_causes.get(place).and_then(Tally::most);
            let cause = sampled.unwrap_or_else(|| {
                let causer = if overhead.was_attached(&self.group, softirq.began_ns()) {
                    owner(&softirq.tag.last).unwrap_or(Causer::Nobody)
                } else {
                    Causer::Unknown
                };
                self.number(causer, runner, now_ns)
            });
            named.push([cause, runner].map(|who| {
                let who = self.register.who(who);
                self.resolver.owner(who, &self.register, now_ns)
            }));
        }
        named
    }

    fn runner(&mut self, task: &SampleTag) -> u32 {
        let who = who_runs(task, self.level);
        match who {
            OwnerId::Process { .. } => {
                let known = Process {
                    cgroup: task.cgroup,
                    comm: task.comm,
                };
                self.register.process(process(task), known)
            }
            _ => self.register.number(who),
        }
    }

    /// The owner of a socket: the process that holds it, or the group in which it was created.
    fn holder(&mut self, socket: analysis::verdict::Socket, now_ns: u64) -> u32 {
        if self.level == OwnerLevel::Process
            && let Some(holder) = self.resolver.holder(socket, now_ns)
        {
            let mut comm = [0; 16];
            let name = holder.comm.iter().take(comm.len());
            comm.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
            let who = OwnerId::Process {
                pid: holder.pid,
                started_cs: holder.started_ns / 10_000_000,
            };
            let known = Process {
                cgroup: socket.cgroup,
                comm,
            };
            return self.register.process(who, known);
        }
        match (&self.resolver.cgroups, socket.cgroup) {
            (Ok(_), 1..) => self.register.number(OwnerId::Cgroup(socket.cgroup)),
            _ => NOBODY,
        }
    }

    /// Whose packets BPF programs ran for.
    fn program_causes(&mut self, now_ns: u64) -> Vec<ProgramCause> {
        let (register, resolver) = (&self.register, &mut self.resolver);
        let counted = self.programs.drain();
        let cause = counted.map(|((program, event, cpu, cause), weight)| ProgramCause {
            program,
            event,
            cpu,
            owner: resolver.owner(register.who(cause), register, now_ns),
            weight,
            sample_ms: self.division.sample_ms(event, cpu),
        });
        cause.collect()
    }

    /// The section, from the divided time, and the softirqs of those CPUs that are watched.
    fn section(
        &mut self,
        cpus: &[u32],
        watched: &[u32],
        flows: &[OwnedTime],
        now_ns: u64,
    ) -> (Owners, Vec<TakenThere>) {
        for portion in &self.portions {
            self.ranking.add(portion.pair.cause, portion.ns);
            if portion.pair.payer != portion.pair.cause {
                self.ranking.add(portion.pair.payer, portion.ns);
            }
        }
        let register = &self.register;
        let has_a_name = |who| register.who(who).has_a_name();
        let shown = self.ranking.shown(has_a_name);
        let mut owners = Owners::default();
        let mut places: FxHashMap<u32, u32> = FxHashMap::default();
        let mut rows: FxHashMap<(u32, u32), usize> = FxHashMap::default();
        let mut pairs: FxHashMap<(u32, u32), u64> = FxHashMap::default();
        let mut there: FxHashMap<(u32, usize, u32, u32), u64> = FxHashMap::default();
        for portion in &self.portions {
            let [cause, payer] = [portion.pair.cause, portion.pair.payer].map(|who| {
                *places.entry(who).or_insert_with(|| {
                    let is_shown = !has_a_name(who) || shown.get(who as usize) == Some(&true);
                    let owner = if is_shown {
                        self.resolver.owner(register.who(who), register, now_ns)
                    } else {
                        Owner::single(OwnerKind::Other)
                    };
                    owners.place_of(&owner)
                })
            });
            let row = *rows.entry((cause, portion.leaf as u32)).or_insert_with(|| {
                owners.caused.push(Caused {
                    owner: cause,
                    component: portion.leaf as u32,
                    cpu_ns: vec![0; cpus.len()],
                });
                owners.caused.len() - 1
            });
            owners.caused[row].cpu_ns[portion.column] += portion.ns;
            if takes(portion.leaf) {
                *pairs.entry((cause, payer)).or_default() += portion.ns;
                let cpu = cpus[portion.column];
                if watched.binary_search(&cpu).is_ok() {
                    let place = (cpu, event_of(portion.leaf), cause, payer);
                    *there.entry(place).or_default() += portion.ns;
                }
            }
        }
        let shown_at = |cause: u32| {
            let is_shown = !has_a_name(cause) || shown.get(cause as usize) == Some(&true);
            places.get(&cause).copied().filter(|_| is_shown)
        };
        flows::show(flows, &mut owners, shown_at);
        let samples = self.division.samples(|who| places.get(&who).copied());
        owners.samples = Some(samples);
        let taken = pairs.into_iter();
        owners.taken = taken
            .map(|((cause, payer), ns)| Interruption { cause, payer, ns })
            .collect();
        owners
            .taken
            .sort_unstable_by_key(|taken| (taken.cause, taken.payer));
        owners.irq_pressure_ns = owners
            .owners
            .iter()
            .map(|owner| self.resolver.irq_pressure_ns(owner))
            .collect();
        self.resolver.forget_pressure(&owners.owners);
        let owner = |place: u32| owners.owners[place as usize].clone();
        let there = there.into_iter();
        let there = there.map(|((cpu, event, cause, payer), ns)| TakenThere {
            cpu,
            event,
            cause: owner(cause),
            payer: owner(payer),
            ns,
        });
        let there = there.collect();
        (owners, there)
    }

    /// Forgets the owners with the least cost if there are too many.
    fn forget(&mut self) {
        let ranking = &self.ranking;
        if let Some(moved) = self.register.forget(|who| ranking.of_late_ns(who)) {
            let renamed = |who: u32| moved.get(who as usize).copied().unwrap_or(OTHER);
            self.division.rename(renamed);
            self.flows.rename(renamed);
            self.ranking.rename(self.register.len(), renamed);
        }
    }
}

impl Instrument for WhoseCost {
    fn collect(&mut self, tick: &mut Tick<'_>, sections: &mut Sections) -> anyhow::Result<()> {
        let (now_ns, cpus) = (tick.now_ns, tick.cpus);
        let platform = &mut *tick.platform;
        for (id, path) in self.events.new_groups() {
            self.resolver.learn(id, &path);
        }
        self.resolver.take_answers(now_ns);
        let runs = self.events.runs(cpus);
        platform.overhead.count(&self.group, runs);
        self.division
            .begin(tick.interval_ns, platform.readers.possible_cpus);
        self.ranking.begin(tick.interval_ns);
        self.flows.begin(tick.interval_ns);
        self.programs.clear();
        let timed = platform.overhead.timed();
        let spared = [OwnerId::Idle, OwnerId::Kernel].map(|who| self.register.number(who));
        self.division
            .set_estimate(!timed.has(Group::Softirqs), spared);
        self.add_charges(&platform.overhead, cpus, now_ns);
        let long = &platform.long_softirqs;
        self.causes.clear();
        if platform.profile.is_some() {
            self.causes.resize(tick.samples.len(), None);
        }
        self.add_samples(&platform.overhead, long, tick.samples, now_ns);
        platform.long_parties = self.name_long(&platform.overhead, long, now_ns);
        if let Some(profile) = &mut platform.profile {
            let (causes, register, resolver) = (&self.causes, &self.register, &mut self.resolver);
            profile.set_causes(
                |place| causes.get(place).copied().flatten(),
                |who| resolver.owner(register.who(who), register, now_ns).label(),
            );
        }
        let Some(cost) = &sections.cost else {
            return Ok(());
        };
        self.portions.clear();
        let portions = &mut self.portions;
        let basis = self
            .division
            .divide(cost, cpus, |portion| portions.push(portion));
        if platform.programs.is_some() {
            platform.program_causes = Some(self.program_causes(now_ns));
        }
        let mut flows = Vec::new();
        if platform.readers.records.tell_ends() {
            let sample_ms = |event, cpu| self.division.sample_ms(event, cpu);
            flows = self.flows.divide(cost, cpus, sample_ms);
            platform.flow_times = Some(flows.iter().map(|flow| flow.time).collect());
        }
        let (owners, taken_there) = self.section(cpus, &platform.watched_cpus, &flows, now_ns);
        platform.taken_there = taken_there;
        sections.owners = Some(Owners { basis, ..owners });
        self.forget();
        if self.level == OwnerLevel::Process {
            let refused = self.resolver.refused().map(str::to_owned);
            let note = refused
                .map(|reason| format!("The processes of some sockets are unknown: {reason}."));
            platform.tell("processes", note);
        }
        Ok(())
    }
}

/// Constants shared by the programs and this crate; see `build.rs`.
#[allow(dead_code, reason = "some words are the programs' own")]
pub(crate) mod abi {
    include!(concat!(env!("OUT_DIR"), "/abi.rs"));
}

netto_sys::skeleton!(owners_skel, "/owners.skel.rs");
