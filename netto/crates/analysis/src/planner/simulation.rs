//! A host whose loads and prices are known: what the planner lets netto take of each CPU, second by second.

use std::time::Duration;

use super::*;
use crate::budget::GroupCosts;
use crate::groups::GROUPS;

const MS: u64 = 1_000_000;
const STEP_NS: u64 = MS;
const SECOND_NS: u64 = 1_000 * MS;
const INTERVAL_NS: u64 = 500 * MS;
const BUDGET: f64 = 0.01;
/// What the daemon takes of one CPU.
const DAEMON: f64 = 0.0015;
const OWNERS: Group = Group::Registered(0);
const WORK: Group = Group::Registered(1);
/// Interrupts of each CPU when a window opens or closes, and what one takes.
const INTERRUPTS_NS: u64 = 10 * 6_000;

/// What a CPU does: events per second, and networking's share of its time.
#[derive(Clone, Copy, Default)]
struct Load {
    softirqs_hz: f64,
    calls_hz: f64,
    packets_hz: f64,
    network_ratio: f64,
}

const IDLE: Load = Load {
    softirqs_hz: 0.0,
    calls_hz: 0.0,
    packets_hz: 0.0,
    network_ratio: 0.0,
};
/// Bulk TCP as fast as it goes.
const BULK: Load = Load {
    softirqs_hz: 155_000.0,
    calls_hz: 40_000.0,
    packets_hz: 155_000.0,
    network_ratio: 0.95,
};
const LIGHT: Load = Load {
    softirqs_hz: 2_000.0,
    calls_hz: 1_000.0,
    packets_hz: 2_000.0,
    network_ratio: 0.02,
};

impl Load {
    /// Events of this group in so many nanoseconds.
    fn events(&self, group: Group, ns: u64) -> f64 {
        let hz = match group {
            Group::Softirqs => self.softirqs_hz,
            Group::Switches => self.calls_hz / 2.0,
            Group::Sends | Group::Receives => self.calls_hz,
            OWNERS | WORK => self.packets_hz,
            Group::LocalIpc | Group::Registered(_) => 0.0,
        };
        hz * ns as f64 / 1e9
    }
}

/// What netto did in a second.
struct Second {
    /// CPU time that it took, by CPU.
    taken_ns: Vec<f64>,
    /// Samples of networking.
    samples: f64,
}

/// The softirqs of a CPU since its alarm was set.
#[derive(Clone, Default)]
struct Alarm {
    softirqs: f64,
    from_ns: Option<u64>,
}

impl Alarm {
    /// The measured rate, when it is.
    fn pass(&mut self, [quiet, measured]: [u64; 2], softirqs: f64, now_ns: u64) -> Option<f64> {
        let before = self.softirqs;
        self.softirqs += softirqs;
        if self.softirqs >= quiet as f64 && self.from_ns.is_none() {
            self.from_ns = Some(now_ns);
        }
        let all = (quiet + measured) as f64;
        let from_ns = self.from_ns?;
        let is_now = before < all && self.softirqs >= all;
        is_now.then(|| measured as f64 * 1e9 / (now_ns + STEP_NS - from_ns) as f64)
    }
}

/// A host under a load: by CPU and time.
struct Host<L> {
    load: L,
    cpus: usize,
    prices: Prices,
    planner: Planner,
    seconds: Vec<Second>,
    orders: Orders,
}

