//! The choice of probes for rising, falling and jumping loads.

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;
const INTERVAL: u64 = SECOND / 2;
const SOFTIRQS: Group = Group::Softirqs;
const SENDS: Group = Group::Sends;

/// One CPU on which these groups take these shares of the time, as ratios.
fn load(shares: &[(Group, f64)]) -> GroupCosts {
    let mut costs = [0; GROUPS];
    for &(group, share) in shares {
        costs[group.index()] = (share * INTERVAL as f64) as u64;
    }
    costs
}

fn budget() -> Budget {
    Budget::new(0.01, GroupSet::ALL, GroupSet::ALL)
}

#[test]
fn probes_that_cost_little_stay() {
    let mut budget = budget();
    for _ in 0..1000 {
        let costs = load(&[(SOFTIRQS, 0.002), (SENDS, 0.002)]);
        assert_eq!(budget.decide(INTERVAL, &[costs; 4]), GroupSet::ALL);
    }
}

#[test]
fn one_hammered_cpu_among_many_is_enough_and_the_costliest_group_goes_at_once() {
    let mut budget = budget();
    let mut cpus = vec![load(&[]); 128];
    cpus[77] = load(&[(SOFTIRQS, 0.004), (SENDS, 0.2)]);
    let left = budget.decide(INTERVAL, &cpus);
    assert_eq!(
        GroupSet::ALL.minus(left).iter().collect::<Vec<_>>(),
        [Group::Sends]
    );
}

#[test]
fn all_that_costs_too_much_goes_together() {
    let mut budget = budget();
    let left = budget.decide(INTERVAL, &[load(&[(SOFTIRQS, 0.1), (SENDS, 0.2)])]);
    assert!(!left.has(Group::Softirqs) && !left.has(Group::Sends));
    assert!(left.has(Group::Switches) && left.has(Group::Receives));
}

#[test]
fn a_short_burst_is_borne() {
    let mut budget = budget();
    for turn in 0..200 {
        let share = if turn % 20 == 0 { 0.02 } else { 0.001 };
        assert_eq!(
            budget.decide(INTERVAL, &[load(&[(SENDS, share)])]),
            GroupSet::ALL
        );
    }
}

#[test]
fn a_little_too_much_is_too_much_in_the_long_run() {
    let mut budget = budget();
    let mut intervals = 0;
    while budget.decide(INTERVAL, &[load(&[(SENDS, 0.0055)])]) == GroupSet::ALL {
        intervals += 1;
        assert!(intervals < 200);
    }
    assert!(intervals > 10, "not at the first sight: {intervals}");
}

#[test]
fn a_group_comes_back_when_it_would_fit_well_and_not_while_it_nearly_would() {
    let mut budget = budget();
    budget.decide(INTERVAL, &[load(&[(SENDS, 0.3)])]);
    for _ in 0..1000 {
        // Within the probes' part, but not well within.
        let left = budget.decide(INTERVAL, &[load(&[(SENDS, 0.004)])]);
        assert!(!left.has(Group::Sends));
    }
    let mut intervals = 0;
    while !budget
        .decide(INTERVAL, &[load(&[(SENDS, 0.001)])])
        .has(Group::Sends)
    {
        intervals += 1;
    }
    assert_eq!(intervals, CALM_NS / INTERVAL - 1);
}

#[test]
fn without_context_switches_no_socket_probes_come_back() {
    let mut budget = budget();
    let switches = Group::Switches;
    budget.decide(INTERVAL, &[load(&[(switches, 0.3)])]);
    let mut costs = load(&[(switches, 0.02)]);
    let of_calls = Group::CALLS.map(|(group, _)| group);
    let gone = of_calls.into_iter().collect::<GroupSet>().with(switches);
    for _ in 0..1000 {
        let left = budget.decide(INTERVAL, &[costs]);
        assert_eq!(left, GroupSet::ALL.minus(gone));
    }
    costs[switches.index()] = 0;
    for _ in 0..100 {
        budget.decide(INTERVAL, &[costs]);
    }
    assert_eq!(budget.attached(), GroupSet::ALL);
}

