//! Owners as a section: sums, encoding and accounts.

use std::collections::HashMap;

use proptest::prelude::*;

use super::wire::OwnersWire;
use super::*;
use crate::codec;
use crate::packed::Damaged;
use crate::sections::{Columns, Section};

fn group(id: u64) -> Owner {
    Owner {
        id,
        cgroup: format!("/g{id}"),
        ..Owner::single(OwnerKind::Cgroup)
    }
}

/// Time of each of these groups: caused in a component on each of two CPUs, and taken from the last
/// group.
fn of(groups: &[(u64, u32, [u64; 2])]) -> Owners {
    let mut owners = Owners::default();
    for (id, component, cpu_ns) in groups {
        let owner = owners.place_of(&group(*id));
        owners.caused.push(Caused {
            owner,
            component: *component,
            cpu_ns: cpu_ns.to_vec(),
        });
        let payer = owners.place_of(&Owner::single(OwnerKind::Idle));
        owners.taken.push(Interruption {
            cause: owner,
            payer,
            ns: cpu_ns.iter().sum(),
        });
    }
    owners.join_alike();
    owners
}

/// By component and CPU, of all owners.
fn totals(owners: &Owners) -> HashMap<(u32, usize), u64> {
    let mut totals = HashMap::new();
    for caused in &owners.caused {
        for (cpu, ns) in caused.cpu_ns.iter().enumerate() {
            *totals.entry((caused.component, cpu)).or_insert(0) += ns;
        }
    }
    totals.retain(|_, ns| *ns > 0);
    totals
}

fn intervals() -> impl Strategy<Value = Vec<Vec<(u64, u32, [u64; 2])>>> {
    let one = (0_u64..2_000, 3_u32..6, [0_u64..1_000, 0_u64..1_000]);
    prop::collection::vec(prop::collection::vec(one, 0..80), 1..40)
}

proptest! {
    #[test]
    fn however_many_owners_come_no_time_is_lost_from_a_sum_and_it_stays_bounded(fed in intervals()) {
        let mut sum = Owners::default();
        let mut expected = HashMap::new();
        for interval in &fed {
            let later = of(interval);
            for (key, ns) in totals(&later) {
                *expected.entry(key).or_insert(0) += ns;
            }
            sum.add(&later, &Columns::join(&mut vec![0, 1], &[0, 1]));
            prop_assert!(sum.owners.len() <= MOST_OWNERS && sum.is_whole());
        }
        let taken: u64 = sum.taken.iter().map(|taken| taken.ns).sum();
        prop_assert_eq!(taken, expected.values().sum::<u64>());
        prop_assert_eq!(totals(&sum), expected);
    }

    #[test]
    fn what_is_written_is_read_back(interval in prop::collection::vec((0_u64..50, 0_u32..9, [0_u64..u64::MAX, 0_u64..3]), 0..40)) {
        let mut owners = Owners::default();
        owners.add(&of(&interval.iter().map(|(id, row, [a, b])| (*id, *row, [a >> 8, *b])).collect::<Vec<_>>()), &Columns::join(&mut vec![0, 1], &[0, 1]));
        owners.irq_pressure_ns.iter_mut().for_each(|ns| *ns = Some(7));
        let bytes = codec::encode(&owners.to_wire()).unwrap();
        let wire = codec::decode(&bytes).unwrap();
        prop_assert_eq!(Owners::from_wire(wire, 2).unwrap(), owners);
    }
}

#[test]
fn an_owner_keeps_its_time_under_a_name_that_is_learnt_later() {
    let columns = || Columns::join(&mut vec![0, 1], &[0, 1]);
    let mut sum = Owners::default();
    sum.add(&of(&[(7, 3, [10, 20])]), &columns());
    let mut later = of(&[(7, 3, [1, 2])]);
    later.owners[0].pod = "web-1".to_owned();
    sum.add(&later, &columns());
    assert_eq!(sum.owners[0].label(), "web-1");
    assert_eq!(sum.caused[0].cpu_ns, [11, 22]);
    assert_eq!(sum.caused.len(), 1);
}