impl<L: Fn(usize, u64) -> Load> Host<L> {
    fn new(cpus: usize, precision: Precision, prices: Prices, load: L) -> Self {
        let ticks_hz = if prices.timer_ns > 5_000.0 { 250 } else { 0 };
        let planned: GroupSet = Group::CLOCK.into_iter().collect();
        let clock = ClockGroups {
            planned,
            choosable: planned,
        };
        let rates = Rates::new(1_000, ticks_hz);
        let first = rates.of(0);
        let analyzer = AnalyzerCost::new(Duration::from_nanos(INTERVAL_NS), 4);
        let mut planner = Planner::new(BUDGET, precision, clock, rates, analyzer, 1);
        let met_in = Source::NET_RX;
        planner.add(OWNERS, Limit::Budget { met_in }, true);
        planner.add(WORK, Limit::Windows { most: 0.25 }, true);
        let planner_alarm = planner.alarm(0.0, &prices);
        Host {
            load,
            cpus,
            prices,
            planner,
            seconds: Vec::new(),
            orders: Orders {
                attached: planned.with(OWNERS).with(WORK),
                detached_for_cost: GroupSet::NONE,
                attached_again: GroupSet::NONE,
                windows: Vec::new(),
                rates: vec![first; cpus],
                has_ticks: ticks_hz > 0,
                are_samples_too_few: false,
                alarms: Some(vec![planner_alarm; cpus]),
            },
        }
    }

    fn run(&mut self, seconds: u64) {
        let mut from_ns = 0;
        while from_ns < seconds * SECOND_NS {
            from_ns = self.run_interval(from_ns);
        }
    }

    /// Until its end, which it returns: that of the period, or a load that begins.
    fn run_interval(&mut self, from_ns: u64) -> u64 {
        let until_ns = (from_ns / INTERVAL_NS + 1) * INTERVAL_NS;
        let mut costs = vec![[0; GROUPS]; self.cpus];
        let mut network_ns = vec![0.0; self.cpus];
        let mut alarms = vec![Alarm::default(); self.cpus];
        let mut now_ns = from_ns;
        let mut begun = Vec::new();
        while now_ns < until_ns && begun.is_empty() {
            for cpu in 0..self.cpus {
                let load = (self.load)(cpu, now_ns);
                network_ns[cpu] += load.network_ratio * STEP_NS as f64;
                self.step(cpu, load, now_ns, from_ns, &mut costs[cpu]);
                if let Some(armed) = self.orders.alarms.as_ref().map(|alarms| alarms[cpu]) {
                    let softirqs = load.events(Group::Softirqs, STEP_NS);
                    let hz = alarms[cpu].pass(armed, softirqs, now_ns);
                    let hz = hz.filter(|&hz| self.planner.ends_interval(hz, &self.prices));
                    begun.extend(hz.map(|hz| (cpu as u32, hz)));
                }
            }
            now_ns += STEP_NS;
        }
        let second = (from_ns / SECOND_NS) as usize;
        for order in std::mem::take(&mut self.orders.windows) {
            for taken in &mut self.seconds[second].taken_ns {
                *taken += 2.0 * INTERRUPTS_NS as f64;
            }
            self.planner
                .learn_window(order.group, 2 * INTERRUPTS_NS, 2, Some(12_000));
        }
        let length_ns = now_ns - from_ns;
        let known = network_ns.iter().enumerate().map(|(cpu, ns)| {
            let ratio = ns / length_ns as f64;
            CpuFindings {
                number: cpu as u32,
                network_ratio: Some(ratio),
                has_seen_network: false,
                busy_ratio: Some(ratio),
                daemon_ratio: if cpu == 0 { DAEMON } else { 0.0 },
                timers_ratio: 0.0,
            }
        });
        let cpus: Vec<_> = known.collect();
        let attached = self.orders.attached;
        self.orders = self.planner.plan(&Findings {
            now_ns,
            interval_ns: length_ns,
            cpus: &cpus,
            costs: &costs,
            prices: &self.prices,
            attached,
            held_back: GroupSet::NONE,
            has_samples: true,
            packets: None,
            begun: &begun,
        });
        now_ns
    }

