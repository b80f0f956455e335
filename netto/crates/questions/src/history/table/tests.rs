//! Answers about the history: complete, and without invented values.

use metrics_common::component::index_of;
use metrics_common::{Cost, Modes, Power, Sections, Snapshot, fixture};

use super::*;
use crate::history::HISTORY;

const MS: u64 = 1_000_000;
const PERIOD_MS: u64 = 500;
const BEGIN_MS: u64 = 1_700_000_000_000;

fn info() -> Info {
    let mut info = fixture::info();
    let gro = index_of("gro").unwrap();
    info.components[gro].availability = Availability::missing("no such function here");
    info
}

/// A snapshot that ends this long after the begin, in which `rx_softirq` takes this share of each
/// CPU.
fn snapshot(sequence: u64, end_ms: u64, cpus: &[u32], share: f64) -> Snapshot {
    let info = info();
    let mut components = vec![Some(vec![0; cpus.len()]); info.components.len()];
    let ns = (PERIOD_MS as f64 * 1e6 * share) as u64;
    components[index_of("rx_softirq").unwrap()] = Some(vec![ns; cpus.len()]);
    components[index_of("gro").unwrap()] = None;
    Snapshot {
        sequence,
        time_unix_ns: (BEGIN_MS + end_ms) * MS,
        interval_ns: PERIOD_MS * MS,
        cpus: cpus.to_vec(),
        sections: Sections {
            cost: Some(Cost {
                components,
                ..Cost::default()
            }),
            modes: Some(Modes::default()),
            power: Some(Power {
                network_energy_joules: 1.0,
                ..Power::default()
            }),
            ..Sections::default()
        },
    }
}

/// Consecutive snapshots; the load of each is twice its number in percent.
fn history(count: u64, cpus: &[u32]) -> History {
    let mut history = History::new(&info());
    for sequence in 1..=count {
        history.push(&snapshot(
            sequence,
            sequence * PERIOD_MS,
            cpus,
            sequence as f64 / 100.0,
        ));
    }
    history
}

fn asked(query: &str, history: &History) -> Result<Table, Complaint> {
    let selection = HISTORY.parse(query, "").unwrap();
    answer(&selection, history, &info())
}

fn values(table: &Table, column: usize) -> &[Option<f64>] {
    &table.series[column].values.1
}

#[test]
fn each_point_of_the_ring_is_a_row_unless_longer_ones_are_asked_for() {
    let history = history(8, &[0, 1]);
    let table = asked("component=rx_softirq", &history).unwrap();
    assert_eq!((table.resolution_seconds, table.step_seconds), (0.5, 0.5));
    let expected: Vec<_> = (1..=8).map(|n| Some(f64::from(n) / 50.0)).collect();
    assert_eq!(values(&table, 0), expected);
    assert_eq!(table.times.measured_seconds, [0.5; 8]);
    let begin = BEGIN_MS as f64 / 1e3;
    let ring = table.ring.unwrap();
    assert_eq!(
        (ring.begin_unix_seconds, ring.end_unix_seconds),
        (begin, begin + 4.0)
    );
    // 0.7 s is not a multiple of the resolution, half a second.
    let table = asked("component=rx_softirq&step=0.7", &history).unwrap();
    assert_eq!(table.step_seconds, 1.0);
    assert_eq!(
        values(&table, 0),
        [Some(0.03), Some(0.07), Some(0.11), Some(0.15)]
    );
    assert_eq!(
        table.times.end_unix_seconds,
        [1.0, 2.0, 3.0, 4.0].map(|s| begin + s)
    );
}

#[test]
fn a_span_holds_what_ends_in_it_so_that_two_that_meet_share_nothing() {
    let history = history(8, &[0]);
    let rows = |query: &str| {
        let table = asked(query, &history).unwrap();
        table.times.end_unix_seconds
    };
    let begin = BEGIN_MS as f64 / 1e3;
    let first = rows(&format!("to={}", begin + 2.0));
    let second = rows(&format!("from={}", begin + 2.0));
    assert_eq!((first.len(), second.len()), (4, 4));
    assert_eq!(rows("from=-2s"), second, "counted from the end of the ring");
    assert!(rows("to=1").is_empty() && rows("from=4102444800").is_empty());
    let error = asked("from=-1s&to=-2s", &history).unwrap_err().to_string();
    assert!(error.contains("not before"), "{error}");
}

