//! Keeps netto's own cost within the user's limit: measures it for each CPU, lets
//! `netto_analysis::planner` decide, and carries out its orders.

use std::time::Duration;

use metrics_common::{CostliestCpu, Source};

pub use self::counting::{Counting, Held};
use self::groups::{Groups, Registered};
pub use self::groups::{ProbeGroup, RegisteredGroup};
pub use self::taken::Taken;
use super::process::Process;
use netto_analysis::budget::GroupCosts;
use netto_analysis::groups::{GROUPS, Group, GroupSet};
use netto_analysis::kernel_counts::{SoftirqCounts, VECTORS};
use netto_analysis::plan::Plan;
pub use netto_analysis::planner::Limit;
use netto_analysis::planner::{ClockGroups, CpuFindings, Findings, Orders, Planner};
use netto_analysis::prices::{Events, Habits, Prices};
use netto_analysis::rates::{NOTHING, Rate};
use netto_analysis::window::Window;
use netto_estimate::bias::Bias;
use netto_sys::cpu_time::Reading;
use netto_sys::reopenable::ReopenableFile;
use netto_sys::session::{Probe, ProbeController, Readers, WindowSampling};
use netto_sys::system::{self, Roots};
use netto_sys::tick::TickSampler;

mod counting;
mod groups;
mod taken;

/// Interval of price measurements; a changed load brings the next one forward.
const CALIBRATE_NS: u64 = 60_000_000_000;
const CALIBRATE_SOON_NS: u64 = 5_000_000_000;
/// The part of the price of timing a softirq that lies between its two readings of the clock, as a
/// ratio: some 90 of 270 ns, by what softirqs of one packet seemed to take longer (2026-11-26).
const WITHIN_SOFTIRQ: f64 = 0.33;
/// Ratio of the probes' cost to that at the last price measurement which counts as another load.
const ANOTHER_LOAD: f64 = 2.0;
/// How often programs are attached or detached for a window of softirqs: at their entry and exit, and at what may come
/// between; a guess until one has been opened.
const SOFTIRQ_CHANGES: u32 = 6;
/// How long after a sample its probes must be attached to find what it met, nanoseconds.
const SOON_NS: u64 = 1_000_000;
/// A CPU has events more often than in the last interval by this ratio, and by what costs this part of
/// the budget: its load is no longer steady.
const UNSTEADY: (f64, f64) = (1.5, 0.1);

/// Findings of features in an interval that netto's cost depends on, by column.
#[derive(Debug, Clone)]
pub struct IntervalFindings<'a> {
    /// Length of the interval, nanoseconds.
    pub interval_ns: u64,
    /// Its CPUs.
    pub cpus: &'a [u32],
    /// CPU time of networking, nanoseconds.
    pub network_ns: Option<&'a [u64]>,
    /// CPU time of timed sources, nanoseconds.
    pub sources_ns: Vec<(Source, &'a [u64])>,
    /// Busy share of each CPU's time.
    pub busy_ratio: Option<&'a [f64]>,
    /// Packets that all CPUs have received.
    pub packets: Option<u64>,
}

impl IntervalFindings<'_> {
    /// CPU time of a source, by column, if it was timed.
    fn source_ns(&self, wanted: Source) -> Option<&[u64]> {
        let mut rows = self.sources_ns.iter();
        rows.find(|(source, _)| *source == wanted)
            .map(|(_, row)| *row)
    }

    /// Ticks of the CPU in this column that took a stack: they come only while it is busy.
    fn sampled_ticks(&self, column: usize, readers: &Readers) -> f64 {
        let busy = self.busy_ratio.map_or(1.0, |ratios| ratios[column]);
        readers.ticks_hz(self.cpus[column]) as f64 * busy * self.interval_ns as f64 / 1e9
    }
}

/// See the head of this file.
#[derive(Debug)]
pub struct Overhead {
    /// Length of the interval that ends, nanoseconds.
    interval_ns: u64,
    planner: Planner,
    prices: Prices,
    habits: Habits,
    window: Window,
    /// The bias of samples of softirqs.
    pub bias: Bias,
    /// Windows in which softirqs are timed while they are sampled otherwise: they tell the mean length
    /// of softirqs, and that bias.
    softirqs: SoftirqWindows,
    /// The existing groups: the plan's, and those registered by features.
    planned: GroupSet,
    groups: Groups,
    /// Whether the budget may detach groups.
    may_detach: bool,
    /// Groups that were attached for all of the interval.
    timed: GroupSet,
    /// Groups that were last asked to be attached.
    ordered: GroupSet,
    /// Groups of which others took a program away in the interval, and those that are not attached for
    /// all of it because of that.
    displaced: GroupSet,
    absent: GroupSet,
    controller: ProbeController,
    kernel: KernelCounts,
    /// Each CPU's clock at the end of the last interval.
    previous: Vec<Reading>,
    /// Each CPU's events in it that cost netto something, per second.
    events_hz: Vec<f64>,
    /// Each CPU's timers that had called the tick's sampler at the end of the last interval, and those of the
    /// interval, by column.
    timers: (Vec<u64>, Vec<u64>),
    /// CPUs on which a look has found networking that only samples show.
    seen: Vec<bool>,
    /// Earliest time of the next price measurement, and the probes' cost at the last, as a ratio.
    calibrated: (u64, f64),
    process: Process,
    /// What an interrupt of perf's clock takes, if that is known.
    timer_ns: Option<u64>,
    /// Whether samples have lately been noticeably fewer than the asked precision needs.
    are_samples_too_few: bool,
    /// Whether the user has been told that methods alternate.
    is_told: bool,
}