    /// What netto takes of a CPU in a step; adds what each group costs, or would cost.
    fn step(&mut self, cpu: usize, load: Load, now_ns: u64, from_ns: u64, costs: &mut GroupCosts) {
        let is_open = |order: &&WindowOrder| {
            let begins_ns = from_ns + order.window.after_ns;
            (begins_ns..begins_ns + order.window.length_ns).contains(&now_ns)
        };
        let open: Vec<_> = self.orders.windows.iter().filter(is_open).collect();
        let mut taken_ns = if cpu == 0 {
            DAEMON * STEP_NS as f64
        } else {
            0.0
        };
        for group in Group::CLOCK.into_iter().chain([OWNERS, WORK]) {
            let cost_ns = load.events(group, STEP_NS) * self.prices.of_event_ns(group);
            costs[group.index()] += cost_ns as u64;
            let is_attached = self.orders.attached.has(group);
            if is_attached || open.iter().any(|order| order.group == group) {
                taken_ns += cost_ns;
            }
        }
        let rate = self.orders.rates[cpu];
        let sampled = open
            .iter()
            .filter(|order| order.sampled_cpus.contains(&(cpu as u32)));
        let window_hz: u64 = sampled.map(|order| order.window.sampling_hz).sum();
        let seconds = STEP_NS as f64 / 1e9;
        let perf = (rate.hz + window_hz) as f64 * seconds;
        let ticks = rate.ticks_hz as f64 * load.network_ratio * seconds;
        taken_ns += perf * self.prices.of_sample_ns() + ticks * self.prices.sample_ns;
        let number = (now_ns / SECOND_NS) as usize;
        while self.seconds.len() <= number {
            self.seconds.push(Second {
                taken_ns: vec![0.0; self.cpus],
                samples: 0.0,
            });
        }
        let second = &mut self.seconds[number];
        second.taken_ns[cpu] += taken_ns;
        if !rate.is_look {
            let hz = (rate.hz + rate.ticks_hz) as f64;
            second.samples += hz * load.network_ratio * seconds;
        }
    }

    /// The most that netto took of a CPU in each second, per cent of its time.
    fn percents(&self) -> Vec<f64> {
        let dearest = |second: &Second| second.taken_ns.iter().copied().fold(0.0, f64::max);
        let seconds = self.seconds.iter().map(dearest);
        seconds.map(|ns| 100.0 * ns / SECOND_NS as f64).collect()
    }

    /// Samples of networking a second, over the last so many.
    fn samples_hz(&self, seconds: usize) -> f64 {
        let last = self.seconds.iter().rev().take(seconds);
        last.map(|second| second.samples).sum::<f64>() / seconds as f64
    }
}

/// A virtual machine, where an interrupt of perf's clock leaves it.
fn guest() -> Prices {
    Prices {
        timer_ns: 12_000.0,
        ..Prices::default()
    }
}

fn alternating(period_ns: u64) -> impl Fn(usize, u64) -> Load {
    move |_, now_ns| {
        if now_ns % period_ns < period_ns / 2 {
            BULK
        } else {
            IDLE
        }
    }
}

/// The most that netto may take of a CPU, per cent: on average over ten seconds; in any second, since a window may
/// meet more than the load of the intervals by which its length was chosen; and in one in which a load begins.
const MOST_OF_TEN_SECONDS: f64 = 100.0 * BUDGET + 0.2;
const MOST_OF_A_SECOND: f64 = 100.0 * BUDGET + 0.35;
const MOST_OF_THE_FIRST: f64 = 100.0 * BUDGET + 0.7;

/// Asserts that a load costs no more than that; `begins` are the seconds in which it begins.
fn assert_affordable(
    name: &str,
    cpus: usize,
    prices: Prices,
    load: impl Fn(usize, u64) -> Load,
    begins: impl Fn(usize) -> bool,
) {
    let mut host = Host::new(cpus, Precision::default(), prices, load);
    host.run(60);
    let percents = host.percents();
    for (second, percent) in percents.iter().enumerate() {
        let most = if begins(second) {
            MOST_OF_THE_FIRST
        } else {
            MOST_OF_A_SECOND
        };
        assert!(
            *percent <= most,
            "{name}: {percent:.2} % in second {second}"
        );
    }
    for ten in percents.windows(10) {
        let mean = ten.iter().sum::<f64>() / 10.0;
        assert!(
            mean <= MOST_OF_TEN_SECONDS,
            "{name}: {mean:.2} % of {ten:?}"
        );
    }
}

