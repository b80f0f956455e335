//! Divides what netto may take of each CPU's time, in this order:
//!
//! 1. the daemon: what it takes is known once it has taken it;
//! 2. the sampler, as many samples as the parts of events need ([`Precision`]), within a part of the budget;
//! 3. probes that are attached all the time, of events that are rare enough ([`Budget`]);
//! 4. windows, in which the others are attached: their parts, or what the first three leave of these;
//! 5. the sampler, with all that is left.
//!
//! What a sample costs is assumed first, and then measured by trials ([`PriceTrials`]). Findings of an interval go in,
//! orders for the next come out. Pure.

use metrics_common::Source;
use metrics_common::sections::{Price, SamplePrice};
use netto_estimate::random::SplitMix64;

use crate::alternation::Alternation;
use crate::analyzer_cost::AnalyzerCost;
use crate::budget::{Budget, GroupCosts};
use crate::groups::{GROUPS, Group, GroupSet};
use crate::precision::Precision;
use crate::price_trials::{PriceTrials, TrialInterval};
use crate::prices::{FeltPrice, InterruptPrice, Prices};
use crate::rates::{CpuInterval, FEWEST_HZ, Rate, Rates};
use crate::sampling_windows::{SamplingWindow, SamplingWindows, WindowLoad};

/// Part of the budget that stays unused: prices are not exact.
const MARGIN: f64 = 0.1;
/// The most of the budget that windows may take, if all else leaves as much: of softirqs, of a group whose samples
/// tell owners, and of one that counts.
const SOFTIRQS_PART: f64 = 0.18;
const SAMPLES_PART: f64 = 0.3;
const COUNTS_PART: f64 = 0.1;
/// What timing the softirqs of a load may take before it is noticed, as a part of the budget of a second, and how many
/// times as many as in the last interval are another load.
const NOTICED_AFTER: f64 = 0.08;
const SUDDEN: f64 = 3.0;
/// An interval that a load ends is judged as if the load had lasted this long, nanoseconds.
const PROJECTED_NS: u64 = 500_000_000;
/// Time constant with which what a group cost at its dearest is forgotten, nanoseconds: a load that pauses for some
/// seconds goes on in windows that are short enough for it.
const RECENT_NS: f64 = 30e9;
/// The most of the budget that the tick's sampler may take at timers that are not ticks: what samples may take before
/// all else. For that perf's clock would take few.
const TIMERS_PART: f64 = 0.4;
/// Samples are fewer than needed where they are less than the first part of it, until they are the second part.
const TOO_FEW: (f64, f64) = (0.7, 0.9);
/// The least share of the host's CPU time that networking takes where that is judged.
const LEAST_NETWORK: f64 = 0.1;
/// The time over which that is judged, nanoseconds.
const JUDGED_NS: f64 = 20e9;
/// The least of these parts that windows may always take: what is never looked at could not be estimated.
const LEAST_OF_PARTS: f64 = 0.25;

/// How the cost of a group is limited.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// The budget of all probes switches it, by the measured cost of its events. While it is detached,
    /// it has windows.
    Budget {
        /// While it is detached, its events are estimated from the time of this source.
        met_in: Source,
    },
    /// Once it took more than this part of the budget of a CPU, it has windows, which stand for the whole.
    Windows {
        /// As a ratio.
        most: f64,
    },
    /// Its feature keeps it low, by taking a part of the events only; its programs stay.
    Sampling,
}

/// The groups that exist from the start.
#[derive(Debug, Clone, Copy)]
pub struct ClockGroups {
    /// All of them; they are attached.
    pub planned: GroupSet,
    /// Those that may be detached, because samples can replace them.
    pub choosable: GroupSet,
}

/// What is known of an interval that ends.
#[derive(Debug, Clone, Copy)]
pub struct Findings<'a> {
    /// Its end, nanoseconds.
    pub now_ns: u64,
    /// Its length, nanoseconds.
    pub interval_ns: u64,
    /// Its CPUs.
    pub cpus: &'a [CpuFindings],
    /// Cost of each group on each of these CPUs, or what it would have been had the group been attached.
    pub costs: &'a [GroupCosts],
    /// What events and samples cost.
    pub prices: &'a Prices,
    /// Groups whose programs are attached now.
    pub attached: GroupSet,
    /// Groups that are not to be attached now, because others take their programs away.
    pub held_back: GroupSet,
    /// Whether stacks are sampled.
    pub has_samples: bool,
    /// Packets that all CPUs have received, if known.
    pub packets: Option<u64>,
    /// Softirqs per second of CPUs on which a load has begun, by number: the interval is mostly older.
    pub begun: &'a [(u32, f64)],
}

