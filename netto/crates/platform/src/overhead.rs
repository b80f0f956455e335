//! Keeps netto's own cost within what the user allows: knows it, CPU by CPU, and orders probes and
//! samples by it. What follows from what is decided in `analysis::{budget, rates, prices}`.

use metrics_common::CostliestCpu;

use self::taken::COUNTERS;
pub use self::taken::{Counter, Taken};
use super::process::Process;
use netto_analysis::bias::Bias;
use netto_analysis::budget::{Budget, GroupCosts};
use netto_analysis::groups::{GROUPS, Group, GroupSet};
use netto_analysis::kernel_counts::{SoftirqCounts, VECTORS};
use netto_analysis::prices::{Events, Habits, Prices};
use netto_analysis::rates::{Rates, Shown};
use netto_analysis::window::Window;
use netto_sys::cpu_time::Reading;
use netto_sys::kept::KeptFile;
use netto_sys::session::{Panel, Readers};
use netto_sys::system::{self, Roots};

mod taken;

/// Prices are measured anew so often, and sooner when the load has become another.
const CALIBRATE_NS: u64 = 60_000_000_000;
const CALIBRATE_SOON_NS: u64 = 5_000_000_000;
/// Softirqs that are sampled are timed for a moment so often, until it is known what samples see
/// of them: a tenth of a second in thirty.
const MOMENTS_NS: u64 = 30_000_000_000;
/// Another load: probes cost so many times what they cost when prices were measured.
const ANOTHER_LOAD: f64 = 2.0;
/// Of the budget, what probes and daemon leave to samples is not used to the last.
const MARGIN: f64 = 0.1;

/// What the instruments found in an interval that netto's cost depends on, by column.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// Length of the interval, nanoseconds.
    pub interval_ns: u64,
    /// Its CPUs.
    pub cpus: &'a [u32],
    /// CPU time of networking, nanoseconds.
    pub network_ns: Option<&'a [u64]>,
    /// CPU time of each group that times socket calls, nanoseconds.
    pub calls_ns: [Option<&'a [u64]>; GROUPS],
    /// Share of the time that each CPU was busy.
    pub busy_ratio: Option<&'a [f64]>,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Overhead {
    max_overhead_ratio: f64,
    budget: Budget,
    rates: Rates,
    prices: Prices,
    habits: Habits,
    window: Window,
    /// What samples see of softirqs.
    pub bias: Bias,
    /// When softirqs may be timed for a moment, to learn that.
    moment_ns: u64,
    /// Groups that the plan has.
    planned: GroupSet,
    /// Groups that were attached for all of the interval.
    timed: GroupSet,
    panel: Option<Panel>,
    kernel: KernelCounts,
    /// Each CPU's clock at the end of the last interval.
    previous: Vec<Reading>,
    /// CPUs on which a look has met networking.
    met: Vec<bool>,
    /// When prices may be measured again, and what probes cost then, as a ratio.
    calibrated: (u64, f64),
    process: Process,
    /// What instruments' own probes took in the interval that ends, by column.
    counters_ns: [Option<Vec<u64>>; COUNTERS],
}

/// Events that the kernel counts, read only while no probe does.
#[derive(Debug)]
struct KernelCounts {
    file: Option<KeptFile>,
    baseline: Option<SoftirqCounts>,
    now: Option<SoftirqCounts>,
    switches: Option<u64>,
    switches_since: Option<u64>,
}

impl Overhead {
    /// Begins with everything attached that the plan has. Groups can go if samples can stand in.
    pub(super) fn new(
        max_overhead_ratio: f64,
        frequency_hz: u64,
        planned: GroupSet,
        may_go: bool,
        roots: &Roots,
        readers: &Readers,
    ) -> Self {
        let choosable = if may_go { planned } else { GroupSet::NONE };
        let mut prices = Prices::default();
        match (&readers.timer_cost, &readers.tick) {
            // An interrupt that comes anyway.
            (_, Some(_)) => prices.timer_ns = 0.0,
            (Ok(cost), None) => prices.timer_ns = cost.interrupt_ns as f64,
            (Err(_), None) => {}
        }
        Overhead {
            max_overhead_ratio,
            budget: Budget::new(max_overhead_ratio, planned, choosable),
            rates: Rates::new(frequency_hz),
            prices,
            habits: Habits::default(),
            window: Window::default(),
            bias: Bias::default(),
            moment_ns: 0,
            planned,
            timed: planned,
            panel: readers.panel.clone(),
            kernel: KernelCounts {
                file: roots.softirqs().ok(),
                baseline: None,
                now: None,
                switches: None,
                switches_since: None,
            },
            previous: Vec::new(),
            met: Vec::new(),
            calibrated: (0, 0.0),
            process: Process::now(),
            counters_ns: Default::default(),
        }
    }