#[test]
fn a_process_is_named_with_its_group_if_it_has_one() {
    let process = |id, cgroup: &str| Owner {
        kind: OwnerKind::Process,
        pid: 99,
        comm: "curl".to_owned(),
        cgroup: cgroup.to_owned(),
        ..group(id)
    };
    assert_eq!(process(0, "").label(), "curl [99]");
    assert_eq!(process(7, "/a.slice").label(), "curl [99] in /a.slice");
    assert_eq!(process(7, "").label(), "curl [99] in control group 7");
}

#[test]
fn processes_that_had_the_same_number_one_after_the_other_are_two() {
    let process = |started_ns| Owner {
        kind: OwnerKind::Process,
        pid: 99,
        started_ns,
        comm: "curl".to_owned(),
        ..group(7)
    };
    let mut owners = Owners::default();
    let places = [1, 2, 1].map(|started_ns| owners.place_of(&process(started_ns)));
    assert_eq!(places, [0, 1, 0]);
}

#[test]
fn cpus_that_come_and_go_keep_what_they_had() {
    let mut cpus = vec![0, 1];
    let mut sum = Owners::default();
    sum.add(
        &of(&[(7, 3, [10, 20]), (8, 3, [5, 5])]),
        &Columns::join(&mut cpus.clone(), &[0, 1]),
    );
    let columns = Columns::join(&mut cpus, &[1, 2]);
    sum.add(&of(&[(7, 3, [1, 2])]), &columns);
    assert_eq!(sum.caused[0].cpu_ns, [10, 21, 2]);
    assert_eq!(sum.caused[1].cpu_ns, [5, 5, 0]);
}

#[test]
fn a_message_that_names_an_owner_who_is_not_there_is_damaged() {
    let good = of(&[(7, 3, [10, 20])]);
    for break_it in [
        (|wire: &mut OwnersWire| wire.rows[0].0 = 9) as fn(&mut OwnersWire),
        |wire| wire.taken[0].1 = 2,
        |wire| wire.rows.push((0, 3)),
        |wire| wire.irq_pressure_ns.clear(),
        |wire| wire.owners.clear(),
    ] {
        let mut wire = good.to_wire();
        break_it(&mut wire);
        assert_eq!(Owners::from_wire(wire, 2), Err(Damaged));
    }
    assert_eq!(Owners::from_wire(good.to_wire(), 3), Err(Damaged));
}

#[test]
fn what_an_owner_caused_of_a_component_is_that_of_its_parts() {
    let row = |slug| crate::component::index_of(slug).unwrap();
    let owners = of(&[
        (7, row("gro") as u32, [10, 0]),
        (7, row("tx_syscall") as u32, [0, 5]),
        (8, row("gro") as u32, [100, 0]),
    ]);
    assert_eq!(owners.caused_ns(0, row("gro")), 10);
    assert_eq!(owners.caused_ns(0, row("rx_softirq")), 10);
    assert_eq!(owners.caused_ns(0, row("network")), 15);
    assert_eq!(owners.totals_ns()[0], 15);
}

/// Group 7 sends and receives, group 8 only pays.
fn neighbours() -> Owners {
    let row = |slug| crate::component::index_of(slug).unwrap() as u32;
    let mut owners = of(&[
        (7, row("gro"), [100, 0]),
        (7, row("tx_syscall"), [0, 30]),
        (9, row("gro"), [5, 0]),
    ]);
    let payer = owners.place_of(&group(8));
    let mut taken = |cause, payer, ns| owners.taken.push(Interruption { cause, payer, ns });
    taken(0, payer, 60);
    taken(0, 0, 40);
    taken(2, payer, 5);
    owners
}

