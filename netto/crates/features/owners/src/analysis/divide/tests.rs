//! The division of time among owners, for different evidence.

use metrics_common::component::index_of;
use proptest::prelude::*;

use super::super::owner_table::{NOBODY, OTHER, OwnerId, OwnerTable, UNKNOWN};
use super::super::ranking::Ranking;
use super::*;

fn row(slug: &str) -> usize {
    index_of(slug).unwrap()
}

fn pair(cause: u32, payer: u32) -> Pair {
    Pair { cause, payer }
}

fn sample(cpu: usize, event: &str, part: Option<&str>, pair: Pair, found: Evidence) -> Attributed {
    let event = row(event);
    Attributed {
        cpu,
        event,
        leaf: leaf_of(event, part.map(row)),
        pair,
        found,
        is_of_window: false,
        weight: 1.0,
    }
}

fn cost(times: &[(&str, [u64; 2])]) -> Cost {
    let mut components = vec![None; COMPONENTS.len()];
    for (slug, ns) in times {
        components[row(slug)] = Some(ns.to_vec());
    }
    Cost {
        components,
        ..Cost::NOTHING
    }
}

fn divided(division: &mut Division, cost: &Cost) -> (Vec<Portion>, Vec<OwnerBasis>) {
    let mut portions = Vec::new();
    let bases = division.divide(cost, &[0, 1], |portion| portions.push(portion));
    (portions, bases)
}

fn caused(portions: &[Portion], slug: &str, cause: u32) -> u64 {
    let is_wanted = |p: &&Portion| p.leaf == row(slug) && p.pair.cause == cause;
    portions.iter().filter(is_wanted).map(|p| p.ns).sum()
}

#[test]
fn a_sample_that_stands_for_more_time_has_more_of_it() {
    let mut division = Division::default();
    division.begin(1_000, 1);
    for (cause, weight) in [(1, 15.0), (2, 5.0)] {
        let whose = pair(cause, 9);
        division.add(Attributed {
            weight,
            ..sample(0, "rx_softirq", Some("gro"), whose, Evidence::Socket)
        });
    }
    let (portions, _) = divided(&mut division, &cost(&[("gro", [4_000, 0])]));
    assert_eq!(caused(&portions, "gro", 1), 3_000);
    assert_eq!(caused(&portions, "gro", 2), 1_000);
}

#[test]
fn a_component_is_divided_as_its_samples_are() {
    let mut division = Division::default();
    division.begin(500_000_000, 2);
    for (cause, count) in [(1, 30), (2, 10)] {
        for _ in 0..count {
            let whose = pair(cause, 9);
            division.add(sample(
                0,
                "rx_softirq",
                Some("gro"),
                whose,
                Evidence::Socket,
            ));
        }
    }
    let (portions, bases) = divided(&mut division, &cost(&[("gro", [4_001, 0])]));
    assert_eq!(
        caused(&portions, "gro", 1),
        3_001,
        "the rest goes to the largest"
    );
    assert_eq!(caused(&portions, "gro", 2), 1_000);
    let basis = bases
        .iter()
        .find(|b| b.component as usize == row("rx_softirq"));
    assert_eq!(basis.unwrap().socket_ns, 4_001);
}

#[test]
fn a_part_without_samples_goes_as_its_event_does() {
    let mut division = Division::default();
    division.begin(500_000_000, 2);
    division.add(sample(
        0,
        "rx_softirq",
        Some("gro"),
        pair(1, 9),
        Evidence::Socket,
    ));
    let (portions, _) = divided(&mut division, &cost(&[("rx_unattributed", [77, 0])]));
    assert_eq!(caused(&portions, "rx_unattributed", 1), 77);
}

#[test]
fn an_event_that_is_not_broken_down_here_has_owners_all_the_same() {
    let mut division = Division::default();
    division.begin(500_000_000, 2);
    let sampled = sample(0, "rx_softirq", None, pair(1, 9), Evidence::Socket);
    division.add(sampled);
    let (portions, _) = divided(&mut division, &cost(&[("rx_softirq", [77, 0])]));
    assert_eq!(caused(&portions, "rx_softirq", 1), 77);
}

