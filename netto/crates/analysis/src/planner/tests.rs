//! What is ordered for groups of each kind of limit, and when a load begins.

use std::time::Duration;

use super::*;

const SECOND: u64 = 1_000_000_000;
const MEMBER: Group = Group::Registered(3);

struct Plans {
    planner: Planner,
    prices: Prices,
    now_ns: u64,
    held_back: GroupSet,
    timers_ratio: f64,
}

impl Plans {
    fn of(limit: Limit) -> Self {
        let clock = ClockGroups {
            planned: GroupSet::NONE,
            choosable: GroupSet::NONE,
        };
        let analyzer = AnalyzerCost::new(Duration::from_millis(500), 4);
        let rates = Rates::new(1_000, 250);
        let mut planner = Planner::new(0.01, Precision::default(), clock, rates, analyzer, 1);
        planner.add(MEMBER, limit, true);
        Plans {
            planner,
            prices: Prices::default(),
            now_ns: 0,
            held_back: GroupSet::NONE,
            timers_ratio: 0.0,
        }
    }

    /// After a second in which the group cost a CPU this share of its time, or would have.
    fn after(&mut self, cost_ratio: f64) -> Orders {
        self.now_ns += SECOND;
        let mut costs = [0; GROUPS];
        costs[MEMBER.index()] = (cost_ratio * SECOND as f64) as u64;
        self.planner.plan(&Findings {
            now_ns: self.now_ns,
            interval_ns: SECOND,
            cpus: &[CpuFindings {
                number: 0,
                network_ratio: Some(0.5),
                has_seen_network: false,
                busy_ratio: Some(0.5),
                daemon_ratio: 0.0,
                timers_ratio: self.timers_ratio,
            }],
            costs: &[costs],
            prices: &self.prices,
            attached: GroupSet::NONE.with(MEMBER),
            held_back: self.held_back,
            has_samples: true,
            packets: None,
            begun: &[],
        })
    }
}

fn is_attached(orders: &Orders) -> bool {
    orders.attached.has(MEMBER)
}

fn has_window(orders: &Orders) -> bool {
    orders.windows.iter().any(|order| order.group == MEMBER)
}

#[test]
fn a_group_whose_feature_samples_stays_whatever_it_costs() {
    let mut plans = Plans::of(Limit::Sampling);
    for _ in 0..5 {
        let orders = plans.after(9.0);
        assert!(is_attached(&orders) && !has_window(&orders));
    }
}

#[test]
fn a_group_with_a_limit_has_windows_until_it_has_cost_little_for_ten_seconds() {
    let mut plans = Plans::of(Limit::Windows { most: 0.5 });
    assert!(is_attached(&plans.after(0.004)));
    let orders = plans.after(0.1);
    assert!(!is_attached(&orders) && plans.planner.is_in_windows(MEMBER));
    let windows = (0..5).filter(|_| has_window(&plans.after(0.1))).count();
    assert!(windows > 0, "those of a loaded host");
    for _ in 0..9 {
        assert!(!is_attached(&plans.after(0.001)));
    }
    assert!(is_attached(&plans.after(0.001)));
}

#[test]
fn a_group_that_could_not_be_attached_has_no_window_for_half_a_minute() {
    let mut plans = Plans::of(Limit::Windows { most: 0.5 });
    plans.planner.fail(MEMBER, 0);
    for _ in 1..30 {
        let orders = plans.after(0.0);
        assert!(!is_attached(&orders) && !has_window(&orders));
    }
    assert!(has_window(&plans.after(0.0)));
}

#[test]
fn a_group_that_others_take_away_is_left_alone() {
    for limit in [Limit::Windows { most: 0.5 }, Limit::Sampling] {
        let mut plans = Plans::of(limit);
        plans.held_back = GroupSet::NONE.with(MEMBER);
        for cost_ratio in [0.0, 0.1, 0.1] {
            let orders = plans.after(cost_ratio);
            assert!(!is_attached(&orders) && !has_window(&orders));
        }
    }
}

#[test]
fn the_sampler_leaves_what_windows_take_on_average() {
    let mut plans = Plans::of(Limit::Windows { most: 0.5 });
    let costs = |_| plans.after(0.02);
    let orders: Vec<_> = (0..20).map(costs).collect();
    let windows = orders.iter().flat_map(|orders| &orders.windows);
    let open_ns: u64 = windows.map(|order| order.window.length_ns).sum();
    let taken_ratio = 0.02 * open_ns as f64 / (20 * SECOND) as f64;
    let expected_ratio = plans
        .planner
        .windows(MEMBER)
        .map(|windows| windows.ratio(0.02));
    let expected_ratio = expected_ratio.unwrap();
    assert!(
        (0.0008..=0.001).contains(&expected_ratio),
        "{expected_ratio}"
    );
    assert!(
        (taken_ratio / expected_ratio - 1.0).abs() < 0.1,
        "{taken_ratio}"
    );
}

#[test]
fn few_softirqs_after_a_rest_are_no_load_and_many_are_one() {
    let plans = Plans::of(Limit::Sampling);
    let ends_interval = |hz| plans.planner.ends_interval(hz, &plans.prices);
    assert!(!ends_interval(2_000.0) && !ends_interval(20_000.0));
    assert!(ends_interval(50_000.0) && ends_interval(155_000.0));
    let [quiet, measured] = plans.planner.alarm(0.0, &plans.prices);
    let ns = (quiet + measured) as f64 * plans.prices.of_event_ns(Group::Softirqs);
    assert!(ns < 1e6, "{ns} ns of timing softirqs are not noticed");
    let [known, _] = plans.planner.alarm(20_000.0, &plans.prices);
    assert!(
        known > 20_000,
        "a second of the load there is sets none off"
    );
}