/// One CPU in that interval.
#[derive(Debug, Clone, Copy)]
pub struct CpuFindings {
    /// Its number.
    pub number: u32,
    /// Networking, as a share of its time; `None` if unknown.
    pub network_ratio: Option<f64>,
    /// Whether a sample that only looks has found networking, or a thread that spins.
    pub has_seen_network: bool,
    /// Share of its time that it was busy, if known.
    pub busy_ratio: Option<f64>,
    /// What the daemon took, as a share of its time.
    pub daemon_ratio: f64,
    /// What the tick's sampler took at timers that are not ticks, the same.
    pub timers_ratio: f64,
}

/// What is to be done until the next plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Orders {
    /// Groups to attach, if they are not; all others are to be detached.
    pub attached: GroupSet,
    /// Groups that are detached because they would cost too much.
    pub detached_for_cost: GroupSet,
    /// Groups that are attached again because they no longer would.
    pub attached_again: GroupSet,
    /// Windows of groups that are not attached.
    pub windows: Vec<WindowOrder>,
    /// Sampling rates of the CPUs, if stacks are sampled.
    pub rates: Vec<Rate>,
    /// Whether the tick's sampler is to be attached.
    pub has_ticks: bool,
    /// Whether samples have lately been noticeably fewer than the asked precision needs.
    pub are_samples_too_few: bool,
    /// By CPU, the RX softirqs after which a load may have begun, and those over which its rate is then measured;
    /// `None` where a load can cost nothing before the interval ends.
    pub alarms: Option<Vec<[u64; 2]>>,
}

/// A window of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowOrder {
    /// The group.
    pub group: Group,
    /// When, how long, and how often additional samples are taken.
    pub window: SamplingWindow,
    /// CPUs on which they are.
    pub sampled_cpus: Vec<u32>,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Planner {
    max_overhead_ratio: f64,
    precision: Precision,
    budget: Budget,
    rates: Rates,
    /// Whether the tick's sampler is attached: each timer of the kernel calls it.
    ticks: Alternation,
    /// Rates in the interval under way, by column.
    running: Vec<Rate>,
    trials: PriceTrials,
    analyzer_cost: AnalyzerCost,
    /// Whether softirqs can be timed, and their windows while they are not always.
    has_softirqs: bool,
    softirqs: SamplingWindows,
    members: Vec<Member>,
    /// By column: what each group cost, or would have cost, at its dearest lately, as a share of the CPU's time.
    recent_ratios: Vec<[f64; GROUPS]>,
    /// Chooses the beginning of each window.
    random: SplitMix64,
    /// The highest share of its time that a CPU spent on networking in the last interval.
    busiest_ratio: f64,
    /// Whether no CPU had networking in the last interval and for some time before it.
    is_quiet: bool,
    /// Samples of networking in the last seconds, relative to what the asked precision needs.
    samples_of_needed: f64,
    are_samples_too_few: bool,
}

/// A group that a feature has registered.
#[derive(Debug)]
struct Member {
    group: Group,
    limit: Limit,
    windows: SamplingWindows,
    alternation: Alternation,
}

impl Planner {
    /// Begins with all planned groups attached; `seed` is random.
    pub fn new(
        max_overhead_ratio: f64,
        precision: Precision,
        clock: ClockGroups,
        rates: Rates,
        analyzer_cost: AnalyzerCost,
        seed: u64,
    ) -> Self {
        Planner {
            max_overhead_ratio,
            precision,
            budget: Budget::new(max_overhead_ratio, clock.planned, clock.choosable),
            rates,
            ticks: Alternation::default(),
            running: Vec::new(),
            trials: PriceTrials::new(!seed),
            analyzer_cost,
            has_softirqs: clock.planned.has(Group::Softirqs),
            softirqs: SamplingWindows::default(),
            members: Vec::new(),
            recent_ratios: Vec::new(),
            random: SplitMix64(seed),
            busiest_ratio: 1.0,
            is_quiet: false,
            samples_of_needed: 1.0,
            are_samples_too_few: false,
        }
    }