    /// Groups that are attached for all of the interval to come.
    pub fn timed(&self) -> GroupSet {
        self.timed
    }

    /// Begins to look at an interval that has just ended; with it come the host's context
    /// switches since boot.
    pub(super) fn begin(&mut self, switches: Option<u64>) {
        self.kernel.now = match (&self.kernel.file, &self.kernel.baseline) {
            (Some(file), Some(_)) => file.text().ok().map(|text| SoftirqCounts::parse(&text)),
            _ => None,
        };
        self.kernel.switches_since = match (switches, self.kernel.switches) {
            (Some(now), Some(before)) => Some(now.saturating_sub(before)),
            _ => None,
        };
        self.kernel.switches = switches;
    }

    /// Softirqs of this CPU in the interval by vector, as the kernel counts them; `None` while
    /// probes do.
    pub fn softirqs(&self, cpu: usize) -> Option<[u64; VECTORS]> {
        let (now, before) = (self.kernel.now.as_ref()?, self.kernel.baseline.as_ref()?);
        Some(now.since(before, cpu))
    }

    /// A sample that is only a look has met networking on this CPU.
    pub fn has_met(&mut self, cpu: usize) {
        if self.met.len() <= cpu {
            self.met.resize(cpu + 1, false);
        }
        self.met[cpu] = true;
    }

    /// netto's share of any CPU's time, at most.
    pub fn max_ratio(&self) -> f64 {
        self.max_overhead_ratio
    }

    /// Says what probes of an instrument's own took from each CPU of the interval, nanoseconds.
    pub fn charge(&mut self, counter: Counter, ns: Vec<u64>) {
        self.counters_ns[counter as usize] = Some(ns);
    }

    /// Whether samples of this CPU only tell whether there is something to see.
    pub fn is_looking(&self, cpu: usize) -> bool {
        self.rates.of(cpu).is_look
    }

    /// Ends an interval: what it cost, and what the next may.
    pub(super) fn end(&mut self, found: &Found<'_>, now_ns: u64, readers: &mut Readers) -> Taken {
        let costs = self.costs(found, readers);
        let taken = self.taken(found, &costs, readers);
        let columns = || found.cpus.iter().enumerate();
        let paid = columns().map(|(column, &cpu)| (cpu as usize, taken.of(column)));
        self.window.add(found.interval_ns, paid);
        self.choose_probes(found, &costs);
        self.learn_bias(now_ns);
        self.calibrate(found, &costs, now_ns);
        let sampling_hz = self.choose_rates(found, &costs, &taken, readers);
        let costliest = self.window.costliest().map(|(cpu, ratio)| CostliestCpu {
            cpu: cpu as u32,
            ratio,
        });
        Taken {
            sampling_hz,
            costliest,
            ..taken
        }
    }

    /// What each group costs each CPU, or would cost if it was attached.
    fn costs(&mut self, found: &Found<'_>, readers: &Readers) -> Vec<GroupCosts> {
        self.previous
            .resize(readers.possible_cpus, Reading::default());
        let mut costs = Vec::with_capacity(found.cpus.len());
        for (column, &cpu) in found.cpus.iter().enumerate() {
            let cpu = cpu as usize;
            let before = self.previous.get(cpu).copied().unwrap_or_default();
            let now = readers.clocks.read(cpu).unwrap_or(before);
            let counted = self.counted(cpu, &before, &now);
            if let Some(previous) = self.previous.get_mut(cpu) {
                *previous = now;
            }
            let time_ns = found.calls_ns.map(|row| row.map_or(0, |row| row[column]));
            self.habits.learn(cpu, &counted, &time_ns, self.timed);
            costs.push(std::array::from_fn(|number| {
                let group = Group::ALL[number];
                if !self.planned.has(group) {
                    return 0;
                }
                let switches = self.kernel.switches_since;
                let guess = || self.habits.guess(cpu, group, time_ns[number], switches);
                let events = counted[number].unwrap_or_else(guess);
                (events as f64 * self.prices.of_event_ns(group)) as u64
            }));
        }
        costs
    }