#[test]
fn timers_that_show_no_socket_go_by_the_sends_of_their_cpu() {
    let mut division = Division::default();
    division.begin(500_000_000, 2);
    for (cpu, cause) in [(0, 1), (1, 2)] {
        for _ in 0..10 {
            division.add(sample(
                cpu,
                "tx_syscall",
                None,
                pair(cause, cause),
                Evidence::Task,
            ));
            division.add(sample(
                cpu,
                "net_timer",
                None,
                pair(0, 0),
                Evidence::Nothing,
            ));
        }
    }
    let (portions, bases) = divided(&mut division, &cost(&[("net_timer", [100, 200])]));
    assert_eq!(caused(&portions, "net_timer", 1), 100);
    assert_eq!(caused(&portions, "net_timer", 2), 200);
    let basis = bases
        .iter()
        .find(|b| b.component as usize == row("net_timer"));
    assert_eq!(basis.unwrap().proportion_ns, 300);
}

/// Two payers, of whom one has three quarters of the time; more samples of a window fell on the other.
#[test]
fn samples_of_a_window_tell_causes_and_stand_for_no_time() {
    let mut division = Division::default();
    division.begin(500_000_000, 2);
    let received = |pair, found| sample(0, "rx_softirq", Some("gro"), pair, found);
    for (cause, payer, count) in [(1, 8, 10), (2, 9, 80), (3, 9, 20)] {
        for _ in 0..count {
            division.add(Attributed {
                is_of_window: true,
                weight: 1.0,
                ..received(pair(cause, payer), Evidence::Socket)
            });
        }
    }
    for (payer, count) in [(8, 30), (9, 10)] {
        for _ in 0..count {
            division.add(received(pair(UNKNOWN, payer), Evidence::Unknown));
        }
    }
    let (portions, _) = divided(&mut division, &cost(&[("gro", [40_000, 0])]));
    let found = [1, 2, 3].map(|cause| caused(&portions, "gro", cause));
    assert_eq!(found, [30_000, 8_000, 2_000]);
    // Later, they are of the past like all others.
    division.begin(500_000_000, 2);
    division.add(received(pair(UNKNOWN, 8), Evidence::Unknown));
    let (portions, _) = divided(&mut division, &cost(&[("gro", [100, 0])]));
    assert_eq!(caused(&portions, "gro", 1), 100);
}

#[test]
fn a_packet_that_met_nobody_is_nobodys() {
    let mut division = Division::default();
    division.begin(500_000_000, 2);
    for _ in 0..10 {
        let nobody = pair(NOBODY, 9);
        division.add(sample(
            0,
            "rx_softirq",
            Some("gro"),
            nobody,
            Evidence::Nothing,
        ));
        let whose = pair(1, 9);
        division.add(sample(
            0,
            "rx_softirq",
            Some("gro"),
            whose,
            Evidence::Socket,
        ));
    }
    let (portions, bases) = divided(&mut division, &cost(&[("gro", [100, 0])]));
    assert_eq!(caused(&portions, "gro", NOBODY), 50);
    assert_eq!(caused(&portions, "gro", 1), 50);
    let basis = bases
        .iter()
        .find(|b| b.component as usize == row("rx_softirq"));
    assert_eq!(basis.unwrap().nothing_ns, 50);
}

fn paid(portions: &[Portion], slug: &str, pair: Pair) -> u64 {
    let is_wanted = |p: &&Portion| p.leaf == row(slug) && p.pair == pair;
    portions.iter().filter(is_wanted).map(|p| p.ns).sum()
}

#[test]
fn while_owners_are_not_looked_for_the_cause_is_unknown_and_the_payer_is_not() {
    let mut division = Division::default();
    division.begin(500_000_000, 2);
    for (payer, count) in [(8, 30), (9, 10)] {
        for _ in 0..count {
            let whose = pair(UNKNOWN, payer);
            division.add(sample(
                0,
                "rx_softirq",
                Some("gro"),
                whose,
                Evidence::Unknown,
            ));
        }
    }
    // What the CPU's tasks receive themselves says nothing of the cause.
    let task = pair(7, 7);
    division.add(sample(0, "rx_syscall", None, task, Evidence::Task));
    let (portions, bases) = divided(&mut division, &cost(&[("gro", [4_000, 0])]));
    assert_eq!(paid(&portions, "gro", pair(UNKNOWN, 8)), 3_000);
    assert_eq!(paid(&portions, "gro", pair(UNKNOWN, 9)), 1_000);
    let basis = bases
        .iter()
        .find(|b| b.component as usize == row("rx_softirq"));
    assert_eq!(basis.unwrap().unknown_ns, 4_000);
}