#[test]
fn a_load_that_begins_takes_the_budget_and_little_more_in_its_first_second() {
    for prices in [guest(), Prices::default()] {
        for before in [IDLE, LIGHT] {
            let load = |_: usize, now_ns: u64| {
                if now_ns > 12 * SECOND_NS + 130 * MS {
                    BULK
                } else {
                    before
                }
            };
            assert_affordable("begins", 2, prices.clone(), load, |second| second == 12);
            let load = |_: usize, now_ns: u64| {
                if now_ns < 12 * SECOND_NS + 130 * MS {
                    BULK
                } else {
                    before
                }
            };
            assert_affordable("ends", 2, prices.clone(), load, |second| second == 0);
        }
    }
}

#[test]
fn one_busy_cpu_of_64_takes_the_budget() {
    for prices in [guest(), Prices::default()] {
        let load = |cpu: usize, _: u64| if cpu == 7 { BULK } else { IDLE };
        assert_affordable("one of 64", 64, prices, load, |second| second == 0);
    }
}

#[test]
fn a_load_that_comes_and_goes_takes_the_budget_whatever_its_period() {
    for prices in [guest(), Prices::default()] {
        for period_ms in [
            100, 300, 600, 700, 1_000, 1_700, 3_000, 4_100, 7_000, 9_000, 10_000,
        ] {
            let load = alternating(period_ms * MS);
            let begins = |second: usize| {
                let numbers = 0..=second as u64 * 1_000 / period_ms + 1;
                let mut begins_ms = numbers.map(|number| number * period_ms);
                begins_ms.any(|ms| ms / 1_000 == second as u64)
            };
            assert_affordable(&format!("{period_ms} ms"), 2, prices.clone(), load, begins);
        }
    }
}

/// Samples of a second, relative to what the precision needs, under bulk TCP; and whether they are said to be few.
fn precision_of(points: f64, cpus: usize, prices: Prices) -> (f64, bool) {
    let precision = Precision::new(points / 100.0);
    let mut host = Host::new(cpus, precision, prices, |_, _| BULK);
    host.run(60);
    let network_cpus = cpus as f64 * BULK.network_ratio;
    let needed_hz = precision.needed_hz(network_cpus, cpus) * network_cpus;
    (
        host.samples_hz(20) / needed_hz,
        host.orders.are_samples_too_few,
    )
}

#[test]
fn samples_are_as_many_as_the_precision_needs_or_are_said_to_be_too_few() {
    for prices in [guest(), Prices::default()] {
        for cpus in [2, 16, 64] {
            for points in [1.0, 2.0, 5.0, 10.0] {
                let (of_needed, are_too_few) = precision_of(points, cpus, prices.clone());
                let (too_few, enough) = TOO_FEW;
                assert!(
                    are_too_few || of_needed >= too_few,
                    "{cpus} CPUs: {of_needed}"
                );
                assert!(
                    !are_too_few || of_needed <= enough,
                    "{cpus} CPUs: {of_needed}"
                );
            }
        }
    }
    let (of_needed, are_too_few) = precision_of(5.0, 64, guest());
    assert!(of_needed >= 1.0 && !are_too_few, "{of_needed}");
    assert!(precision_of(1.0, 2, guest()).1);
}

#[test]
fn more_precision_is_paid_by_windows_and_less_leaves_them_more() {
    let windows_ns = |points: f64| {
        let precision = Precision::new(points / 100.0);
        let mut host = Host::new(2, precision, guest(), |_, _| BULK);
        host.planner.learn_analysis(20 * SECOND_NS, 0);
        let mut length_ns = 0;
        let mut from_ns = 0;
        while from_ns < 30 * SECOND_NS {
            from_ns = host.run_interval(from_ns);
            let windows = host.orders.windows.iter();
            length_ns += windows.map(|order| order.window.length_ns).sum::<u64>();
        }
        length_ns
    };
    assert!(windows_ns(50.0) > windows_ns(1.0));
}