/// Windows of the interval in which softirqs were timed.
#[derive(Debug, Default)]
struct SoftirqWindows {
    /// Number and length of those that ended.
    ended: u32,
    ended_ns: u64,
    /// Softirqs of each CPU that were timed, by column.
    timed: Vec<u64>,
}

/// Events counted by the kernel, read only while no probe counts them.
#[derive(Debug)]
struct KernelCounts {
    file: Option<ReopenableFile>,
    baseline: Option<SoftirqCounts>,
    now: Option<SoftirqCounts>,
    switches: Option<u64>,
    switches_since: Option<u64>,
}

impl KernelCounts {
    /// Softirqs up to now.
    fn read(&self) -> Option<SoftirqCounts> {
        let text = self.file.as_ref()?.text().ok()?;
        Some(SoftirqCounts::parse(&text))
    }
}

impl Overhead {
    /// Starts with all groups of the plan attached. Groups can be detached if samples can replace
    /// them.
    pub(super) fn new(
        planner: impl FnOnce(ClockGroups, u64) -> Planner,
        plan: &Plan,
        may_detach: bool,
        roots: &Roots,
        readers: &Readers,
    ) -> Self {
        let planned = plan.groups();
        // Softirqs that are preempted need context switches too.
        let choosable = match (may_detach, plan.is_realtime) {
            (false, _) => GroupSet::NONE,
            (true, true) => planned.minus(GroupSet::NONE.with(Group::Switches)),
            (true, false) => planned,
        };
        let mut prices = Prices::default();
        if let Ok(cost) = &readers.timer_cost {
            prices.timer_ns = cost.interrupt_ns as f64;
        }
        let timer_ns = readers.timer_cost.as_ref().ok();
        let timer_ns = timer_ns.map(|cost| cost.interrupt_ns);
        let groups = ClockGroups { planned, choosable };
        let mut planner = planner(groups, system::monotonic_ns());
        planner.learn_window(Group::Softirqs, 0, SOFTIRQ_CHANGES, timer_ns);
        Overhead {
            interval_ns: 0,
            planner,
            prices,
            habits: Habits::default(),
            window: Window::default(),
            bias: Bias::default(),
            softirqs: SoftirqWindows::default(),
            planned,
            groups: Groups::default(),
            may_detach,
            timed: planned,
            ordered: planned,
            displaced: GroupSet::NONE,
            absent: GroupSet::NONE,
            controller: readers.controller.clone(),
            kernel: KernelCounts {
                file: roots.softirqs().ok(),
                baseline: None,
                now: None,
                switches: None,
                switches_since: None,
            },
            previous: Vec::new(),
            events_hz: Vec::new(),
            timers: Default::default(),
            seen: Vec::new(),
            calibrated: (0, 0.0),
            process: Process::now(),
            timer_ns,
            are_samples_too_few: false,
            is_told: false,
        }
    }

    /// Groups that are attached for all of the next interval.
    pub fn timed(&self) -> GroupSet {
        self.timed
    }

    /// For how long softirqs were timed in an interval of this length.
    pub fn softirqs_timed_ns(&self, interval_ns: u64) -> u64 {
        if self.timed.has(Group::Softirqs) {
            interval_ns
        } else {
            self.softirqs.ended_ns.min(interval_ns)
        }
    }

    /// Opens the accounting of an interval that has just ended, with the host's context switches
    /// since boot.
    pub(super) fn begin(&mut self, switches: Option<u64>, interval_ns: u64, now_ns: u64) {
        self.interval_ns = interval_ns;
        self.bias.begin_interval(now_ns);
        let baseline = self.kernel.baseline.as_ref();
        self.kernel.now = baseline.and_then(|_| self.kernel.read());
        self.kernel.switches_since = match (switches, self.kernel.switches) {
            (Some(now), Some(before)) => Some(now.saturating_sub(before)),
            _ => None,
        };
        self.kernel.switches = switches;
        self.displaced = self.controller.take_displaced();
        self.groups.follow_displaced(self.displaced, now_ns);
        let lost = self.ordered.intersection(self.displaced);
        if !lost.is_empty() {
            // What they did not see is nobody's otherwise. They are attached anew with the next order.
            self.timed = self.timed.minus(lost);
            self.ordered = self.ordered.minus(lost);
            self.controller.attach(self.ordered);
        }
        (self.softirqs.ended, self.softirqs.ended_ns) = (0, 0);
        for member in self.groups.iter_mut() {
            member.read_clock(self.controller.attached_ns(member.group, now_ns));
        }
        for window in self.controller.take_windows() {
            let (thread_ns, changes) = (window.switch_ns, window.changes);
            self.planner
                .learn_window(window.group, thread_ns, changes, self.timer_ns);
            if window.group == Group::Softirqs {
                self.softirqs.ended += 1;
                self.softirqs.ended_ns += window.until_ns.saturating_sub(window.from_ns);
            }
            if let Some(member) = self.groups.of_mut(window.group) {
                member.end_window(window);
            }
        }
    }