#[test]
fn a_sample_without_a_cause_has_those_of_samples_with_the_same_payer() {
    let mut division = Division::default();
    division.begin(500_000_000, 2);
    let found = |cause, payer| {
        sample(
            0,
            "rx_softirq",
            Some("gro"),
            pair(cause, payer),
            Evidence::Socket,
        )
    };
    for one in [found(1, 8), found(2, 9)] {
        division.add(one);
    }
    for payer in [8, 9, 9, 10] {
        let open = pair(UNKNOWN, payer);
        division.add(sample(
            0,
            "rx_softirq",
            Some("gro"),
            open,
            Evidence::Unknown,
        ));
    }
    let (portions, _) = divided(&mut division, &cost(&[("gro", [6_000, 0])]));
    assert_eq!(paid(&portions, "gro", pair(1, 8)), 2_000);
    assert_eq!(paid(&portions, "gro", pair(2, 9)), 3_000);
    assert_eq!(paid(&portions, "gro", pair(UNKNOWN, 10)), 1_000);
}

#[test]
fn waking_another_cpu_is_paid_by_the_interrupted_and_caused_by_who_receives_there() {
    let [sender, receiver, bystander] = [10, 11, 12];
    let mut division = Division::default();
    division.begin(1, 2);
    let packet = |cpu, cause, payer| {
        let pair = pair(cause, payer);
        sample(cpu, "rx_softirq", None, pair, Evidence::Socket)
    };
    division.add(packet(1, receiver, 3));
    // Another's packet that came in on top of the same sender.
    division.add(packet(0, bystander, sender));
    let none = pair(NOBODY, sender);
    let wakes = sample(0, "rx_softirq", Some("napi_loop"), none, Evidence::Nothing);
    division.add(wakes);
    let (portions, _) = divided(&mut division, &cost(&[("napi_loop", [70, 0])]));
    assert_eq!(paid(&portions, "napi_loop", pair(receiver, sender)), 70);
}

#[test]
fn between_windows_waking_another_cpu_is_caused_as_windows_showed() {
    let [sender, receiver, bystander] = [10, 11, 12];
    let mut division = Division::default();
    division.begin(1, 2);
    let of_window = |sample| Attributed {
        is_of_window: true,
        weight: 1.0,
        ..sample
    };
    let poll = |cause, found| {
        let pair = pair(cause, sender);
        sample(0, "rx_softirq", Some("napi_loop"), pair, found)
    };
    for _ in 0..3 {
        division.add(of_window(poll(NOBODY, Evidence::Nothing)));
    }
    division.add(of_window(poll(bystander, Evidence::Socket)));
    let packet = sample(1, "rx_softirq", None, pair(receiver, 3), Evidence::Socket);
    division.add(of_window(packet));
    for has_samples in [true, false] {
        division.begin(1, 2);
        if has_samples {
            division.add(poll(UNKNOWN, Evidence::Unknown));
        }
        let (portions, _) = divided(&mut division, &cost(&[("napi_loop", [80, 0])]));
        assert_eq!(paid(&portions, "napi_loop", pair(receiver, sender)), 60);
        assert_eq!(paid(&portions, "napi_loop", pair(bystander, sender)), 20);
    }
}

/// What was handed on has its cause in the interval of the window, and in those after it.
#[test]
fn between_windows_what_was_charged_for_waking_another_cpu_is_caused_by_who_receives_there() {
    let [sender, one, two] = [10, 11, 12];
    let mut division = Division::default();
    division.begin(1, 2);
    let waking = pair(NOBODY, sender);
    division.add_charge(0, waking, Evidence::Nothing, 50_000_000);
    division.add_charge(1, pair(one, 3), Evidence::Socket, 30_000_000);
    division.add_charge(1, pair(two, 3), Evidence::Socket, 10_000_000);
    for _ in 0..3 {
        let (portions, _) = divided(&mut division, &cost(&[("napi_loop", [8_000, 0])]));
        let found = [one, two].map(|cause| paid(&portions, "napi_loop", pair(cause, sender)));
        assert!(
            found[0].abs_diff(6_000) <= 1 && found[1].abs_diff(2_000) <= 1,
            "{found:?}"
        );
        division.begin(1, 2);
    }
}