    /// Adds a feature's group, which is attached. `may_detach`: whether samples can replace it.
    pub fn add(&mut self, group: Group, limit: Limit, may_detach: bool) {
        if matches!(limit, Limit::Budget { .. }) {
            self.budget.add(group, may_detach);
        }
        self.members.push(Member {
            group,
            limit,
            windows: SamplingWindows::default(),
            alternation: Alternation::default(),
        });
    }

    /// Removes a feature's group.
    pub fn remove(&mut self, group: Group) {
        self.budget.remove(group);
        self.members.retain(|member| member.group != group);
    }

    /// Records that a group could not be attached.
    pub fn fail(&mut self, group: Group, now_ns: u64) {
        self.budget.fail(group);
        if let Some(member) = self.member_mut(group) {
            member.alternation.fail(now_ns);
        }
    }

    /// Records that the tick's sampler could not be attached.
    pub fn fail_ticks(&mut self, now_ns: u64) {
        self.ticks.fail(now_ns);
    }

    /// Learns what a window took: CPU time of the thread that attached and detached its probes, and how often it
    /// did so.
    pub fn learn_window(
        &mut self,
        group: Group,
        thread_ns: u64,
        changes: u32,
        timer_ns: Option<u64>,
    ) {
        let timer = self.trials.corrected(FeltPrice::of_timer(timer_ns));
        let interrupt = InterruptPrice::of(timer, self.busiest_ratio);
        if let Some(windows) = self.windows_mut(group) {
            windows.learn(thread_ns, changes, interrupt);
        }
    }

    /// Learns the CPU time of the analyzer's thread in an interval, nanoseconds.
    pub fn learn_analysis(&mut self, interval_ns: u64, spent_ns: u64) {
        self.analyzer_cost.learn(interval_ns, spent_ns);
    }

    /// Limit of netto's share of any CPU's time.
    pub fn max_ratio(&self) -> f64 {
        self.max_overhead_ratio
    }

    /// Whether samples of this CPU only look whether there is networking.
    pub fn is_looking(&self, cpu: usize) -> bool {
        self.rates.of(cpu).is_look
    }

    /// Whether no CPU had networking in the last interval and for some time before it.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Whether a group has windows because of its own limit.
    pub fn is_in_windows(&self, group: Group) -> bool {
        let member = self.member(group);
        member.is_some_and(|member| member.alternation.is_in_windows())
    }

    /// What the interrupts of a window of this group take of each CPU, nanoseconds.
    pub fn window_interrupts_ns(&self, group: Group) -> f64 {
        self.windows(group)
            .map_or(0.0, SamplingWindows::interrupts_ns)
    }

    /// How many periods the coming interval has, where a change of the load need not end it: no probe that the
    /// budget of all switches is attached outside of windows, and perf's clock takes no more samples than on a CPU
    /// that does nothing but networking. Else `None`.
    pub fn settled_periods(
        &self,
        is_read: bool,
        timed: GroupSet,
        prices: &Prices,
        running: Rate,
    ) -> Option<u32> {
        let has_own_limit = |group| {
            let member = self.member(group);
            member.is_some_and(|member| matches!(member.limit, Limit::Windows { .. }))
        };
        let sample_ns = self.trials.corrected(prices.felt_sample()).on(1.0);
        let dearest_ratio = running.hz as f64 * sample_ns / 1e9;
        let are_few = running.hz <= FEWEST_HZ || dearest_ratio <= self.max_overhead_ratio;
        let most = self.most_periods(is_read, running);
        (most > 1 && are_few && timed.iter().all(has_own_limit)).then_some(most)
    }

    /// How many periods an interval of a steady load has: if somebody reads it, as few as the analyzer's part of
    /// the budget allows. `running`: the highest rates in use.
    pub fn most_periods(&self, is_read: bool, running: Rate) -> u32 {
        let most = self.rates.most_periods(running.hz + running.ticks_hz);
        if is_read {
            most.min(self.fewest_periods())
        } else {
            most
        }
    }