    /// Softirqs of this CPU in the interval by vector, as counted by the kernel; `None` while
    /// probes count them.
    pub fn softirqs(&self, cpu: usize) -> Option<[u64; VECTORS]> {
        let (now, before) = (self.kernel.now.as_ref()?, self.kernel.baseline.as_ref()?);
        Some(now.since(before, cpu))
    }

    /// By how much a softirq is longer while it is timed, nanoseconds.
    pub fn added_to_softirq_ns(&self) -> u64 {
        (WITHIN_SOFTIRQ * self.prices.event_ns[Group::Softirqs.index()]) as u64
    }

    /// Records that a look has found networking, or a thread that spins, on this CPU.
    pub fn has_seen_network(&mut self, cpu: usize) {
        if self.seen.len() <= cpu {
            self.seen.resize(cpu + 1, false);
        }
        self.seen[cpu] = true;
    }

    /// Limit of netto's share of any CPU's time.
    pub fn max_ratio(&self) -> f64 {
        self.planner.max_ratio()
    }

    /// Takes over a feature's attached probes. Whatever they declare, they stay if the user has
    /// requested a method or no samples can replace them.
    ///
    /// # Errors
    /// If there are too many groups.
    pub fn register(
        &mut self,
        declared: ProbeGroup,
        probes: Vec<Probe>,
    ) -> anyhow::Result<RegisteredGroup> {
        self.prune();
        let now_ns = system::monotonic_ns();
        let attached_ns = |group| self.controller.attached_ns(group, now_ns);
        let registered = self.groups.add(declared, attached_ns)?;
        let group = registered.group;
        self.prices.event_ns[group.index()] = declared.event_ns;
        self.planner.add(group, declared.limit, self.may_detach);
        // A first guess of what windows cost: without it the first two would come as if they were free.
        let changes = u32::try_from(2 * probes.len()).unwrap_or(u32::MAX);
        self.planner.learn_window(group, 0, changes, self.timer_ns);
        self.planned = self.planned.with(group);
        self.timed = self.timed.with(group);
        self.ordered = self.ordered.with(group);
        self.controller.add(group, probes);
        Ok(registered)
    }

    /// Removes groups whose feature has dropped them.
    fn prune(&mut self) {
        for group in self.groups.prune() {
            self.planner.remove(group);
            let gone = GroupSet::NONE.with(group);
            self.planned = self.planned.minus(gone);
            self.timed = self.timed.minus(gone);
            self.ordered = self.ordered.minus(gone);
            self.controller.remove(group);
        }
    }

    /// Sets a group's number of events on each CPU of the interval; returns for how much of it they
    /// were counted.
    pub fn count(&mut self, group: &RegisteredGroup, events: Vec<u64>) -> Counting {
        let (interval_ns, is_whole) = (self.interval_ns, self.is_counting(group));
        let Some(member) = self.groups.of_mut(group.group) else {
            return Counting::Whole;
        };
        let counting = if is_whole {
            member.counts.whole(&events, interval_ns);
            Counting::Whole
        } else {
            let counted_ns = member.attached_ns.min(interval_ns);
            let estimate = member.counts.part(&events, counted_ns, interval_ns);
            Counting::part(estimate, interval_ns)
        };
        member.counted = Some(events);
        counting
    }

    /// Whether a group was attached for all of the interval.
    pub fn is_counting(&self, group: &RegisteredGroup) -> bool {
        self.timed.has(group.group)
    }

    /// Whether a group was attached at this time of the interval, CLOCK_MONOTONIC, and for a
    /// millisecond after it.
    pub fn was_attached(&self, group: &RegisteredGroup, time_ns: u64) -> bool {
        let member = self.groups.of(group.group);
        let in_window = |member: &Registered| member.was_attached(time_ns, time_ns + SOON_NS);
        self.is_counting(group) || member.is_some_and(in_window)
    }

    /// Begins the accounting of netto's own process: what it has taken so far is no interval's.
    pub(super) fn begin_process(&mut self) {
        self.process = Process::now();
    }

