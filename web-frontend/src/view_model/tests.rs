//! The content of the page for given messages.

use metrics_common::sections::CostliestCpu;
use metrics_common::{Missable, ProbeInfo};

use super::*;
use crate::fixture::{self, MS};

#[test]
fn unavailable_is_a_reason_and_never_a_number() {
    let (mut info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
    let bridging = info.row_of("bridging").unwrap();
    assert_eq!(reason_missing(&info, &snapshot, bridging), None);
    fixture::take_away(&mut info, &mut snapshot, "bridging", "no bridge module");
    assert_eq!(
        reason_missing(&info, &snapshot, bridging),
        Some("no bridge module")
    );
    assert_eq!(total_ns(&info, &snapshot, "bridging"), None);
    // Available, but not sent.
    info = fixture::info();
    assert!(reason_missing(&info, &snapshot, bridging).is_some());
    // A snapshot that is shorter than its table.
    fixture::cost(&mut snapshot).components.truncate(1);
    assert!(reason_missing(&info, &snapshot, bridging).is_some());
}

#[test]
fn what_was_lost_since_the_page_was_opened_survives_a_restart_of_the_daemon() {
    let mut since_opened = SinceOpened::default();
    for sequence in [7, 8, 1] {
        let mut snapshot = fixture::snapshot(sequence);
        fixture::cost(&mut snapshot).stacks_lost = vec![2, 3];
        since_opened.add(&snapshot);
    }
    assert_eq!(since_opened.stacks_lost, 15);
    assert_eq!(since_opened.missed, 0, "a restart is no gap");
}

#[test]
fn gaps_in_the_sequence_are_counted() {
    let mut since_opened = SinceOpened::default();
    for sequence in [3, 4, 8, 9] {
        since_opened.add(&fixture::snapshot(sequence));
    }
    assert_eq!(since_opened.missed, 3);
}

#[test]
fn the_status_is_quiet_until_stacks_are_lost() {
    let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
    let mut since_opened = SinceOpened::default();
    since_opened.add(&snapshot);
    let quiet = status(&info, &snapshot, &since_opened);
    assert!(quiet.iter().all(|statement| !statement.loud), "{quiet:?}");
    let is_shown = |text: &str| quiet.iter().any(|s| s.text.contains(text));
    assert!(is_shown("1\u{202f}000 Hz") && is_shown("500 ms") && is_shown("120 stacks taken"));

    fixture::cost(&mut snapshot).stacks_lost = vec![0, 17];
    since_opened.add(&snapshot);
    let loud: Vec<_> = status(&info, &snapshot, &since_opened)
        .into_iter()
        .filter(|statement| statement.loud)
        .collect();
    assert_eq!(loud.len(), 1);
    assert!(loud[0].text.starts_with("17 stacks lost"));

    let later = status(&info, &fixture::snapshot(3), &since_opened);
    assert!(
        later
            .iter()
            .any(|s| s.text == "0 lost now, 17 since the page was opened")
    );
}

#[test]
fn the_status_says_loudly_when_probes_miss_more_than_a_thousandth() {
    let (mut info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
    let sends = info.row_of("tx_syscall").unwrap();
    info.missable = vec![Missable {
        probe: "inet_sendmsg".to_owned(),
        reason: "state_lost".to_owned(),
        component: "tx_syscall".to_owned(),
    }];
    let loud = |info: &Info, snapshot: &Snapshot| -> Vec<String> {
        status(info, snapshot, &SinceOpened::default())
            .into_iter()
            .filter(|statement| statement.loud)
            .map(|statement| statement.text)
            .collect()
    };
    let cpus = snapshot.cpus.len();
    fixture::cost(&mut snapshot).entries = vec![None; info.components.len()];
    fixture::cost(&mut snapshot).entries[sends] = Some(vec![99_900; cpus]);
    fixture::cost(&mut snapshot).probe_missed = vec![50 * cpus as u64];
    assert_eq!(loud(&info, &snapshot), [""; 0]);
    fixture::cost(&mut snapshot).probe_missed = vec![800 * cpus as u64];
    assert_eq!(
        loud(&info, &snapshot),
        ["inet_sendmsg missed 0.8 % in this interval (state lost)"]
    );
}

#[test]
fn a_cost_above_the_budget_stands_in_the_head() {
    let (mut info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
    info.max_overhead_ratio = Some(0.01);
    let mut loud = |ratio: f64| {
        let own_cost = snapshot.sections.own.as_mut().unwrap();
        own_cost.costliest = Some(CostliestCpu { cpu: 1, ratio });
        let all = status(&info, &snapshot, &SinceOpened::default());
        let loud = all.into_iter().filter(|statement| statement.loud);
        loud.map(|statement| statement.text).collect::<Vec<_>>()
    };
    assert_eq!(loud(0.012), [""; 0], "it needs a moment to notice more");
    assert_eq!(
        loud(0.018),
        ["netto itself 1.8 % of a CPU, above its budget"]
    );
}

#[test]
fn what_is_missing_is_grouped_by_reason() {
    let (mut info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
    fixture::take_away(&mut info, &mut snapshot, "bridging", "not built in");
    fixture::take_away(&mut info, &mut snapshot, "conntrack", "not built in");
    info.probes = [Some("EPERM".to_owned()), None]
        .map(|failure| ProbeInfo {
            name: "inet_sendmsg".to_owned(),
            method: "fexit".into(),
            purpose: "tx_syscall".to_owned(),
            failure,
        })
        .to_vec();
    let group = |names: &[&str], reason: &str| Missing {
        names: names.iter().map(|&name| name.to_owned()).collect(),
        reason: reason.to_owned(),
    };
    assert_eq!(
        missing(&info),
        [
            group(&["Bridging", "Conntrack"], "not built in"),
            group(&["Networking's power"], "no RAPL"),
            group(&["fexit probe inet_sendmsg"], "EPERM"),
        ]
    );
}

#[test]
fn a_daemon_of_another_version_asks_for_a_reload() {
    let info = fixture::info();
    assert_eq!(version_note(&info, &info.version), None);
    assert!(version_note(&info, "9.9.9").unwrap().contains("reload"));
}

#[test]
fn probes_are_counted_and_their_absence_is_loud() {
    let (mut info, snapshot) = (fixture::info(), fixture::snapshot(1));
    let probe = |failure: Option<&str>| ProbeInfo {
        name: "softirq_entry".to_owned(),
        method: metrics_common::Method::TpBtf,
        purpose: "rx_softirq".to_owned(),
        failure: failure.map(str::to_owned),
    };
    for (probes, text, loud) in [
        (vec![probe(None), probe(None)], "2 probes", false),
        (
            vec![probe(None), probe(Some("refused"))],
            "1 of 2 probes",
            false,
        ),
        (
            vec![probe(Some("refused"))],
            "none of 1 probes attached",
            true,
        ),
    ] {
        info.probes = probes;
        let first = status(&info, &snapshot, &SinceOpened::default()).remove(0);
        assert_eq!((first.text.as_str(), first.loud), (text, loud));
    }
}

#[test]
fn what_becomes_measurable_goes_on_in_the_same_past() {
    let index = fixture::info().row_of("bridging").unwrap();
    let mut info = fixture::info();
    fixture::take_away(
        &mut info,
        &mut fixture::snapshot(1),
        "bridging",
        "no module",
    );
    let push = |history: &mut History, number: u64, is_measured: bool| {
        let mut snapshot = fixture::snapshot(number);
        snapshot.time_unix_ns = number * 500 * MS;
        fixture::cost(&mut snapshot).components[index] = is_measured.then(|| vec![50 * MS, 0]);
        history.push(&snapshot);
    };
    let mut history = continued_history(None, &info);
    (1..=3).for_each(|number| push(&mut history, number, false));
    let before = history.clone();

    let mut history = continued_history(Some((&info, history)), &fixture::info());
    assert_eq!(history, before, "the daemon is the same");
    // The last one is repeated, as after a reconnection.
    (3..=5).for_each(|number| push(&mut history, number, true));
    assert_eq!(history.points(), 5);
    let cpus: Vec<_> = (0..5).map(|at| history.component_cpus(index, at)).collect();
    assert_eq!(cpus, [None, None, None, Some(0.1), Some(0.1)]);
}

#[test]
fn the_past_goes_on_over_a_restart_but_not_with_other_rows() {
    let old = fixture::info();
    let before = || Some((&old, fixture::history(&[1, 2, 3])));
    let mut restarted = fixture::info();
    restarted.started_unix_ns = 1;
    let history = continued_history(before(), &restarted);
    assert_eq!((history.points(), history.last_sequence()), (3, 0));
    let mut other = restarted;
    other.components.pop();
    assert_eq!(continued_history(before(), &other).points(), 0);
}

#[test]
fn the_third_bar_follows_the_event_that_takes_clearly_more() {
    let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
    let lead = |snapshot: &Snapshot, before| leading_event(&info, snapshot, before).unwrap();
    assert_eq!(lead(&snapshot, "tx_syscall"), "rx_softirq");
    let sends = info.row_of("tx_syscall").unwrap();
    fixture::cost(&mut snapshot).components[sends] = Some(vec![110 * MS, 0]);
    assert_eq!(lead(&snapshot, "rx_softirq"), "rx_softirq");
    fixture::cost(&mut snapshot).components[sends] = Some(vec![130 * MS, 0]);
    assert_eq!(lead(&snapshot, "rx_softirq"), "tx_syscall");
}

#[test]
fn an_interval_of_several_periods_says_so() {
    assert_eq!(every(500, 501 * MS), "every 500 ms");
    assert_eq!(every(500, 2_000 * MS), "every 4 × 500 ms");
    assert_eq!(every(1_000, 120 * MS), "every 1\u{202f}000 ms");
}