#[test]
fn an_account_tells_what_one_caused_from_what_one_paid() {
    let owners = neighbours();
    let accounts = owners.accounts();
    let expected = Account {
        caused_ns: 130,
        softirq_ns: 100,
        made_others_pay_ns: 60,
        others_took_ns: 0,
        stalled_ns: 40,
    };
    assert_eq!(accounts[0], expected, "itself is no other");
    let payer = owners
        .owners
        .iter()
        .position(|owner| owner.id == 8)
        .unwrap();
    let expected = Account {
        others_took_ns: 65,
        stalled_ns: 65,
        ..Account::default()
    };
    assert_eq!(accounts[payer], expected);
    let pair = owners.largest_pair().unwrap();
    assert_eq!((pair.cause, pair.payer as usize, pair.ns), (0, payer, 60));
    let mut idle = owners.clone();
    let place = idle.place_of(&Owner::single(OwnerKind::Idle));
    idle.taken.push(Interruption {
        cause: 0,
        payer: place,
        ns: 9,
    });
    let accounts = idle.accounts();
    assert_eq!(
        accounts[place as usize].stalled_ns, 0,
        "nobody stands still"
    );
    assert_eq!(accounts[0].stalled_ns, 40);
}

#[test]
fn an_event_is_a_part_of_networking_and_softirqs_are_told_from_tasks() {
    let row = |slug| crate::component::index_of(slug).unwrap();
    assert_eq!(event_of(row("gro")), row("rx_softirq"));
    assert_eq!(event_of(row("tx_syscall")), row("tx_syscall"));
    assert!(is_softirq(row("rx_softirq")) && !is_softirq(row("tx_syscall")));
}

proptest! {
    #[test]
    fn of_the_largest_nothing_is_lost(interval in prop::collection::vec((0_u64..60, 3_u32..6, [0_u64..1_000, 0_u64..1_000]), 0..80), limit in 0_usize..40) {
        let all = of(&interval);
        let some = all.largest(limit);
        prop_assert!(some.is_whole());
        prop_assert_eq!(totals(&some), totals(&all));
        let taken = |owners: &Owners| owners.taken.iter().map(|taken| taken.ns).sum::<u64>();
        prop_assert_eq!(taken(&some), taken(&all));
        let named = some.owners.iter().filter(|owner| !owner.kind.is_single());
        prop_assert_eq!(named.count(), limit.min(all.owners.iter().filter(|owner| !owner.kind.is_single()).count()));
        let accounts = some.accounts();
        let weights: Vec<u64> = accounts.iter().take(limit.min(some.owners.len())).zip(&some.owners).filter(|(_, owner)| !owner.kind.is_single()).map(|(account, _)| account.weight_ns()).collect();
        prop_assert!(weights.is_sorted_by(|a, b| a >= b), "{:?}", weights);
    }
}

/// Three quarters of a second of the first group's, a quarter of the second's, and 1 ms for each
/// independent sample of a cause and this many for one of a payer.
fn sampled(payer_ms: u64) -> Owners {
    let row = crate::component::index_of("rx_softirq").unwrap() as u32;
    let mut owners = of(&[(1, row, [750_000_000, 0]), (2, row, [250_000_000, 0])]);
    owners.basis = vec![OwnerBasis {
        component: row,
        socket_ns: 1_000_000_000,
        cause_ns_ms: Some(1_000_000_000),
        payer_ns_ms: Some(1_000_000_000 * payer_ms),
        ..OwnerBasis::default()
    }];
    owners.samples = Some(Samples::default());
    owners
}

#[test]
fn a_figure_has_the_weight_of_its_own_samples_and_old_logs_have_no_intervals() {
    let width = |owners: &Owners| {
        let (low, high) = owners.intervals().accounts[0].caused_interval_ns?;
        Some(high - low)
    };
    let event = crate::component::index_of("rx_softirq").unwrap() as u32;
    let mut owners = sampled(1);
    let of_whole = width(&owners).unwrap();
    // Each of its samples stands for four milliseconds.
    let figure = SampledFigure::Caused(0, event);
    owners.samples = Some(Samples::of(vec![(figure, 750_000_000 * 4)]));
    let ratio = width(&owners).unwrap() as f64 / of_whole as f64;
    assert!((ratio - 2.0).abs() < 0.1, "{ratio}");
    let old = Owners {
        samples: None,
        ..owners.clone()
    };
    assert_eq!(width(&old), None);
    for (first, second) in [(&old, &owners), (&owners, &old)] {
        let mut sum = first.clone();
        sum.add(second, &Columns::folded());
        assert_eq!(width(&sum), None);
    }
}