    /// Events of a CPU that somebody counted.
    fn counted(&self, cpu: usize, before: &Reading, now: &Reading) -> Events {
        let growth = |kind: u8| {
            let kind = usize::from(kind);
            now.entries[kind].saturating_sub(before.entries[kind])
        };
        let softirqs = match self.softirqs(cpu) {
            Some(counts) => counts.iter().sum(),
            None => (1..=VECTORS as u8).map(growth).sum(),
        };
        let timed = self.timed;
        let of = |group: Group, events: u64| timed.has(group).then_some(events);
        let mut events = [None; GROUPS];
        events[Group::Softirqs as usize] = Some(softirqs);
        for (group, source) in Group::CALLS {
            events[group as usize] = of(group, growth(source.clock_kind()));
        }
        let switches = now.switches.saturating_sub(before.switches);
        events[Group::Switches as usize] = of(Group::Switches, switches);
        events[Group::Owners as usize] = of(Group::Owners, now.met.saturating_sub(before.met));
        events
    }

    fn taken(&mut self, found: &Found<'_>, costs: &[GroupCosts], readers: &Readers) -> Taken {
        let columns = found.cpus.len();
        let of_group = |group: Group| {
            let paid = self.timed.has(group);
            let row = || {
                costs
                    .iter()
                    .map(|costs| if paid { costs[group as usize] } else { 0 })
            };
            self.planned.has(group).then(|| row().collect::<Vec<u64>>())
        };
        let mut groups = Group::ALL.map(of_group);
        // Of what softirqs cost, the part of the probes at interrupts.
        let whole_ns = self
            .prices
            .of_event_ns(Group::Softirqs)
            .max(f64::MIN_POSITIVE);
        let part = self.prices.interrupts_ns / whole_ns;
        let interrupts = groups[Group::Softirqs as usize].as_mut().map(|row| {
            let split = row.iter_mut().map(|ns| {
                let interrupts_ns = (*ns as f64 * part) as u64;
                *ns -= interrupts_ns;
                interrupts_ns
            });
            split.collect::<Vec<u64>>()
        });
        let sample_ns = self.prices.of_sample_ns();
        let of_cpu = |(column, &cpu): (usize, &u32)| {
            let hz = self.sampling_hz(column, cpu, found, readers)?;
            Some((hz * found.interval_ns as f64 / 1e9 * sample_ns) as u64)
        };
        let sampler = found.cpus.iter().enumerate().map(of_cpu).collect();
        // The analyzer is where it is now; the process' other threads are anywhere.
        let spent = self.process.go_on();
        let all_ns = spent.user_ns + spent.system_ns;
        let own_ns = spent.thread_ns;
        let others_ns = all_ns.saturating_sub(own_ns) / columns.max(1) as u64;
        let here = system::current_cpu();
        let daemon = found.cpus.iter().map(|&cpu| {
            let is_here = Some(cpu) == here;
            others_ns + if is_here { own_ns.min(all_ns) } else { 0 }
        });
        Taken {
            groups,
            interrupts,
            sampler,
            daemon: daemon.collect(),
            counters: std::mem::take(&mut self.counters_ns),
            process: (spent.user_ns, spent.system_ns),
            sampling_hz: None,
            costliest: None,
        }
    }

    /// How often a CPU was sampled each second; a tick comes only while it does something.
    fn sampling_hz(
        &self,
        column: usize,
        cpu: u32,
        found: &Found<'_>,
        readers: &Readers,
    ) -> Option<f64> {
        if let Some(samplers) = &readers.samplers {
            return Some(samplers.rate_hz(cpu) as f64);
        }
        let tick = readers.tick.as_ref()?;
        let busy_ratio = found.busy_ratio.map_or(1.0, |ratios| ratios[column]);
        Some(busy_ratio * 1e9 / tick.period_ns() as f64)
    }