    /// Logs a change of methods: the first for everybody, with what ends such changes.
    pub(super) fn say(&mut self, change: &str) {
        if std::mem::replace(&mut self.is_told, true) {
            tracing::debug!("{change}");
        } else {
            tracing::info!(
                "{change} Methods alternate with the load, within --max-overhead; a larger one ends \
                 that. Further changes are logged at debug level."
            );
        }
    }

    /// Notes about groups, by topic; `None` withdraws a note.
    pub(super) fn notes(&mut self) -> Vec<(&'static str, Option<&'static str>)> {
        self.groups.notes()
    }

    /// A note about samples that are fewer than the asked precision needs.
    pub(super) fn precision_note(&self) -> Option<String> {
        self.are_samples_too_few.then(|| {
            "Stacks are sampled less often than --precision asks for: more would cost more than --max-overhead \
             allows. The interval of each part says how well it is known."
                .to_owned()
        })
    }

    /// A note about groups whose programs others take away.
    pub(super) fn displaced(&self) -> Option<String> {
        self.groups.displaced()
    }

    /// Whether samples of this CPU are only looks, to see whether there is networking.
    pub fn is_looking(&self, cpu: usize) -> bool {
        self.planner.is_looking(cpu)
    }

    /// How many periods the coming interval has, where a change of the load need not end it; else `None`.
    pub(super) fn settled_periods(&self, is_read: bool, readers: &Readers) -> Option<u32> {
        self.planner
            .settled_periods(is_read, self.timed, &self.prices, highest_rate(readers))
    }

    /// Begins to look for loads that begin.
    pub(super) fn arm_alarms(&self, readers: &Readers) {
        if let (Some(alarm), true) = (&readers.alarm, self.may_detach) {
            for cpu in 0..readers.possible_cpus {
                let quiet = self.planner.alarm(0.0, &self.prices);
                alarm.arm(cpu, Some(quiet));
            }
        }
    }

    /// Whether a load has begun that is to end the interval.
    pub(super) fn has_load_begun(&self, readers: &Readers) -> bool {
        let Some(alarm) = &readers.alarm else {
            return false;
        };
        alarm.take();
        let begun = begun_loads(readers);
        let ends_interval =
            |(_, softirqs_hz): &(u32, f64)| self.planner.ends_interval(*softirqs_hz, &self.prices);
        let ends = begun.iter().any(ends_interval);
        if ends {
            tracing::debug!("a load has begun, and the interval ends: {begun:?} softirqs a second");
        } else {
            for (cpu, softirqs_hz) in begun {
                let of_cpu = self.planner.alarm(softirqs_hz, &self.prices);
                alarm.arm(cpu as usize, Some(of_cpu));
            }
        }
        ends
    }

    /// How many periods the interval under way has.
    pub(super) fn periods(&self, is_read: bool, interval_ns: u64, readers: &Readers) -> u32 {
        if !is_read && self.is_quiet(interval_ns, readers) {
            return u32::MAX;
        }
        let most = self.planner.most_periods(is_read, highest_rate(readers));
        if most > 1 && self.is_steady(interval_ns, readers) {
            most
        } else {
            1
        }
    }

    /// Whether no CPU has noticeably more events than in the last interval.
    fn is_steady(&self, interval_ns: u64, readers: &Readers) -> bool {
        let baseline = self.kernel.baseline.as_ref();
        let kernel = baseline.and_then(|before| Some((self.kernel.read()?, before)));
        let (ratio, part) = UNSTEADY;
        let event_ns = self.prices.of_event_ns(Group::Softirqs).max(1.0);
        let little_hz = part * self.max_ratio() * 1e9 / event_ns;
        let mut cpus = self.previous.iter().zip(&self.events_hz).enumerate();
        cpus.all(|(cpu, (before, before_hz))| {
            let now = readers.clocks.read(cpu).unwrap_or(*before);
            let counts = kernel.as_ref();
            let counts = counts.map(|(now, before)| now.since(before, cpu));
            let hz = events_hz(before, &now, counts, interval_ns);
            hz <= ratio * before_hz + little_hz
        })
    }

    /// Whether no CPU had networking for some time, up to now: then none is sampled, and the clocks
    /// alone show it.
    fn is_quiet(&self, interval_ns: u64, readers: &Readers) -> bool {
        let most_ns = (NOTHING * interval_ns as f64) as u64;
        let is_idle = |(cpu, before): (usize, &Reading)| {
            let now = readers.clocks.read(cpu);
            now.is_none_or(|now| now.network_ns().saturating_sub(before.network_ns()) <= most_ns)
        };
        self.planner.is_quiet()
            && self.timed.has(Group::Softirqs)
            && self.previous.iter().enumerate().all(is_idle)
    }