    fn fewest_periods(&self) -> u32 {
        self.analyzer_cost.fewest_periods(self.max_overhead_ratio)
    }

    /// The RX softirqs after which a load may have begun on a CPU that has had so many a second, and those over which
    /// its rate is then measured.
    pub fn alarm(&self, softirqs_hz: f64, prices: &Prices) -> [u64; 2] {
        let softirq_ns = prices.of_event_ns(Group::Softirqs).max(1.0);
        let half = NOTICED_AFTER * self.max_overhead_ratio * 1e9 / softirq_ns / 2.0;
        let of_a_period = softirqs_hz * PROJECTED_NS as f64 / 1e9;
        let quiet = (SUDDEN * of_a_period).max(half);
        [quiet, half].map(|softirqs| softirqs as u64 + 1)
    }

    fn alarms(&self, findings: &Findings<'_>) -> Vec<[u64; 2]> {
        let softirq_ns = findings.prices.of_event_ns(Group::Softirqs).max(1.0);
        let seconds = findings.interval_ns.max(1) as f64 / 1e9;
        let alarms = findings.costs.iter().map(|costs| {
            let softirqs = costs[Group::Softirqs.index()] as f64 / softirq_ns;
            self.alarm(softirqs / seconds, findings.prices)
        });
        alarms.collect()
    }

    /// Whether softirqs of this rate on a CPU are a load that is to end the interval: timing them would take all of
    /// the budget, of which probes may take half.
    pub fn ends_interval(&self, softirqs_hz: f64, prices: &Prices) -> bool {
        let cost_ratio = softirqs_hz * prices.of_event_ns(Group::Softirqs) / 1e9;
        cost_ratio > self.max_overhead_ratio
    }

    /// Ends an interval.
    pub fn plan(&mut self, findings: &Findings<'_>) -> Orders {
        if findings.begun.is_empty() {
            return self.plan_as_found(findings);
        }
        let (cpus, costs) = findings.as_if_begun();
        self.plan_as_found(&Findings {
            interval_ns: findings.interval_ns.max(PROJECTED_NS),
            cpus: &cpus,
            costs: &costs,
            ..*findings
        })
    }

    fn plan_as_found(&mut self, findings: &Findings<'_>) -> Orders {
        self.end_trial_interval(findings);
        let before = self.budget.attached();
        let affordable = self.budget.decide(findings.interval_ns, findings.costs);
        self.busiest_ratio = findings.busiest_ratio();
        self.follow_costs(findings);
        // Windows of a load that has begun come with its first whole interval: then its costs are known.
        let windows = if findings.begun.is_empty() {
            self.choose_windows(findings, affordable)
        } else {
            let members = self.members.iter_mut().map(|member| &mut member.windows);
            members
                .chain([&mut self.softirqs])
                .for_each(SamplingWindows::end_early);
            Vec::new()
        };
        for member in &mut self.members {
            member.end_interval(findings, self.max_overhead_ratio);
        }
        let attached = affordable.union(self.awake()).minus(findings.held_back);
        let timed = attached.intersection(findings.attached);
        let has_ticks = self.attach_ticks(findings);
        let rates = self.choose_rates(findings, timed);
        let mut cpus = findings.cpus.iter();
        self.is_quiet = cpus.all(|cpu| self.is_looking(cpu.number as usize));
        self.judge_precision(findings, &rates);
        let rates: Vec<_> = rates
            .into_iter()
            .map(|rate| self.trials.rate(rate))
            .collect();
        self.running.clone_from(&rates);
        let can_retreat = attached.has(Group::Softirqs) && self.budget.may_detach(Group::Softirqs);
        Orders {
            alarms: can_retreat.then(|| self.alarms(findings)),
            attached,
            detached_for_cost: before.minus(affordable),
            attached_again: affordable.minus(before),
            windows,
            rates,
            has_ticks,
            are_samples_too_few: self.are_samples_too_few,
        }
    }