#[test]
fn a_load_that_has_begun_is_judged_as_if_it_had_lasted() {
    let mut costs = [0; GROUPS];
    costs[Group::Softirqs.index()] = 3_000 * 300;
    costs[MEMBER.index()] = 1_000_000;
    let cpu = |number| CpuFindings {
        number,
        network_ratio: Some(0.01),
        has_seen_network: false,
        busy_ratio: Some(0.02),
        daemon_ratio: 0.004,
        timers_ratio: 0.0,
    };
    let findings = Findings {
        now_ns: 0,
        interval_ns: 2 * SECOND,
        cpus: &[cpu(0), cpu(1)],
        costs: &[costs; 2],
        prices: &Prices::default(),
        attached: GroupSet::NONE,
        held_back: GroupSet::NONE,
        has_samples: true,
        packets: None,
        begun: &[(1, 150_000.0)],
    };
    // 3,000 softirqs were of its beginning: in two seconds there would have been a hundred times as many.
    let (cpus, projected) = findings.as_if_begun();
    assert_eq!(projected[0], costs, "another CPU");
    assert_eq!(projected[1][Group::Softirqs.index()], 300_000 * 300);
    assert_eq!(projected[1][MEMBER.index()], 100_000_000);
    let network = cpus.iter().map(|cpu| cpu.network_ratio);
    assert_eq!(network.collect::<Vec<_>>(), [Some(0.01), Some(1.0)]);
    // What the daemon took of a tenth of a second is a fifth as much of the half that stands for it.
    let (cpus, _) = Findings {
        interval_ns: SECOND / 10,
        ..findings
    }
    .as_if_begun();
    assert_eq!(cpus[0].daemon_ratio, 0.004 / 5.0);
}

/// A CPU full of networking, on which a stack is assumed to cost 0.5 ms, and its load, of which samples break off this
/// part of what is assumed.
fn rates_after_trials(charged: f64) -> (SamplePrice, Rate) {
    let prices = Prices {
        timer_ns: 14_000.0,
        ..Prices::default()
    };
    let assumed = prices.felt_sample().on(1.0);
    let clock = ClockGroups {
        planned: GroupSet::NONE,
        choosable: GroupSet::NONE,
    };
    let analyzer = AnalyzerCost::new(Duration::from_millis(500), 4);
    let rates = Rates::new(1_000, 0);
    let mut planner = Planner::new(0.1, Precision::default(), clock, rates, analyzer, 1);
    let mut random = SplitMix64(5);
    let mut rate = Rate {
        hz: 1_000,
        ticks_hz: 0,
        is_look: false,
    };
    for interval in 1..=7_200 {
        let lost = charged * rate.hz as f64 * assumed / 1e9;
        let scatter = 1.0 + 0.01 * (random.ratio() - 0.5);
        let orders = planner.plan(&Findings {
            now_ns: interval * SECOND / 2,
            interval_ns: SECOND / 2,
            cpus: &[CpuFindings {
                number: 0,
                network_ratio: Some(1.0),
                has_seen_network: false,
                busy_ratio: Some(1.0),
                daemon_ratio: 0.0,
                timers_ratio: 0.0,
            }],
            costs: &[[0; GROUPS]],
            prices: &prices,
            attached: GroupSet::NONE,
            held_back: GroupSet::NONE,
            has_samples: true,
            packets: Some((100_000.0 * (1.0 - lost) * scatter) as u64),
            begun: &[],
        });
        rate = orders.rates[0];
    }
    (planner.sample_price(&prices), planner.rates.of(0))
}

#[test]
fn a_stream_that_samples_do_not_break_off_is_not_charged_for_and_is_sampled_as_asked() {
    let (price, rate) = rates_after_trials(0.0);
    assert!(price.trials > 40, "{price:?}");
    assert!(price.perf.ns < 50_000.0, "{price:?}");
    assert_eq!(rate.hz, 1_000, "{price:?}");
}

#[test]
fn a_stream_that_samples_break_off_as_assumed_is_sampled_as_the_budget_allows() {
    let (price, rate) = rates_after_trials(1.0);
    let assumed_ns = 508_000.0;
    let error_ns = (price.perf.ns - assumed_ns).abs();
    assert!(error_ns < price.perf.half_width_ns, "{price:?}");
    assert!(price.perf.half_width_ns < 0.2 * assumed_ns, "{price:?}");
    assert!((140..220).contains(&rate.hz), "{rate:?}, {price:?}");
}

#[test]
fn where_timers_are_many_the_tick_takes_no_stacks_and_is_tried_again_ever_later() {
    let mut plans = Plans::of(Limit::Sampling);
    let orders = plans.after(0.0);
    assert!(orders.has_ticks && orders.rates[0].ticks_hz > 0);
    let mut rests = Vec::new();
    for _ in 0..4 {
        // 12,500 a second of 400 ns.
        plans.timers_ratio = 0.005;
        let orders = plans.after(0.0);
        let rate = orders.rates[0];
        assert!(
            !orders.has_ticks && rate.ticks_hz == 0 && rate.hz > 0,
            "{rate:?}"
        );
        // While its sampler is detached, nobody counts them.
        plans.timers_ratio = 0.0;
        rests.push((1..=1_000).find(|_| plans.after(0.0).has_ticks));
    }
    assert_eq!(rests, [30, 60, 120, 240].map(Some));
    let attached = (0..60).all(|_| plans.after(0.0).has_ticks);
    assert!(attached, "few timers");
}