    /// Ends an interval: computes its cost and the limits of the next.
    pub(super) fn finish_interval(
        &mut self,
        findings: &IntervalFindings<'_>,
        now_ns: u64,
        readers: &mut Readers,
    ) -> Taken {
        self.prune();
        let costs = self.costs(findings, readers);
        self.count_timers(findings.cpus, readers);
        let taken = self.taken(findings, &costs, readers);
        let columns = || findings.cpus.iter().enumerate();
        let paid = columns().map(|(column, &cpu)| (cpu as usize, taken.of(column)));
        self.window.add(findings.interval_ns, paid);
        let held_back = self.groups.held_back(now_ns);
        let orders = self.plan(findings, &costs, &taken, now_ns, held_back, readers);
        let sampling_hz = self.carry_out(orders, findings, held_back, readers);
        self.calibrate(findings, &costs, now_ns, readers);
        let costliest = self.window.costliest().map(|(cpu, ratio)| CostliestCpu {
            cpu: cpu as u32,
            ratio,
        });
        let sample_price = sampling_hz.as_ref();
        Taken {
            sample_price: sample_price.map(|_| self.planner.sample_price(&self.prices)),
            sampling_hz,
            costliest,
            ..taken
        }
    }

    /// The cost of each group on each CPU, or the cost it would have if attached.
    fn costs(&mut self, findings: &IntervalFindings<'_>, readers: &Readers) -> Vec<GroupCosts> {
        self.previous
            .resize(readers.possible_cpus, Reading::default());
        self.events_hz.resize(readers.possible_cpus, 0.0);
        let mut costs = Vec::with_capacity(findings.cpus.len());
        self.softirqs.timed.clear();
        self.learn_in_windows(findings);
        for (column, &cpu) in findings.cpus.iter().enumerate() {
            let cpu = cpu as usize;
            let before = self.previous.get(cpu).copied().unwrap_or_default();
            let now = readers.clocks.read(cpu).unwrap_or(before);
            let counted = self.counted(column, cpu, &before, &now);
            let counts = self.softirqs(cpu);
            self.softirqs.timed.push(timed_softirqs(&before, &now));
            if let Some(hz) = self.events_hz.get_mut(cpu) {
                *hz = events_hz(&before, &now, counts, self.interval_ns);
            }
            if let Some(previous) = self.previous.get_mut(cpu) {
                *previous = now;
            }
            let time_ns = self.time_ns(findings, column);
            self.habits.learn(cpu, &counted, &time_ns, self.timed);
            let mut of_cpu = [0; GROUPS];
            for group in self.planned.iter() {
                let number = group.index();
                let switches = self.kernel.switches_since;
                let guess = || self.habits.guess(cpu, group, time_ns[number], switches);
                let events = counted[number].unwrap_or_else(guess);
                of_cpu[number] = (events as f64 * self.prices.of_event_ns(group)) as u64;
            }
            costs.push(of_cpu);
        }
        costs
    }

    /// Counts timers that have called the tick's sampler.
    fn count_timers(&mut self, cpus: &[u32], readers: &Readers) {
        let (before, grown) = &mut self.timers;
        before.resize(readers.possible_cpus, 0);
        grown.clear();
        grown.extend(cpus.iter().map(|&cpu| {
            let now = readers.timers(cpu);
            let before = before.get_mut(cpu as usize);
            before.map_or(0, |before| {
                now.saturating_sub(std::mem::replace(before, now))
            })
        }));
    }

    /// Learns what the tick's sampler takes at timers that it does not sample.
    fn learn_timers(&mut self, findings: &IntervalFindings<'_>, readers: &mut Readers) {
        let Some(run_ns) = readers.tick.as_mut().and_then(TickSampler::run_ns) else {
            return;
        };
        let columns = 0..findings.cpus.len();
        let sampled: f64 = columns
            .map(|column| findings.sampled_ticks(column, readers))
            .sum();
        let timers: u64 = self.timers.1.iter().sum();
        self.prices
            .learn_timers(run_ns, sampled / timers.max(1) as f64);
    }

    /// What the tick's sampler took at timers on the CPU in this column, nanoseconds.
    fn timers_ns(&self, column: usize) -> f64 {
        let (_, timers) = &self.timers;
        timers.get(column).copied().unwrap_or(0) as f64 * self.prices.other_timer_ns
    }

    /// Learns how many events of a group that is only attached in windows there are for each time in which
    /// they are met.
    fn learn_in_windows(&mut self, findings: &IntervalFindings<'_>) {
        for member in self.groups.iter() {
            let Limit::Budget { met_in } = member.declared.limit else {
                continue;
            };
            let (Some(row), Some(counted)) = (findings.source_ns(met_in), &member.counted) else {
                continue;
            };
            if member.attached_ns > 0 && !self.timed.has(member.group) {
                let part = member.attached_ns as f64 / self.interval_ns.max(1) as f64;
                let time_ns = part.min(1.0) * row.iter().sum::<u64>() as f64;
                let events = counted.iter().sum();
                self.habits.learn_in_windows(member.group, events, time_ns);
            }
        }
    }