    /// Whether the tick's sampler is to be attached. Where timers are many it rests, longer each time, and
    /// perf's clock takes all samples.
    fn attach_ticks(&mut self, findings: &Findings<'_>) -> bool {
        let ratios = findings.cpus.iter().map(|cpu| cpu.timers_ratio);
        let dearest_ratio = ratios.fold(0.0, f64::max);
        let may_cost_ratio = TIMERS_PART * self.max_overhead_ratio;
        if dearest_ratio > may_cost_ratio {
            self.ticks.fail(findings.now_ns);
        } else {
            self.ticks
                .end_interval(dearest_ratio, may_cost_ratio, findings.now_ns);
        }
        let rests = self.ticks.is_in_windows() && !self.ticks.may_open(findings.now_ns);
        self.rates.attach_ticks(!rests);
        self.rates.has_ticks()
    }

    /// What a sample costs by now on a CPU that does nothing but networking.
    pub fn sample_price(&self, prices: &Prices) -> SamplePrice {
        let of = |assumed: FeltPrice| Price {
            ns: self.trials.corrected(assumed).on(1.0),
            half_width_ns: self.trials.factor().half_width * assumed.on(1.0),
        };
        SamplePrice {
            perf: of(prices.felt_sample()),
            tick: self.rates.has_ticks().then(|| of(prices.felt_tick())),
            trials: self.trials.number() as u64,
        }
    }

    /// Tells the trials how the load went beside the samples that were taken. Without a limit there is nothing to
    /// decide, and with a load that has begun, nothing to compare.
    fn end_trial_interval(&mut self, findings: &Findings<'_>) {
        let sampled = findings.cpus.iter().zip(&self.running);
        let (sample, tick) = (findings.prices.felt_sample(), findings.prices.felt_tick());
        let assumed_ns = sampled.map(|(cpu, rate)| {
            let network_ratio = cpu.network_ratio.unwrap_or(1.0);
            // A tick comes only while the CPU is busy.
            let ticks_hz = cpu.busy_ratio.unwrap_or(1.0) * rate.ticks_hz as f64;
            rate.hz as f64 * sample.on(network_ratio) + ticks_hz * tick.on(network_ratio)
        });
        let interval = TrialInterval {
            interval_ns: findings.interval_ns,
            packets: findings.packets,
            network_cpus: findings.network_cpus().unwrap_or_default(),
            busy_cpus: findings.cpus.iter().map(|cpu| cpu.busy_ratio).sum(),
            assumed_cpus: assumed_ns.sum::<f64>() / 1e9,
        };
        let has_limit = self.max_overhead_ratio < 1.0 && findings.has_samples;
        let is_steady = has_limit && findings.begun.is_empty();
        self.trials.end_interval(&interval, is_steady);
    }

    fn choose_windows(
        &mut self,
        findings: &Findings<'_>,
        affordable: GroupSet,
    ) -> Vec<WindowOrder> {
        let scale = self.windows_scale(findings, affordable);
        let mut windows = self.windows_of_members(findings, affordable, scale);
        if self.has_softirqs && !affordable.has(Group::Softirqs) {
            windows.extend(self.window_of_softirqs(findings, scale, &windows));
        }
        windows
    }

    /// Compares these rates with those that the asked precision needs, where networking takes enough of the host's
    /// time to ask.
    fn judge_precision(&mut self, findings: &Findings<'_>, rates: &[Rate]) {
        let network_cpus = findings.network_cpus().unwrap_or_default();
        let cpus = findings.cpus.len();
        let of_needed = if network_cpus >= LEAST_NETWORK * cpus as f64 && !rates.is_empty() {
            let sampled = findings.cpus.iter().zip(rates);
            let samples_hz = sampled.map(|(cpu, rate)| {
                cpu.network_ratio.unwrap_or_default() * (rate.hz + rate.ticks_hz) as f64
            });
            let needed_hz = self.precision.needed_hz(network_cpus, cpus) * network_cpus;
            samples_hz.sum::<f64>() / needed_hz
        } else {
            1.0
        };
        let weight = (findings.interval_ns as f64 / JUDGED_NS).min(1.0);
        self.samples_of_needed += weight * (of_needed.min(1.0) - self.samples_of_needed);
        let (too_few, enough) = TOO_FEW;
        let limit = if self.are_samples_too_few {
            enough
        } else {
            too_few
        };
        self.are_samples_too_few = self.samples_of_needed < limit;
    }