#[test]
fn a_gap_is_null_and_never_zero() {
    let mut history = history(4, &[0]);
    for sequence in 5..=8 {
        let end_ms = sequence * PERIOD_MS + 10_000;
        history.push(&snapshot(sequence, end_ms, &[0], 0.0));
    }
    let table = asked("component=rx_softirq,modes/idle", &history).unwrap();
    assert_eq!(values(&table, 0)[3..6], [Some(0.04), None, Some(0.0)]);
    assert_eq!(table.times.measured_seconds[3..6], [0.5, 0.0, 0.5]);
    let length = table.times.end_unix_seconds[4] - table.times.begin_unix_seconds[4];
    assert_eq!(length, 10.0);
    let table = asked("component=rx_softirq&step=4s", &history).unwrap();
    assert!(values(&table, 0).contains(&None), "{table:?}");
    let measured: f64 = table.times.measured_seconds.iter().sum();
    assert_eq!(measured, 4.0);
}

#[test]
fn what_the_ring_does_not_hold_has_a_reason() {
    let history = history(4, &[0, 2]);
    let table = asked("component=gro,rx_softirq,power/network", &history).unwrap();
    let names: Vec<_> = table.series.iter().map(|series| &series.name).collect();
    assert_eq!(names, ["rx_softirq"]);
    let reasons: Vec<_> = table
        .unavailable
        .iter()
        .map(|one| one.reason.as_str())
        .collect();
    assert_eq!(reasons, ["no such function here", "no RAPL"]);
    let table = asked("component=rx_softirq,modes/idle&cpu=0-7", &history).unwrap();
    let cpus: Vec<_> = table.series.iter().map(|series| series.cpu).collect();
    assert_eq!(cpus, [Some(0), Some(2)]);
    assert_eq!(table.unavailable[0].name, "modes/idle");
    assert!(table.unavailable[0].reason.contains("whole host"));
}

#[test]
fn a_cpu_has_shares_as_exact_as_the_ring_keeps_them() {
    let table = asked("component=rx_softirq&cpu=2", &history(60, &[0, 2])).unwrap();
    let (unit, shares) = &table.series[0].values;
    assert_eq!((*unit, shares.len()), ("share_ratio", 60));
    for (sequence, share) in (1..).zip(shares) {
        let error = share.unwrap() - f64::from(sequence) / 100.0;
        assert!(error.abs() < 0.016, "{sequence}: {error}");
    }
}

#[test]
fn without_names_it_is_about_the_outermost_components() {
    let table = asked("", &history(2, &[0])).unwrap();
    let names = |names: Vec<&String>| names.into_iter().cloned().collect::<Vec<_>>();
    let given = names(table.series.iter().map(|series| &series.name).collect());
    let info = info();
    let outermost = info.components.iter().filter(|row| row.parent.is_none());
    assert_eq!(given, names(outermost.map(|row| &row.slug).collect()));
}

#[test]
fn names_that_there_are_not_are_told_with_those_that_are_near() {
    let history = history(2, &[0]);
    for (name, near) in [
        ("rx_sofirq", "rx_softirq"),
        ("GRO_", "gro"),
        ("modes/idel", "modes/idle"),
        ("nonsense", "netto list"),
        ("", "netto list"),
    ] {
        let complaint = asked(&format!("component={name}"), &history).unwrap_err();
        assert!(complaint.to_string().contains(near), "{name}: {complaint}");
    }
    let complaint = asked("cpu=7", &history).unwrap_err().to_string();
    assert!(complaint.contains("no CPU 7"), "{complaint}");
}

#[test]
fn no_answer_is_longer_than_the_bound() {
    let cpus: Vec<u32> = (0..64).collect();
    let mut history = History::new(&info());
    for sequence in 1..=400 {
        history.push(&snapshot(sequence, sequence * PERIOD_MS, &cpus, 0.1));
    }
    let columns = history.columns();
    let all: Vec<String> = info()
        .components
        .iter()
        .map(|row| row.slug.clone())
        .collect();
    let query = format!("component={}&cpu=0-63", all.join(","));
    let table = asked(&query, &history).unwrap();
    let count: usize = table.series.iter().map(|one| one.values.1.len()).sum();
    assert!(
        count > 0 && count <= MOST_VALUES + table.series.len(),
        "{count} of {columns}"
    );
    assert!(table.step_seconds > table.resolution_seconds);
    let error = asked(&format!("{query}&step=0.5"), &history).unwrap_err();
    assert!(error.to_string().contains("fits with"), "{error}");
}

#[test]
fn before_the_first_point_there_is_no_row() {
    let table = asked("component=rx_softirq", &History::new(&info())).unwrap();
    assert_eq!(table.ring, None);
    assert!(values(&table, 0).is_empty());
    assert!(asked("component=rx_softirq&cpu=0", &History::new(&info())).is_ok());
}