    /// For each group, the CPU time from which its events can be estimated.
    fn time_ns(&self, findings: &IntervalFindings<'_>, column: usize) -> [u64; GROUPS] {
        let mut time_ns = [0; GROUPS];
        let met_in = self
            .groups
            .iter()
            .filter_map(|member| match member.declared.limit {
                Limit::Budget { met_in } => Some((member.group, met_in)),
                Limit::Windows { .. } | Limit::Sampling => None,
            });
        for (group, wanted) in Group::CALLS.into_iter().chain(met_in) {
            let row = findings.source_ns(wanted);
            time_ns[group.index()] = row.map_or(0, |row| row[column]);
        }
        time_ns
    }

    /// Counted events of a CPU.
    fn counted(&self, column: usize, cpu: usize, before: &Reading, now: &Reading) -> Events {
        let growth = |kind: u8| {
            let kind = usize::from(kind);
            now.entries[kind].saturating_sub(before.entries[kind])
        };
        let softirqs = match self.softirqs(cpu) {
            Some(counts) => counts.iter().sum(),
            None => timed_softirqs(before, now),
        };
        let timed = self.timed;
        let of = |group: Group, events: u64| timed.has(group).then_some(events);
        let mut events = [None; GROUPS];
        events[Group::Softirqs.index()] = Some(softirqs);
        for (group, source) in Group::CALLS {
            events[group.index()] = of(group, growth(source.clock_kind()));
        }
        let switches = now.switches.saturating_sub(before.switches);
        events[Group::Switches.index()] = of(Group::Switches, switches);
        for member in self.groups.iter() {
            let counted = member.counted.as_ref();
            let counted = counted.and_then(|row| row.get(column)).copied();
            events[member.group.index()] = match member.declared.limit {
                Limit::Budget { .. } => counted.filter(|_| timed.has(member.group)),
                Limit::Windows { .. } if !timed.has(member.group) => {
                    Some(member.counts.of(column, self.interval_ns))
                }
                Limit::Windows { .. } | Limit::Sampling => Some(counted.unwrap_or(0)),
            };
        }
        events
    }

    fn taken(
        &mut self,
        findings: &IntervalFindings<'_>,
        costs: &[GroupCosts],
        readers: &Readers,
    ) -> Taken {
        let columns = findings.cpus.len();
        let mut probes = Vec::new();
        for group in self.planned.iter() {
            let member = self.groups.of(group);
            let is_sampled = |member: &Registered| member.declared.limit == Limit::Sampling;
            let is_paid = self.timed.has(group) || member.is_some_and(is_sampled);
            let event_ns = self.prices.of_event_ns(group);
            let interrupts_ns = self.planner.window_interrupts_ns(group);
            let of_cpu = |(column, costs): (usize, &GroupCosts)| match member {
                _ if is_paid => costs[group.index()],
                Some(member) => member.taken_in_windows_ns(column, event_ns, interrupts_ns),
                None if group == Group::Softirqs => {
                    self.softirqs.taken_ns(column, event_ns, interrupts_ns)
                }
                None => 0,
            };
            let mut row: Vec<u64> = costs.iter().enumerate().map(of_cpu).collect();
            if group == Group::Softirqs {
                probes.push(("interrupts", self.prices.interrupts_part(&mut row)));
            }
            let of_clock = groups::of_clock(group).map(|(name, _)| name);
            let name = of_clock.or(member.map(|member| member.declared.name));
            probes.push((name.unwrap_or_default(), row));
        }
        let sample_ns = self.prices.of_sample_ns();
        let of_cpu = |(column, &cpu): (usize, &u32)| {
            readers.samplers.as_ref()?;
            let seconds = findings.interval_ns as f64 / 1e9;
            let of_windows = self.groups.iter().map(|member| member.window_samples(cpu));
            let perf = readers.perf_hz(cpu) as f64 * seconds + of_windows.sum::<f64>();
            let ticks = findings.sampled_ticks(column, readers);
            let samples_ns = perf * sample_ns + ticks * self.prices.sample_ns;
            Some((samples_ns + self.timers_ns(column)) as u64)
        };
        let sampler = findings.cpus.iter().enumerate().map(of_cpu).collect();
        // The analyzer runs on a known CPU; the process' other threads on any.
        let spent = self.process.go_on();
        let all_ns = spent.user_ns + spent.system_ns;
        let thread_ns = spent.thread_ns;
        self.planner.learn_analysis(findings.interval_ns, thread_ns);
        let others_ns = all_ns.saturating_sub(thread_ns) / columns.max(1) as u64;
        let here = system::current_cpu();
        let daemon = findings.cpus.iter().map(|&cpu| {
            let is_here = Some(cpu) == here;
            others_ns + if is_here { thread_ns.min(all_ns) } else { 0 }
        });
        Taken {
            probes,
            sampler,
            daemon: daemon.collect(),
            process: (spent.user_ns, spent.system_ns),
            sampling_hz: None,
            sample_price: None,
            costliest: None,
        }
    }

