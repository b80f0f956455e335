//! What is said of owners that are known beforehand.

use metrics_common::component;
use metrics_common::sections::{Caused, FlowEnd, Interruption, Samples};

use super::*;
use crate::fixture::{self, MS};

fn group(id: u64, unit: &str) -> Owner {
    Owner {
        id,
        unit: unit.to_owned(),
        ..Owner::single(OwnerKind::Cgroup)
    }
}

fn row(slug: &str) -> usize {
    component::index_of(slug).unwrap()
}

/// Of the 120 ms of the fixture, 30 ms are iperf's in tasks and 70 in softirqs; of these, 50 were
/// taken from burn, which does no networking. The rest is nobody's, and ssh did nothing.
pub(in crate::views::owners) fn owners() -> Owners {
    let mut owners = Owners::default();
    let iperf = owners.place_of(&group(1, "iperf.service"));
    let burn = owners.place_of(&group(2, "burn.service"));
    owners.place_of(&group(3, "ssh.service"));
    owners.place_of(&group(4, "cron.service"));
    let nobody = owners.place_of(&Owner::single(OwnerKind::Nobody));
    let idle = owners.place_of(&Owner::single(OwnerKind::Idle));
    for (owner, slug, ns) in [
        (iperf, "send_copy", 20),
        (iperf, "receive_copy", 10),
        (iperf, "local_delivery_v4", 50),
        (iperf, "gro", 20),
        (nobody, "gro", 20),
    ] {
        owners.caused.push(Caused {
            owner,
            component: row(slug) as u32,
            cpu_ns: vec![0, ns * MS],
        });
    }
    for (cause, payer, ns) in [
        (iperf, burn, 50),
        (iperf, idle, 15),
        (iperf, iperf, 5),
        (nobody, burn, 20),
    ] {
        owners.taken.push(Interruption {
            cause,
            payer,
            ns: ns * MS,
        });
    }
    owners.irq_pressure_ns[burn as usize] = Some(50 * MS);
    owners.basis = vec![
        OwnerBasis {
            component: row("rx_softirq") as u32,
            socket_ns: 70 * MS,
            nothing_ns: 20 * MS,
            // A sample of a cause and a payer for each millisecond.
            cause_ns_ms: Some(90 * MS),
            payer_ns_ms: Some(90 * MS),
            ..OwnerBasis::default()
        },
        OwnerBasis {
            component: row("tx_syscall") as u32,
            task_ns: 30 * MS,
            cause_ns_ms: Some(30 * MS),
            ..OwnerBasis::default()
        },
    ];
    owners.samples = Some(Samples::default());
    owners
}

fn asked(component: &str, open: &[String]) -> Table {
    asked_by(component, open, "")
}

fn asked_by(component: &str, open: &[String], by: &str) -> Table {
    let question = Question {
        component: row(component),
        basis: Basis::Milliseconds,
        open,
        by,
        shows_zeros: false,
    };
    table(&fixture::info(), &fixture::snapshot(1), &owners(), question)
}

fn texts(line: &OwnerRow) -> Vec<&str> {
    line.cells.iter().map(|cell| cell.text.as_str()).collect()
}

#[test]
fn each_owner_stands_with_what_it_caused_took_and_paid_the_largest_first() {
    let table = asked("network", &[]);
    let labels: Vec<&str> = table.lines.iter().map(|line| line.label.as_str()).collect();
    assert_eq!(
        labels,
        ["iperf.service", "burn.service", "no owner", "idle CPUs"]
    );
    // Half a second: twice as much in a whole one.
    assert_eq!(
        texts(&table.lines[0]),
        ["200.0", "60.0", "140.0", "100.0", "0", "1.0", ""]
    );
    assert_eq!(
        texts(&table.lines[1]),
        ["0", "0", "0", "0", "140.0", "14.0", "10.0"]
    );
    assert_eq!(
        texts(&table.lines[3])[4..6],
        ["30.0", ""],
        "nobody stands still"
    );
    assert_eq!(table.lines[1].is_open, None, "it has no components");
    assert_eq!(table.columns.len(), 7);
}

#[test]
fn a_column_orders_owners_and_an_unknown_one_does_not() {
    let first = |by: &str| {
        let table = asked_by("network", &[], by);
        let ordered = table
            .columns
            .iter()
            .filter(|column| column.is_order)
            .count();
        (table.lines[0].label.clone(), ordered)
    };
    assert_eq!(first("took"), ("burn.service".to_owned(), 1));
    assert_eq!(first("made"), ("iperf.service".to_owned(), 1));
    assert_eq!(first("<script>"), ("iperf.service".to_owned(), 0));
}

#[test]
fn who_lost_no_more_than_chance_gives_is_folded() {
    let mut owners = owners();
    let labels = |owners: &Owners| {
        let asked = Question {
            component: row("network"),
            basis: Basis::Host,
            open: &[],
            by: "",
            shows_zeros: false,
        };
        let table = table(&fixture::info(), &fixture::snapshot(1), owners, asked);
        table
            .lines
            .into_iter()
            .map(|line| line.label)
            .collect::<Vec<_>>()
    };
    assert!(labels(&owners).contains(&"burn.service".to_owned()));
    // Half a sample's worth.
    for taken in &mut owners.taken {
        taken.ns /= 1_000;
    }
    assert!(!labels(&owners).contains(&"burn.service".to_owned()));
}