    /// Remembers costs for some time: a window that a pause in a load has made long would meet the load when it
    /// goes on.
    fn follow_costs(&mut self, findings: &Findings<'_>) {
        let interval_ns = findings.interval_ns.max(1) as f64;
        let kept = (-interval_ns / RECENT_NS).exp();
        self.recent_ratios
            .resize(findings.costs.len(), [0.0; GROUPS]);
        for (recent, costs) in self.recent_ratios.iter_mut().zip(findings.costs) {
            for (recent_ratio, &ns) in recent.iter_mut().zip(costs) {
                *recent_ratio = (ns as f64 / interval_ns).max(kept * *recent_ratio);
            }
        }
    }

    /// What windows may have of their parts, as a ratio: on the CPU where it is least, what daemon, sampler and
    /// probes that are always attached leave.
    fn windows_scale(&self, findings: &Findings<'_>, affordable: GroupSet) -> f64 {
        let members = self.members.iter();
        let members = members.filter(|member| member.has_windows(findings, affordable));
        let softirqs = if affordable.has(Group::Softirqs) {
            0.0
        } else {
            SOFTIRQS_PART
        };
        let parts = softirqs + members.map(Member::windows_part).sum::<f64>();
        let always = affordable.intersection(findings.attached);
        let network_cpus = findings.network_cpus();
        let cpus = findings.cpus.iter().zip(findings.costs);
        let left_ratios = cpus.map(|(cpu, costs)| {
            let interval = self.cpu_interval(findings, cpu, network_cpus);
            let attached_ns: u64 = always.iter().map(|group| costs[group.index()]).sum();
            let attached_ratio = attached_ns as f64 / findings.interval_ns.max(1) as f64;
            interval.may_cost_ratio - attached_ratio - self.rates.first_ratio(&interval)
        });
        let left_ratio = left_ratios.fold(f64::INFINITY, f64::min);
        (left_ratio / (parts * self.max_overhead_ratio)).clamp(LEAST_OF_PARTS, 1.0)
    }

    fn windows_of_members(
        &mut self,
        findings: &Findings<'_>,
        affordable: GroupSet,
        scale: f64,
    ) -> Vec<WindowOrder> {
        let Findings {
            now_ns,
            interval_ns,
            ..
        } = *findings;
        let cpus = findings.cpus.iter().map(|cpu| cpu.number);
        let is_sampled = |cpu: &u32| findings.has_samples && !self.is_looking(*cpu as usize);
        let sampled_cpus: Vec<u32> = cpus.filter(is_sampled).collect();
        let sample = self.trials.corrected(findings.prices.felt_sample());
        let sample_ns = sample.on(self.busiest_ratio);
        let network_cpus = findings.network_cpus();
        let mut orders = Vec::new();
        for member in &mut self.members {
            if !member.has_windows(findings, affordable) {
                continue;
            }
            let tells_owners = matches!(member.limit, Limit::Budget { .. });
            let load = WindowLoad {
                cost_ratio: findings.dearest_ratio(member.group),
                most_cost_ratio: dearest_recent_ratio(&self.recent_ratios, member.group),
                network_cpus: network_cpus.filter(|_| !tells_owners),
                sample_ns: (tells_owners && !sampled_cpus.is_empty()).then_some(sample_ns),
                may_cost_ratio: scale * member.windows_part() * self.max_overhead_ratio,
            };
            let phase = self.random.ratio();
            if let Some(window) = member.windows.next(now_ns, interval_ns, load, phase) {
                orders.push(WindowOrder {
                    group: member.group,
                    window,
                    sampled_cpus: if tells_owners {
                        sampled_cpus.clone()
                    } else {
                        Vec::new()
                    },
                });
            }
        }
        orders
    }