    fn plan(
        &mut self,
        findings: &IntervalFindings<'_>,
        costs: &[GroupCosts],
        taken: &Taken,
        now_ns: u64,
        held_back: GroupSet,
        readers: &Readers,
    ) -> Orders {
        for (group, error) in self.controller.take_failures() {
            let label = self.groups.label(group);
            tracing::warn!("{label} cannot be timed again: {error}");
            self.planner.fail(group, now_ns);
        }
        let interval_ns = findings.interval_ns.max(1) as f64;
        let cpus = findings.cpus.iter().enumerate().map(|(column, &cpu)| {
            let seen = self.seen.get_mut(cpu as usize).map(std::mem::take);
            CpuFindings {
                number: cpu,
                network_ratio: findings
                    .network_ns
                    .map(|row| row[column] as f64 / interval_ns),
                has_seen_network: seen.unwrap_or(false),
                busy_ratio: findings.busy_ratio.map(|ratios| ratios[column]),
                daemon_ratio: taken.daemon[column] as f64 / interval_ns,
                timers_ratio: self.timers_ns(column) / interval_ns,
            }
        });
        let cpus: Vec<_> = cpus.collect();
        self.planner.plan(&Findings {
            now_ns,
            interval_ns: findings.interval_ns,
            cpus: &cpus,
            costs,
            prices: &self.prices,
            attached: self.controller.attached().minus(self.displaced),
            held_back,
            has_samples: readers.samplers.is_some(),
            packets: findings.packets,
            begun: &begun_loads(readers),
        })
    }

    /// Attaches and detaches, opens windows and sets sampling rates; returns the rates, if stacks are sampled.
    fn carry_out(
        &mut self,
        orders: Orders,
        findings: &IntervalFindings<'_>,
        held_back: GroupSet,
        readers: &mut Readers,
    ) -> Option<Vec<u64>> {
        self.are_samples_too_few = orders.are_samples_too_few;
        let labels = |groups: GroupSet| {
            let of_clock = groups.iter().filter_map(groups::of_clock);
            let labels: Vec<_> = of_clock.map(|(_, label)| label).collect();
            (!labels.is_empty()).then(|| labels.join(", "))
        };
        if let Some(labels) = labels(orders.detached_for_cost) {
            self.say(&format!(
                "Sampled from now on, because timing them would cost too much: {labels}."
            ));
        }
        if let Some(labels) = labels(orders.attached_again) {
            self.say(&format!("Timed again: {labels}."));
        }
        for order in orders.windows {
            let [after, length] =
                [order.window.after_ns, order.window.length_ns].map(Duration::from_nanos);
            // Perf's clock takes samples of windows: the scheduler's tick cannot come more often.
            let sampling = WindowSampling {
                cpus: order.sampled_cpus,
                hz: order.window.sampling_hz,
            };
            self.controller
                .attach_for_a_window(order.group, after, length, sampling);
        }
        let absent = self.displaced.union(held_back).union(self.absent);
        for member in self.groups.iter_mut() {
            let is_detached = match member.declared.limit {
                Limit::Budget { .. } => !self.timed.union(absent).has(member.group),
                Limit::Windows { .. } => self.planner.is_in_windows(member.group),
                Limit::Sampling => false,
            };
            member.end_interval(is_detached);
        }
        self.attach(orders.attached, absent, held_back);
        if let Some(alarm) = &readers.alarm {
            for (column, &cpu) in findings.cpus.iter().enumerate() {
                let of_cpu = orders.alarms.as_ref().and_then(|alarms| alarms.get(column));
                alarm.arm(cpu as usize, of_cpu.copied());
            }
        }
        if let Some(tick) = &mut readers.tick
            && tick.is_attached() != orders.has_ticks
        {
            let timers = self.timers.1.iter().max().copied().unwrap_or(0);
            tracing::debug!(
                "the scheduler's tick takes stacks: {}; timers of a CPU in the interval: {timers}",
                orders.has_ticks
            );
            if let Err(error) = tick.attach(orders.has_ticks) {
                tracing::warn!("the scheduler's tick takes no stacks: {error:#}");
                self.planner.fail_ticks(system::monotonic_ns());
            }
        }
        readers.samplers.as_ref()?;
        let mut sampling_hz = Vec::with_capacity(orders.rates.len());
        for (&cpu, rate) in findings.cpus.iter().zip(orders.rates) {
            readers.set_rate(cpu, rate);
            sampling_hz.push(rate.hz + rate.ticks_hz);
        }
        Some(sampling_hz)
    }