    fn choose_probes(&mut self, found: &Found<'_>, costs: &[GroupCosts]) {
        let Some(panel) = self.panel.clone() else {
            return;
        };
        for failure in panel.take_failures() {
            tracing::warn!("{failure}");
        }
        let before = self.budget.attached();
        let wanted = self.budget.decide(found.interval_ns, costs);
        if wanted != before {
            let label = |group: Group| group.label();
            let are_timed = |groups: GroupSet| groups.without(Group::Owners);
            let gone: Vec<_> = are_timed(before.minus(wanted)).iter().map(label).collect();
            let back: Vec<_> = are_timed(wanted.minus(before)).iter().map(label).collect();
            if !gone.is_empty() {
                tracing::info!(
                    "sampled from now on, because timing them would cost too much: {}",
                    gone.join(", ")
                );
            }
            if !back.is_empty() {
                tracing::info!("timed again: {}", back.join(", "));
            }
            panel.attach(wanted);
        }
        self.timed = wanted.intersection(panel.attached());
        let is_counted = self.timed.has(Group::Softirqs) || !self.planned.has(Group::Softirqs);
        self.kernel.baseline = match (is_counted, &self.kernel.file) {
            (false, Some(file)) => {
                let again = || file.text().ok().map(|text| SoftirqCounts::parse(&text));
                self.kernel.now.take().or_else(again)
            }
            _ => None,
        };
    }

    /// While softirqs are sampled, and it is not known well what samples see of them, they are
    /// timed for a moment now and then.
    fn learn_bias(&mut self, now_ns: u64) {
        let is_sampled = self.planned.has(Group::Softirqs) && !self.timed.has(Group::Softirqs);
        if let Some(panel) = &self.panel
            && is_sampled
            && self.bias.wants_more()
            && now_ns >= self.moment_ns
            && !panel.is_busy()
        {
            panel.attach_for_a_moment(Group::Softirqs);
            self.moment_ns = now_ns + MOMENTS_NS;
        }
    }

    fn calibrate(&mut self, found: &Found<'_>, costs: &[GroupCosts], now_ns: u64) {
        let Some(panel) = &self.panel else {
            return;
        };
        if let Some(costs) = panel.take_costs() {
            self.prices
                .learn(&costs.event_ns, costs.interrupts_ns, costs.sample_ns);
        }
        let most_ns = costs.iter().map(|costs| costs.iter().sum::<u64>()).max();
        let ratio = most_ns.unwrap_or(0) as f64 / found.interval_ns.max(1) as f64;
        let (at_ns, then) = self.calibrated;
        let passed_ns = now_ns.saturating_sub(at_ns);
        let is_another = ratio > ANOTHER_LOAD * then && ratio > self.max_overhead_ratio / 10.0;
        let is_due = passed_ns >= CALIBRATE_NS || is_another && passed_ns >= CALIBRATE_SOON_NS;
        if is_due && !panel.is_busy() {
            panel.calibrate();
            self.calibrated = (now_ns, ratio);
        }
    }

    fn choose_rates(
        &mut self,
        found: &Found<'_>,
        costs: &[GroupCosts],
        taken: &Taken,
        readers: &mut Readers,
    ) -> Option<Vec<u64>> {
        let Some(samplers) = readers.samplers.as_mut() else {
            // The tick's rate is what it is.
            let tick = readers.tick.as_ref()?;
            let hz = 1_000_000_000 / tick.period_ns().max(1);
            return Some(vec![hz; found.cpus.len()]);
        };
        let softirqs_are_timed = self.timed.has(Group::Softirqs);
        let interval_ns = found.interval_ns.max(1) as f64;
        let mut rates = Vec::with_capacity(found.cpus.len());
        for (column, &number) in found.cpus.iter().enumerate() {
            let cpu = number as usize;
            let probes_ns: u64 = self.timed.iter().map(|g| costs[column][g as usize]).sum();
            let charged = taken.counters.iter().flatten();
            let charged_ns: u64 = charged.filter_map(|row| row.get(column)).sum();
            let others = (probes_ns + taken.daemon[column] + charged_ns) as f64 / interval_ns;
            let met = self.met.get_mut(cpu).map(std::mem::take);
            let shown = Shown {
                network_ratio: found
                    .network_ns
                    .map_or(1.0, |ns| ns[column] as f64 / interval_ns),
                was_met: met.unwrap_or(false),
                busy_ratio: found.busy_ratio.map(|ratios| ratios[column]),
                may_cost_ratio: (1.0 - MARGIN) * self.max_overhead_ratio - others,
                sample_ns: self.prices.of_sample_ns(),
            };
            let rate = self
                .rates
                .next(cpu, found.interval_ns, softirqs_are_timed, shown);
            samplers.set_rate(number, rate.hz);
            rates.push(rate.hz);
        }
        Some(rates)
    }
}