#[test]
fn softirqs_and_their_parts_take_from_who_they_interrupt_and_calls_do_not() {
    for slug in ["rx_softirq", "gro", "rx_unattributed", "net_timer"] {
        assert!(takes(row(slug)), "{slug}");
    }
    for slug in ["tx_syscall", "rx_syscall", "local_ipc"] {
        assert!(!takes(row(slug)), "{slug}");
    }
}

#[test]
fn polling_for_all_packets_goes_as_these_do() {
    let mut division = Division::default();
    division.begin(500_000_000, 2);
    let sampled = sample(1, "rx_softirq", Some("gro"), pair(1, 9), Evidence::Socket);
    division.add(sampled);
    for _ in 0..10 {
        let nobody = pair(NOBODY, 8);
        division.add(sample(
            0,
            "rx_softirq",
            Some("backlog"),
            nobody,
            Evidence::Nothing,
        ));
    }
    let (portions, _) = divided(&mut division, &cost(&[("backlog", [50, 0])]));
    assert_eq!(caused(&portions, "backlog", 1), 50);
}

proptest! {
    #[test]
    fn whatever_was_sampled_all_time_is_handed_out_and_no_more(
        times in prop::collection::vec((0_usize..COMPONENTS.len(), 0_u64..1 << 40, 0_u64..1 << 20), 0..30),
        samples in prop::collection::vec((0_usize..3, 0_usize..30, 0_usize..60, 0_u32..5, 0_usize..5), 0..200),
    ) {
        let mut division = Division::default();
        let events: Vec<usize> = division.events.iter().map(|event| event.row).collect();
        let leaves: Vec<usize> = division.events.iter().flat_map(|event| event.leaves.clone()).collect();
        let mut components = vec![None; COMPONENTS.len()];
        for (at, a, b) in times {
            components[leaves[at % leaves.len()]] = Some(vec![a, b]);
        }
        let cost = Cost { components, ..Cost::NOTHING };
        for _ in 0..3 {
            division.begin(500_000_000, 2);
            for &(cpu, event, part, cause, found) in &samples {
                let event = events[event % events.len()];
                let parts = children(event);
                let part = parts.get(part % parts.len().max(1)).copied();
                let found = [Evidence::Task, Evidence::Socket, Evidence::Interface, Evidence::Nothing, Evidence::Unknown][found];
                division.add(Attributed { cpu, event, leaf: leaf_of(event, part), pair: pair(cause, 1), found, is_of_window: false, weight: 1.0 });
            }
            let (portions, bases) = divided(&mut division, &cost);
            for &leaf in &leaves {
                for column in 0..2 {
                    let handed: u64 = portions.iter().filter(|p| p.leaf == leaf && p.column == column).map(|p| p.ns).sum();
                    let time = cost.cpu_ns(leaf).map_or(0, |row| row[column]);
                    prop_assert_eq!(handed, time);
                }
            }
            for basis in bases {
                let event = division.events.iter().find(|event| event.row == basis.component as usize).unwrap();
                let time: u64 = event.leaves.iter().filter_map(|&leaf| cost.cpu_ns(leaf)).flatten().sum();
                let OwnerBasis { task_ns, socket_ns, interface_ns, proportion_ns, nothing_ns, unknown_ns, .. } = basis;
                prop_assert_eq!(task_ns + socket_ns + interface_ns + proportion_ns + nothing_ns + unknown_ns, time);
            }
        }
    }
}