    /// Attaches these groups and detaches all others. `absent`: those that others had taken away, or that were
    /// held back for it.
    fn attach(&mut self, wanted: GroupSet, absent: GroupSet, held_back: GroupSet) {
        if wanted != self.ordered {
            self.controller.attach(wanted);
            self.ordered = wanted;
        }
        let attached = self.controller.attached().minus(self.displaced);
        self.timed = wanted.intersection(attached);
        let to_come = absent.intersection(wanted.minus(self.timed));
        self.absent = self.displaced.union(held_back).union(to_come);
        let is_counted = self.timed.has(Group::Softirqs) || !self.planned.has(Group::Softirqs);
        self.kernel.baseline = if is_counted {
            None
        } else {
            self.kernel.now.take().or_else(|| self.kernel.read())
        };
    }

    fn calibrate(
        &mut self,
        findings: &IntervalFindings<'_>,
        costs: &[GroupCosts],
        now_ns: u64,
        readers: &mut Readers,
    ) {
        if let Some(mut costs) = self.controller.take_costs() {
            // An event of these is not one run of a program.
            for member in self.groups.iter().filter(|member| member.has_own_limit()) {
                costs.event_ns[member.group.index()] = None;
            }
            self.prices
                .learn(&costs.event_ns, costs.interrupts_ns, costs.sample_ns);
            self.learn_timers(findings, readers);
        }
        let most_ns = costs.iter().map(|costs| costs.iter().sum::<u64>()).max();
        let ratio = most_ns.unwrap_or(0) as f64 / findings.interval_ns.max(1) as f64;
        let (at_ns, then) = self.calibrated;
        let passed_ns = now_ns.saturating_sub(at_ns);
        let is_another = ratio > ANOTHER_LOAD * then && ratio > self.max_ratio() / 10.0;
        let is_due = passed_ns >= CALIBRATE_NS || is_another && passed_ns >= CALIBRATE_SOON_NS;
        if is_due && !self.controller.is_busy() {
            self.controller.calibrate();
            self.calibrated = (now_ns, ratio);
        }
    }
}

impl SoftirqWindows {
    /// What they took of the CPU in this column, nanoseconds, where the interrupts of one take so long.
    fn taken_ns(&self, column: usize, event_ns: f64, interrupts_ns: f64) -> u64 {
        let timed = self.timed.get(column).copied().unwrap_or(0);
        let interrupts_ns = f64::from(self.ended) * interrupts_ns;
        (timed as f64 * event_ns + interrupts_ns) as u64
    }
}

/// Softirqs per second of the CPUs whose alarm has gone off.
fn begun_loads(readers: &Readers) -> Vec<(u32, f64)> {
    let Some(alarm) = &readers.alarm else {
        return Vec::new();
    };
    let cpus = 0..readers.possible_cpus as u32;
    let begun = cpus.filter_map(|cpu| Some((cpu, alarm.softirqs_hz(cpu as usize)?)));
    begun.collect()
}

/// The highest rates in use.
fn highest_rate(readers: &Readers) -> Rate {
    let cpus = 0..readers.possible_cpus as u32;
    let highest = |hz: &dyn Fn(u32) -> u64| cpus.clone().map(hz).max().unwrap_or_default();
    Rate {
        hz: highest(&|cpu| readers.perf_hz(cpu)),
        ticks_hz: highest(&|cpu| readers.ticks_hz(cpu)),
        is_look: false,
    }
}

/// Softirqs that the clock has timed between two readings.
fn timed_softirqs(before: &Reading, now: &Reading) -> u64 {
    let kinds = 1..=VECTORS;
    kinds
        .map(|kind| now.entries[kind].saturating_sub(before.entries[kind]))
        .sum()
}

/// Events of a CPU between two readings that cost netto something, per second: calls, context switches
/// and softirqs, those as the kernel counts them where they are not timed.
fn events_hz(
    before: &Reading,
    now: &Reading,
    counts: Option<[u64; VECTORS]>,
    interval_ns: u64,
) -> f64 {
    let entries = before.entries.iter().zip(&now.entries);
    let entered: u64 = entries.map(|(then, now)| now.saturating_sub(*then)).sum();
    let timed = timed_softirqs(before, now);
    let softirqs = counts.map_or(timed, |counts| counts.iter().sum());
    let switches = now.switches.saturating_sub(before.switches);
    let events = entered.saturating_sub(timed) + switches + softirqs;
    events as f64 * 1e9 / interval_ns.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_calls_switches_and_softirqs_of_all_of_the_interval() {
        let before = Reading::default();
        let mut now = before;
        now.entries[usize::from(Source::NET_RX.clock_kind())] = 300;
        now.entries[usize::from(Source::SocketSend.clock_kind())] = 20;
        now.switches = 5;
        let half_second = 500_000_000;
        assert_eq!(events_hz(&before, &now, None, half_second), 650.0);
        // Windows have timed 300 of 4,000.
        let mut counts = [0; VECTORS];
        counts[3] = 4_000;
        assert_eq!(events_hz(&before, &now, Some(counts), half_second), 8_050.0);
    }
}