#[test]
fn four_times_the_samples_halve_an_interval_and_a_sum_has_the_samples_of_its_intervals() {
    let width = |owners: &Owners| {
        let (low, high) = owners.intervals().accounts[0].caused_interval_ns.unwrap();
        let whole = owners.totals_ns()[0];
        assert!(low < whole && whole < high);
        (high - low) as f64 / whole as f64
    };
    let one = sampled(1);
    let mut four = one.clone();
    (0..3).for_each(|_| four.add(&one, &Columns::folded()));
    let (one, four) = (width(&one), width(&four));
    // Of 1,000 samples, 75 % ± 2.7.
    assert!((one - 0.0716).abs() < 0.003, "{one}");
    assert!((one / four - 2.0).abs() < 0.1, "{one} {four}");
}

#[test]
fn a_pair_is_as_rough_as_the_rougher_of_its_two_sides() {
    let width = |payer_ms| {
        let mut owners = sampled(payer_ms);
        // Half of what the first caused was paid by the second.
        let (idle, second) = (owners.taken[0].payer, owners.taken[1].cause);
        owners.taken[0].ns = 375_000_000;
        owners.taken.push(Interruption {
            cause: owners.taken[0].cause,
            payer: second,
            ns: 375_000_000,
        });
        assert_eq!(owners.taken[0].payer, idle);
        let (low, high) = owners.intervals().taken[0].unwrap();
        high - low
    };
    let widths = [1, 10, 100].map(width);
    assert!(widths.is_sorted_by(|a, b| a < b), "{widths:?}");
    assert!(width(1_000_000) >= 990_000_000, "no payer was ever seen");
}

#[test]
fn the_largest_flows_of_each_owner_are_kept_in_a_sum_and_in_a_message() {
    let flow = |owner, port, ns| OwnerFlow {
        owner,
        protocol: 6,
        ends: [port, 443].map(|port| crate::sections::FlowEnd {
            address: [192, 0, 2, 1].into(),
            port: Some(port),
        }),
        ns,
    };
    let interval = |ports: std::ops::Range<u16>| {
        let mut owners = of(&[(1, 0, [5, 5]), (2, 0, [5, 5])]);
        owners.flows = ports.map(|port| flow(0, port, port.into())).collect();
        owners.flows.push(flow(2, 7, 3));
        owners
    };
    let mut sum = Owners::default();
    sum.add(&interval(1..4), &Columns::folded());
    sum.add(&interval(2..9), &Columns::folded());
    let of_one = |sum: &Owners, owner| -> Vec<_> {
        let flows = sum.flows_of(owner);
        flows
            .map(|flow| (flow.ends[0].port.unwrap_or(0), flow.ns))
            .collect()
    };
    assert_eq!(of_one(&sum, 0), [(8, 8), (7, 7), (3, 6), (6, 6), (5, 5)]);
    assert_eq!(of_one(&sum, 2), [(7, 6)]);
    let one = sum.largest(1);
    assert_eq!(
        one.flows.len(),
        5,
        "of who has no line of its own none is kept"
    );
    assert!(
        one.flows
            .iter()
            .all(|flow| flow.owner == one.flows[0].owner)
    );
    let read = Owners::from_wire(sum.to_wire(), 1).unwrap();
    assert_eq!(read, sum);
    sum.flows[0].owner = 99;
    assert!(Owners::from_wire(sum.to_wire(), 1).is_err());
}