    /// While softirqs are sampled, they are timed in a part of each second, apart from other windows: those would
    /// make them longer.
    fn window_of_softirqs(
        &mut self,
        findings: &Findings<'_>,
        scale: f64,
        others: &[WindowOrder],
    ) -> Option<WindowOrder> {
        let load = WindowLoad {
            cost_ratio: findings.dearest_ratio(Group::Softirqs),
            most_cost_ratio: dearest_recent_ratio(&self.recent_ratios, Group::Softirqs),
            network_cpus: None,
            sample_ns: None,
            may_cost_ratio: scale * SOFTIRQS_PART * self.max_overhead_ratio,
        };
        let interval_ns = findings.interval_ns;
        let phase = self.random.ratio();
        let window = self
            .softirqs
            .next(findings.now_ns, interval_ns, load, phase)?;
        let others: Vec<_> = others.iter().map(|order| order.window).collect();
        let window = window.apart_from(&others, interval_ns, self.random.ratio());
        (window.length_ns > 0).then_some(WindowOrder {
            group: Group::Softirqs,
            window,
            sampled_cpus: Vec::new(),
        })
    }

    fn choose_rates(&mut self, findings: &Findings<'_>, timed: GroupSet) -> Vec<Rate> {
        if !findings.has_samples {
            return Vec::new();
        }
        let network_cpus = findings.network_cpus();
        let cpus = findings.cpus.iter().enumerate();
        let intervals: Vec<_> = cpus
            .map(|(column, cpu)| {
                let mut interval = self.cpu_interval(findings, cpu, network_cpus);
                interval.may_cost_ratio -= self.probes_ratio(findings, timed, column);
                (cpu.number as usize, interval)
            })
            .collect();
        let softirqs_are_timed = timed.has(Group::Softirqs);
        let rates = intervals.into_iter().map(|(cpu, interval)| {
            self.rates
                .next(cpu, findings.interval_ns, softirqs_are_timed, interval)
        });
        rates.collect()
    }

    /// What the sampling rate of a CPU depends on, before probes and windows take their parts.
    fn cpu_interval(
        &self,
        findings: &Findings<'_>,
        cpu: &CpuFindings,
        network_cpus: Option<f64>,
    ) -> CpuInterval {
        let cpus = findings.cpus.len();
        let network_cpus = network_cpus.unwrap_or(cpus as f64);
        CpuInterval {
            network_ratio: cpu.network_ratio.unwrap_or(1.0),
            has_seen_network: cpu.has_seen_network,
            busy_ratio: cpu.busy_ratio,
            may_cost_ratio: (1.0 - MARGIN) * self.max_overhead_ratio
                - cpu.daemon_ratio
                - cpu.timers_ratio,
            max_overhead_ratio: self.max_overhead_ratio,
            needed_hz: self.precision.needed_hz(network_cpus, cpus),
            sample: self.trials.corrected(findings.prices.felt_sample()),
            tick: self.trials.corrected(findings.prices.felt_tick()),
            periods: self.fewest_periods(),
        }
    }

    /// What probes cost the CPU of this column on average, as a ratio: those of `timed` groups all the time, others in
    /// windows.
    fn probes_ratio(&self, findings: &Findings<'_>, timed: GroupSet, column: usize) -> f64 {
        let interval_ns = findings.interval_ns.max(1) as f64;
        let costs = &findings.costs[column];
        let always = timed
            .iter()
            .map(|group| costs[group.index()] as f64 / interval_ns);
        let members = self.members.iter();
        let windows = members.map(|member| (member.group, &member.windows));
        let windows = windows.chain([(Group::Softirqs, &self.softirqs)]);
        let windows = windows.filter(|(group, _)| !timed.has(*group));
        let recent = &self.recent_ratios[column];
        let in_windows = windows.map(|(group, windows)| windows.ratio(recent[group.index()]));
        always.sum::<f64>() + in_windows.sum::<f64>()
    }

    /// Groups that have limits of their own and keep them without windows.
    fn awake(&self) -> GroupSet {
        let members = self.members.iter();
        let awake = members.filter(|member| {
            !matches!(member.limit, Limit::Budget { .. }) && !member.alternation.is_in_windows()
        });
        awake.map(|member| member.group).collect()
    }

    fn member(&self, group: Group) -> Option<&Member> {
        self.members.iter().find(|member| member.group == group)
    }

