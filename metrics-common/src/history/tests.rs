//! Tests of a history: nothing is lost, nothing counts twice.

use super::*;
use crate::sections::{Cost, CpuModes, Modes, OwnCost, Power, Sections, Unit};

mod message;
mod stretch;
mod top;

const MS: u64 = 1_000_000;
const RX: usize = 4;

fn info(period_ms: u64) -> Info {
    Info {
        user_period_ms: period_ms,
        ..crate::fixture::info()
    }
}

/// About half a second in which component 4 takes a share of each CPU.
fn snapshot(sequence: u64, period_ms: u64, cpus: &[u32], share: f64) -> Snapshot {
    let rows = info(period_ms).components.len();
    let ns = (period_ms as f64 * 1e6 * share) as u64;
    let mut components = vec![Some(vec![0; cpus.len()]); rows];
    components[RX] = Some(vec![ns; cpus.len()]);
    components[RX + 1] = None;
    Snapshot {
        sequence,
        time_unix_ns: (1_000_000 + sequence * period_ms) * MS,
        interval_ns: period_ms * MS,
        cpus: cpus.to_vec(),
        sections: Sections {
            cost: Some(Cost {
                components,
                ..Cost::default()
            }),
            modes: Some(Modes {
                cpus: vec![CpuModes::default(); cpus.len()],
                host: CpuModes {
                    idle_ns: period_ms * MS,
                    ..CpuModes::default()
                },
            }),
            power: Some(Power {
                host_watts: 10.0,
                network_watts: 2.0,
                network_energy_joules: 2.0 * period_ms as f64 / 1e3,
                network_capacity_watts: 1.0,
                network_capacity_energy_joules: period_ms as f64 / 1e3,
                zones: Vec::new(),
            }),
            own: Some(OwnCost::default()),
            ..Sections::default()
        },
    }
}

fn filled(period_ms: u64, cpus: &[u32], count: u64) -> History {
    let mut history = History::new(&info(period_ms));
    for sequence in 1..=count {
        history.push(&snapshot(sequence, period_ms, cpus, 0.25));
    }
    history
}

#[test]
fn what_goes_in_comes_out_in_cpus_and_watts() {
    let history = filled(500, &[0, 1], 10);
    assert_eq!((history.points(), history.columns()), (10, 10));
    assert_eq!(history.component_cpus(RX, 9), Some(0.5));
    assert_eq!(history.component_cpus(0, 9), Some(0.0));
    assert_eq!(history.component_cpus(RX + 1, 9), None, "not measured");
    assert_eq!(history.mode_cpus(3, 9), Some(1.0));
    assert_eq!(history.network_watts(9), Some(2.0));
    assert_eq!(history.point_ms(9), (1_004_500.0, 1_005_000.0));
    let cell = history.cell(9, RX, 1).unwrap();
    assert!((cell - 0.25).abs() < 0.008, "{cell}");
    assert_eq!(history.cell(9, RX + 1, 1), None);
    assert_eq!(history.component_cpus(10_000, 0), None);
}

#[test]
fn every_series_has_a_name_of_its_own_and_a_unit() {
    let history = History::new(&info(500));
    let names: Vec<_> = history.series().names().collect();
    for series in [
        ("cost/rx_softirq", Unit::Cpus),
        ("modes/softirq", Unit::Cpus),
        ("power/network", Unit::Watts),
    ] {
        let same = names.iter().filter(|(name, _)| *name == series.0);
        assert_eq!(same.collect::<Vec<_>>(), [&series]);
    }
    let other: std::collections::BTreeSet<_> = names.iter().map(|(name, _)| name).collect();
    assert_eq!(other.len(), names.len());
}

#[test]
fn a_section_that_is_gone_for_a_while_leaves_a_hole_there_and_nowhere_else() {
    let mut history = filled(500, &[0, 1], 3);
    let mut without = snapshot(4, 500, &[0, 1], 0.25);
    without.sections.cost = None;
    history.push(&without);
    history.push(&snapshot(5, 500, &[0, 1], 0.25));
    let rx: Vec<_> = (2..5).map(|at| history.component_cpus(RX, at)).collect();
    assert_eq!(rx, [Some(0.5), None, Some(0.5)]);
    let cells: Vec<_> = (2..5).map(|at| history.cell(at, RX, 1).is_some()).collect();
    assert_eq!(cells, [true, false, true]);
    assert_eq!(history.mode_cpus(3, 3), Some(1.0));
}

#[test]
fn a_quarter_of_an_hour_is_kept_at_every_period_and_size() {
    for (period_ms, cpus) in [
        (50, 2),
        (500, 2),
        (500, 128),
        (700, 8),
        (10_000, 2),
        (5_000, 1024),
    ] {
        let cpus: Vec<u32> = (0..cpus).collect();
        let history = filled(period_ms, &cpus, 17 * 60_000 / period_ms);
        let covered = |(begin, _): (f64, f64), (_, end): (f64, f64)| end - begin;
        let points = covered(history.point_ms(0), history.point_ms(history.points() - 1));
        let last = history.columns() - 1;
        let columns = covered(history.column_ms(0), history.column_ms(last));
        let asked = 15.0 * 60_000.0;
        assert!(points >= asked, "{period_ms} ms: {points}");
        assert!(
            columns >= asked,
            "{period_ms} ms, {} CPUs: {columns}",
            cpus.len()
        );
    }
}