#[test]
fn owners_without_time_are_folded_until_asked_for() {
    let table = asked("network", &[]);
    assert_eq!(table.zeros, 2);
    let text = zeros_text(&table, Basis::Milliseconds, false).unwrap();
    assert_eq!(text, "2 more that do not differ from 0 ms/s");
    assert!(
        zeros_text(&table, Basis::Host, true)
            .unwrap()
            .starts_with("Hide 2")
    );
}

#[test]
fn an_owner_opens_into_its_largest_conversations_too() {
    let mut owners = owners();
    let end = |last, port| FlowEnd {
        address: [192, 0, 2, last].into(),
        port: Some(port),
    };
    owners.flows = vec![OwnerFlow {
        owner: 0,
        protocol: 6,
        ends: [end(1, 5_000), end(2, 443)],
        ns: 30 * MS,
    }];
    let lines = |component: &str| {
        let open = ["cgroup_1".to_owned()];
        let asked = Question {
            component: row(component),
            basis: Basis::Milliseconds,
            open: &open,
            by: "",
            shows_zeros: false,
        };
        let table = table(&fixture::info(), &fixture::snapshot(1), &owners, asked);
        let lines = table.lines.into_iter();
        lines
            .filter(|line| line.key.contains("-flow-"))
            .collect::<Vec<_>>()
    };
    let [line] = &lines("network")[..] else {
        panic!("one conversation");
    };
    assert_eq!(line.label, "192.0.2.1:5000 – 192.0.2.2:443 (https)");
    assert_eq!((line.depth, texts(line)[0]), (1, "60.0"));
    assert_eq!(
        lines("gro").len(),
        0,
        "which component they took is not known"
    );
}

#[test]
fn an_owner_opens_into_its_events_and_their_parts() {
    let table = asked("network", &["cgroup_1".to_owned()]);
    assert_eq!(table.lines[0].is_open, Some(true));
    let parts: Vec<(usize, &str)> = table.lines[1..6]
        .iter()
        .map(|line| (line.depth, line.cells[0].text.as_str()))
        .collect();
    assert_eq!(
        parts,
        [
            (1, "140.0"),
            (2, "100.0"),
            (2, "40.0"),
            (1, "40.0"),
            (2, "40.0")
        ]
    );
    let softirq = &table.lines[1];
    assert_eq!(
        softirq.label,
        fixture::info().components[row("rx_softirq")].label
    );
    assert_eq!(texts(softirq), ["140.0", "", "140.0", "", "", "", ""]);
}

#[test]
fn a_component_has_owners_of_its_own() {
    let table = asked("gro", &[]);
    let lines: Vec<_> = table
        .lines
        .iter()
        .map(|line| (line.label.as_str(), texts(line)))
        .collect();
    assert_eq!(
        lines,
        [
            ("iperf.service", vec!["40.0", "0", "40.0"]),
            ("no owner", vec!["40.0", "0", "40.0"])
        ]
    );
    assert!(
        table.sentence.starts_with("In ms of CPU time per second."),
        "{}",
        table.sentence
    );
}

#[test]
fn the_largest_pair_is_named_on_every_basis() {
    let text = |basis| pair(&fixture::info(), &fixture::snapshot(1), &owners(), basis);
    assert_eq!(
        text(Basis::Cpus),
        "iperf.service took 0.10 CPUs from burn.service."
    );
    assert_eq!(
        text(Basis::Host),
        "iperf.service took 5.0 % of this host's CPU from burn.service."
    );
    assert_eq!(
        text(Basis::Parent),
        "iperf.service took 41.7 % of all networking from burn.service."
    );
    let nobody = pair(
        &fixture::info(),
        &fixture::snapshot(1),
        &Owners::default(),
        Basis::Cpus,
    );
    assert_eq!(nobody, "No owner took softirq time from another.");
}

#[test]
fn an_unknown_cause_is_said_with_its_share() {
    let text = |owners: &Owners| pair(&fixture::info(), &fixture::snapshot(1), owners, Basis::Cpus);
    let mut owners = owners();
    let unknown = owners.place_of(&Owner::single(OwnerKind::Unknown));
    owners.taken.push(Interruption {
        cause: unknown,
        payer: 1,
        ns: 10 * MS,
    });
    assert_eq!(
        text(&owners),
        "iperf.service took 0.10 CPUs from burn.service. The cause of 10.0 % of softirq time is \
         unknown."
    );
    owners.taken.retain(|taken| taken.cause == unknown);
    assert_eq!(
        text(&owners),
        "The cause of 100.0 % of softirq time is unknown."
    );
}

#[test]
fn how_owners_were_found_is_said_of_the_component_that_is_shown() {
    assert_eq!(
        found(&owners(), row("network")),
        "Owners were found by the task that ran (25.0 %), by the packets' socket (58.3 %), \
         not at all (16.7 %)."
    );
    assert_eq!(
        found(&owners(), row("gro")),
        "Owners were found by the packets' socket (77.8 %), not at all (22.2 %)."
    );
    assert_eq!(found(&Owners::default(), row("gro")), "");
}

#[test]
fn no_name_of_an_owner_breaks_the_address() {
    let owner = Owner {
        id: 4_026_532_321,
        interface: "forwarded to <veth 12>,&=#".repeat(9),
        ..Owner::single(OwnerKind::Interface)
    };
    let key = key(&owner);
    assert!(key.len() < 80, "{key}");
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    assert!(key.bytes().all(legal), "{key}");
}