/// Each interval has hundreds of new owners, each with work of its own.
#[test]
fn in_a_storm_of_owners_nothing_is_lost_and_the_costliest_keep_what_is_theirs() {
    let mut division = Division::default();
    let mut register = OwnerTable::default();
    let mut ranking = Ranking::default();
    let cost = cost(&[
        ("gro", [1_000_000_007, 0]),
        ("ip_receive_v4", [3, 600_000_011]),
    ]);
    let whole_ns = 1_000_000_007 + 3 + 600_000_011;
    let mut all_ns = 0.0;
    for interval in 0..60 {
        division.begin(1_000_000_000, 2);
        ranking.begin(1_000_000_000);
        let faithful = register.number(OwnerId::Cgroup(1));
        let newcomers = (0..500).map(|number| OwnerId::Cgroup(1000 + 500 * interval + number));
        let mut causes = vec![faithful; 100];
        causes.extend(newcomers.map(|who| register.number(who)));
        for (number, cause) in causes.into_iter().enumerate() {
            let whose = pair(cause, faithful);
            division.add(sample(
                number % 2,
                "rx_softirq",
                Some("gro"),
                whose,
                Evidence::Socket,
            ));
        }
        let (portions, _) = divided(&mut division, &cost);
        assert_eq!(portions.iter().map(|p| p.ns).sum::<u64>(), whole_ns);
        assert_eq!(
            caused(&portions, "gro", faithful),
            166_666_757,
            "a sixth, and what rounding leaves, in interval {interval}"
        );
        for portion in &portions {
            ranking.add(portion.pair.cause, portion.ns);
        }
        all_ns = all_ns * 0.5_f64.powf(1.0 / 30.0) + whole_ns as f64;
        if let Some(moved) = register.forget(|who| ranking.of_late_ns(who)) {
            let renamed = |who: u32| moved[who as usize];
            division.rename(renamed);
            ranking.rename(register.len(), renamed);
        }
        assert!(register.len() <= 4096, "{} are known", register.len());
        let known = 0..register.len() as u32;
        let of_late_ns: f64 = known.map(|who| ranking.of_late_ns(who)).sum();
        assert!((of_late_ns / all_ns - 1.0).abs() < 1e-9);
    }
    assert!(ranking.of_late_ns(OTHER) > 0.0, "nobody was ever forgotten");
    // Without samples it goes by the past, in which everybody has another number by now.
    division.begin(1_000_000_000, 2);
    let (portions, _) = divided(&mut division, &cost);
    assert_eq!(portions.iter().map(|p| p.ns).sum::<u64>(), whole_ns);
}

#[test]
fn softirqs_are_divided_as_time_was_charged_and_samples_tell_the_parts() {
    let mut division = Division::default();
    for interval in 0..3 {
        division.begin(500_000_000, 2);
        // A window in the first.
        if interval == 0 {
            for (cause, payer, ns) in [(1, 8, 3_000_000), (2, 8, 500_000), (2, 9, 500_000)] {
                let found = Evidence::Socket;
                division.add_charge(0, pair(cause, payer), found, ns);
            }
        }
        for payer in [8, 9] {
            for _ in 0..10 {
                let whose = pair(2, payer);
                let sampled = sample(0, "rx_softirq", Some("gro"), whose, Evidence::Socket);
                division.add(sampled);
            }
        }
        let cost = cost(&[("gro", [1_000, 0]), ("ip_receive_v4", [3_000, 0])]);
        let (portions, bases) = divided(&mut division, &cost);
        let ns = |cause, payer| {
            let of_pair = portions
                .iter()
                .filter(|portion| portion.pair == pair(cause, payer));
            of_pair.map(|portion| portion.ns).sum::<u64>()
        };
        for (cause, payer, expected) in [(1, 8, 3_000_u64), (2, 8, 500), (2, 9, 500)] {
            assert!(ns(cause, payer).abs_diff(expected) < 40, "{portions:?}");
        }
        assert!(caused(&portions, "gro", 2) > 800, "{portions:?}");
        let basis = bases
            .iter()
            .find(|b| b.component as usize == row("rx_softirq"))
            .unwrap();
        let ways = (basis.socket_ns, basis.proportion_ns);
        let expected = if interval == 0 {
            (4_000, 0)
        } else {
            (0, 4_000)
        };
        assert_eq!(ways, expected, "{interval}");
    }
}

#[test]
fn a_softirq_that_met_no_packet_is_caused_elsewhere_unless_it_had_the_packet() {
    let [sender, receiver] = [10, 11];
    let mut division = Division::default();
    division.begin(1, 2);
    let none = pair(NOBODY, sender);
    division.add_charge(0, none, Evidence::Nothing, 1_000_000);
    division.add_charge(1, pair(receiver, 3), Evidence::Socket, 4_000_000);
    let cost = cost(&[("napi_loop", [70, 0]), ("gro", [30, 0])]);
    let (portions, _) = divided(&mut division, &cost);
    assert_eq!(paid(&portions, "napi_loop", pair(receiver, sender)), 70);
    assert_eq!(paid(&portions, "gro", none), 30);
}