#[test]
fn memory_is_bounded_however_long_it_runs() {
    for (cpus, bound) in [(2, 3 << 19), (128, 9 << 19)] {
        let cpus: Vec<u32> = (0..cpus).collect();
        let mut history = filled(500, &cpus, 1_930);
        let full = history.memory_bytes();
        assert!(full < bound, "{} CPUs: {full}", cpus.len());
        for sequence in 1_931..=2_100 {
            history.push(&snapshot(sequence, 500, &cpus, 0.5));
        }
        // The unfinished column varies.
        assert!(history.memory_bytes() <= full + (100 << 10));
        assert_eq!(history.points(), POINTS);
    }
}

#[test]
fn short_intervals_are_put_together() {
    let mut history = History::new(&info(50));
    for sequence in 1..=20 {
        let share = if sequence <= 10 { 0.1 } else { 0.3 };
        history.push(&snapshot(sequence, 50, &[0], share));
    }
    assert_eq!(history.points(), 2);
    assert_eq!(history.component_cpus(RX, 0), Some(0.1));
    assert_eq!(history.component_cpus(RX, 1), Some(0.3));
    assert_eq!(history.point_ms(1), (1_000_500.0, 1_001_000.0));
}

#[test]
fn no_snapshot_counts_twice() {
    let mut history = filled(500, &[0], 5);
    history.push(&snapshot(5, 500, &[0], 0.9));
    history.push(&snapshot(3, 500, &[0], 0.9));
    assert_eq!(history.points(), 5);
}

#[test]
fn a_daemon_that_knows_more_fills_the_gap_and_repeats_nothing() {
    // The page received 1 to 100, lost the connection, and gets 50 to 200.
    let page = filled(500, &[0, 1], 100);
    let mut daemon = History::new(&info(500));
    for sequence in 50..=200 {
        daemon.push(&snapshot(sequence, 500, &[0, 1], 0.25));
    }
    daemon.continue_from(page);
    assert_eq!((daemon.points(), daemon.columns()), (200, 200));
    for point in 1..200 {
        assert_eq!(daemon.point_ms(point).0, daemon.point_ms(point - 1).1);
        assert_eq!(daemon.column_ms(point).0, daemon.column_ms(point - 1).1);
    }
}

#[test]
fn a_restarted_daemon_goes_on_after_the_gap() {
    let page = filled(500, &[0, 1], 100);
    let mut fresh = History::new(&info(500));
    fresh.continue_from(page.clone());
    assert_eq!(
        fresh.points(),
        100,
        "a daemon without a past leaves the page's"
    );
    fresh.push(&Snapshot {
        sequence: 1,
        ..snapshot(300, 500, &[0, 1], 0.25)
    });
    assert_eq!(fresh.points(), 101);
    assert!(
        fresh.point_ms(100).0 > fresh.point_ms(99).1,
        "the gap shows"
    );
}

#[test]
fn the_past_of_other_components_goes_on_where_names_agree() {
    let mut other = info(500);
    let here = other.components[RX].slug.clone();
    other.components.swap(RX, 0);
    other.components.pop();
    let last = other.components.len();
    let mut history = History::new(&other);
    history.push(&snapshot(11, 500, &[1], 0.5));
    history.continue_from(filled(500, &[0, 1], 10));
    assert_eq!((history.points(), history.columns()), (11, 11));
    assert_eq!(other.components[0].slug, here);
    assert_eq!(history.component_cpus(0, 9), Some(0.5));
    assert_eq!(history.component_cpus(RX, 9), Some(0.0));
    assert_eq!(history.component_cpus(last, 9), None);
    let cell = |column, component, cpu| {
        history
            .cell(column, component, cpu)
            .map(|share| share > 0.2)
    };
    assert_eq!((cell(9, 0, 1), cell(9, RX, 1)), (Some(true), Some(false)));
    assert_eq!((cell(10, 0, 1), cell(10, RX, 1)), (Some(false), Some(true)));
    assert_eq!(cell(10, RX, 0), None, "not there any more");
}

#[test]
fn a_cpu_that_comes_later_was_absent_before() {
    let mut history = filled(500, &[0, 2], 3);
    history.push(&snapshot(4, 500, &[0, 1, 2], 0.25));
    assert_eq!(history.cpus(), [0, 1, 2]);
    assert_eq!(history.cell(2, RX, 1), None);
    assert!(history.cell(2, RX, 2).is_some() && history.cell(3, RX, 1).is_some());
    history.push(&snapshot(5, 500, &[0, 2], 0.25));
    assert_eq!(history.cell(4, RX, 1), None, "offline again");
}

#[test]
fn a_clock_set_back_leaves_no_future() {
    let mut history = filled(500, &[0], 100);
    history.push(&Snapshot {
        sequence: 101,
        ..snapshot(50, 500, &[0], 0.9)
    });
    assert_eq!(history.points(), 50);
    assert_eq!(history.component_cpus(RX, 49), Some(0.9));
}