#[test]
fn context_switches_go_with_the_last_call_that_needs_them_and_come_with_the_first() {
    let mut budget = budget();
    let switches = Group::Switches;
    let dear = Group::CALLS.map(|(group, _)| (group, 0.3));
    let left = budget.decide(INTERVAL, &[load(&dear[..2])]);
    assert!(left.has(switches) && left.has(Group::LocalIpc));
    let left = budget.decide(INTERVAL, &[load(&dear)]);
    assert!(!left.has(switches) && left.has(SOFTIRQS));
    // What they would cost counts for the call that brings them.
    for _ in 0..1000 {
        assert_eq!(budget.decide(INTERVAL, &[load(&[(switches, 0.003)])]), left);
    }
    let mut now = left;
    while now == left {
        now = budget.decide(INTERVAL, &[load(&[(switches, 0.001)])]);
    }
    assert_eq!(now.minus(left).iter().count(), 2, "one of the calls, too");
    assert!(now.has(switches));
}

#[test]
fn what_cannot_go_is_not_asked_to() {
    let mut budget = Budget::new(0.01, GroupSet::ALL, GroupSet::NONE.with(Group::Sends));
    let left = budget.decide(INTERVAL, &[load(&[(SOFTIRQS, 0.5)])]);
    assert_eq!(left, GroupSet::ALL);
}

#[test]
fn a_group_that_could_not_be_attached_is_not_paid_for_and_is_tried_again_ever_later() {
    let mut budget = budget();
    let group = Group::Registered(2);
    budget.decide(INTERVAL, &[load(&[(group, 0.3)])]);
    assert!(!budget.attached().has(group));
    let mut waits = Vec::new();
    for _ in 0..4 {
        let mut intervals = 0;
        while !budget.decide(INTERVAL, &[load(&[])]).has(group) {
            intervals += 1;
        }
        waits.push(intervals * INTERVAL / SECOND);
        budget.fail(group);
        assert!(!budget.attached().has(group));
    }
    assert!(waits.is_sorted_by(|a, b| *b >= 2 * *a - 1), "{waits:?}");
    // Its assumed cost takes no budget from the others.
    let costs = load(&[(group, 0.5), (SENDS, 0.004)]);
    for _ in 0..1000 {
        assert!(budget.decide(INTERVAL, &[costs]).has(SENDS));
    }
}

#[test]
fn a_group_that_comes_later_is_budgeted_and_one_that_ends_is_not() {
    let clock: GroupSet = Group::CLOCK.into_iter().collect();
    let mut budget = Budget::new(0.01, clock, clock);
    let group = Group::Registered(0);
    budget.add(group, true);
    assert!(budget.attached().has(group));
    let dear = load(&[(group, 0.3)]);
    assert_eq!(budget.decide(INTERVAL, &[dear]), clock);
    budget.remove(group);
    for _ in 0..1000 {
        assert_eq!(budget.decide(INTERVAL, &[load(&[])]), clock);
    }
    budget.add(group, false);
    assert!(budget.decide(INTERVAL, &[dear]).has(group), "it must stay");
}

proptest! {
    #[test]
    fn whatever_the_load_does_switches_are_few_and_probes_cost_little_more_than_allowed(
        loads in proptest::collection::vec((0.0..0.3_f64, 0.0..0.3_f64, 1_usize..60), 1..60),
    ) {
        let mut budget = budget();
        let (mut switches, mut paid, mut intervals, mut bursts) = (0, 0.0, 0.0_f64, 0.0);
        for (softirqs, sends, length) in loads {
            for _ in 0..length {
                let costs = load(&[(SOFTIRQS, softirqs), (SENDS, sends)]);
                let before = budget.attached();
                paid += sum(&costs, before) / INTERVAL as f64;
                intervals += 1.0;
                let after = budget.decide(INTERVAL, &[costs]);
                let gone = before.minus(after).iter().count();
                switches += gone + after.minus(before).iter().count();
                // The cost of a group in the interval in which it becomes too much, and of the
                // burst before.
                if gone > 0 {
                    bursts += sum(&costs, before) / INTERVAL as f64;
                }
            }
        }
        // A group that was attached again had been detached for at least ten seconds, and longer
        // each time.
        prop_assert!(switches as f64 <= 4.0 + 2.0 * intervals / 20.0, "{switches}");
        let allowed = 0.01 * PROBES_PART;
        let burst = allowed * BURST * WINDOW_NS as f64 / INTERVAL as f64;
        prop_assert!(paid <= allowed * intervals + bursts + burst * (switches as f64 + 1.0), "{paid}");
    }
}