    fn member_mut(&mut self, group: Group) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.group == group)
    }

    fn windows(&self, group: Group) -> Option<&SamplingWindows> {
        if group == Group::Softirqs {
            return Some(&self.softirqs);
        }
        self.member(group).map(|member| &member.windows)
    }

    fn windows_mut(&mut self, group: Group) -> Option<&mut SamplingWindows> {
        if group == Group::Softirqs {
            return Some(&mut self.softirqs);
        }
        self.member_mut(group).map(|member| &mut member.windows)
    }
}

/// What a group cost at its dearest lately, on the CPU where it cost most.
fn dearest_recent_ratio(recent_ratios: &[[f64; GROUPS]], group: Group) -> f64 {
    let of_cpus = recent_ratios.iter().map(|ratios| ratios[group.index()]);
    of_cpus.fold(0.0, f64::max)
}

impl Member {
    /// Whether it is to have windows.
    fn has_windows(&self, findings: &Findings<'_>, affordable: GroupSet) -> bool {
        match self.limit {
            _ if findings.held_back.has(self.group) => false,
            Limit::Budget { .. } => !affordable.has(self.group),
            Limit::Windows { .. } => self.alternation.may_open(findings.now_ns),
            Limit::Sampling => false,
        }
    }

    /// The part of the budget that its windows may take, as a ratio.
    fn windows_part(&self) -> f64 {
        match self.limit {
            Limit::Budget { .. } => SAMPLES_PART,
            Limit::Windows { .. } | Limit::Sampling => COUNTS_PART,
        }
    }

    fn end_interval(&mut self, findings: &Findings<'_>, max_overhead_ratio: f64) {
        if let Limit::Windows { most } = self.limit {
            let cost_ratio = findings.dearest_ratio(self.group);
            self.alternation
                .end_interval(cost_ratio, most * max_overhead_ratio, findings.now_ns);
        }
    }
}

impl Findings<'_> {
    /// Its CPUs and costs as they would be, had the loads that have begun lasted for all of the interval, or for
    /// [`PROJECTED_NS`] if that is longer.
    fn as_if_begun(&self) -> (Vec<CpuFindings>, Vec<GroupCosts>) {
        let length_ns = self.interval_ns.max(PROJECTED_NS) as f64;
        let (mut cpus, mut costs) = (self.cpus.to_vec(), self.costs.to_vec());
        let softirq_ns = self.prices.of_event_ns(Group::Softirqs);
        let shortened = self.interval_ns as f64 / length_ns;
        for (cpu, costs) in cpus.iter_mut().zip(&mut costs) {
            // The daemon's work at the end of an interval does not grow with its length.
            cpu.daemon_ratio *= shortened;
            let mut begun = self.begun.iter();
            let Some((_, softirqs_hz)) = begun.find(|(number, _)| *number == cpu.number) else {
                continue;
            };
            let projected_ns = softirqs_hz * softirq_ns * length_ns / 1e9;
            let factor = projected_ns / (costs[Group::Softirqs.index()] as f64).max(softirq_ns);
            let factor = factor.max(1.0);
            for cost_ns in costs.iter_mut() {
                *cost_ns = (*cost_ns as f64 * factor) as u64;
            }
            let stretched = factor * shortened;
            let share = |ratio: f64| (stretched * ratio).min(1.0);
            cpu.network_ratio = cpu.network_ratio.map(share);
            cpu.busy_ratio = cpu.busy_ratio.map(share);
        }
        (cpus, costs)
    }

    /// What a group costs, or would cost, on the CPU where it costs most, as a share of its time.
    fn dearest_ratio(&self, group: Group) -> f64 {
        let costs = self.costs.iter().map(|costs| costs[group.index()]);
        costs.max().unwrap_or(0) as f64 / self.interval_ns.max(1) as f64
    }

    /// Networking's time on all CPUs, in CPUs, if known.
    fn network_cpus(&self) -> Option<f64> {
        self.cpus.iter().map(|cpu| cpu.network_ratio).sum()
    }

    /// The highest share of its time that a CPU spent on networking; 1 if unknown.
    fn busiest_ratio(&self) -> f64 {
        let ratios = self.cpus.iter().map(|cpu| cpu.network_ratio.unwrap_or(1.0));
        ratios.reduce(f64::max).unwrap_or(1.0)
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
