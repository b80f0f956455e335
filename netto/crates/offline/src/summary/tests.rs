//! Summaries of made-up intervals.

use metrics_common::component::index_of;
use metrics_common::{
    Availability, COMPONENTS, Cost, Modes, OwnCost, Power, Sections, Snapshot, fixture,
};

use super::*;

const SECOND: u64 = 1_000_000_000;

/// An interval of a second on two CPUs, with these times of components.
fn interval(sequence: u64, times: &[(&str, [u64; 2])]) -> Snapshot {
    let mut components = vec![None; COMPONENTS.len()];
    let mut samples = vec![None; COMPONENTS.len()];
    let mut sample_ns_ms = vec![0; COMPONENTS.len()];
    for (slug, ns) in times {
        let row = index_of(slug).unwrap();
        // A sample in two milliseconds.
        sample_ns_ms[row] = 2 * ns
            .iter()
            .fold(0, |sum: u64, ns| sum.saturating_add(*ns / 2));
        components[row] = Some(ns.to_vec());
        samples[row] = Some(vec![10, 0]);
    }
    Snapshot {
        sequence,
        time_unix_ns: sequence * SECOND,
        interval_ns: SECOND,
        cpus: vec![0, 1],
        sections: Sections {
            cost: Some(Cost {
                components,
                samples,
                sample_ns_ms: Some(sample_ns_ms),
                stacks_taken: vec![10, 5],
                stacks_lost: vec![1, 0],
                ..Cost::default()
            }),
            ..Sections::default()
        },
    }
}

fn summed(subject: &str, intervals: impl IntoIterator<Item = Snapshot>) -> Summary {
    let mut summarizer = Summarizer::of(subject);
    summarizer.describe(&Arc::new(fixture::info()));
    for snapshot in intervals {
        summarizer.add(&snapshot);
    }
    summarizer.finish().unwrap().0
}

fn measured<'a>(summary: &'a Summary, slug: &str) -> &'a Measured {
    let found = summary.components.iter().find(|c| c.component == slug);
    match &found.unwrap().found {
        Outcome::Measured(measured) => measured,
        Outcome::Unavailable { unavailable } => panic!("{slug}: {unavailable}"),
    }
}

#[test]
fn each_note_of_the_daemon_is_told_once_and_not_without_end() {
    let with = |notes: &[String]| Info {
        notes: notes.to_vec(),
        ..fixture::info()
    };
    let notes: Vec<String> = (0..MOST_NOTES + 9).map(|note| note.to_string()).collect();
    let mut summarizer = Summarizer::of("network");
    for described in [&notes[..2], &notes[1..3], &notes[..]] {
        summarizer.describe(&Arc::new(with(described)));
    }
    summarizer.add(&interval(1, &[("network", [1, 1])]));
    let summary = summarizer.finish().unwrap().0;
    assert_eq!(summary.notes, notes[..MOST_NOTES]);
}

#[test]
fn sums_are_sums_and_shares_are_of_the_time_that_there_was() {
    let summary = summed(
        "network",
        [
            interval(
                1,
                &[("network", [100_000_000, 300_000_000]), ("gro", [50, 60])],
            ),
            interval(
                2,
                &[("network", [200_000_000, 600_000_000]), ("gro", [1, 2])],
            ),
        ],
    );
    let network = measured(&summary, "network");
    assert_eq!(network.cpu_ns, 1_200_000_000);
    assert_eq!(network.share_ratio, 0.3);
    assert_eq!(network.cpus, 0.6);
    assert_eq!(
        (network.max_share_ratio, network.max_time_unix_ns),
        (0.4, 2 * SECOND)
    );
    assert_eq!(measured(&summary, "gro").cpu_ns, 113);
    let share = summary.headline.share_ratio.unwrap();
    assert_eq!((share.mean, share.max), (0.3, 0.4));
    assert!((share.p50 / 0.2 - 1.0).abs() < 0.005);
    let cpus: Vec<(u32, f64)> = summary
        .cpus
        .iter()
        .map(|c| (c.cpu, c.share_ratio))
        .collect();
    assert_eq!(cpus, [(1, 0.45), (0, 0.15)]);
    assert_eq!(summary.losses.stacks_taken, 30);
    assert_eq!(summary.losses.stacks_lost, 2);
    assert_eq!(summary.covered.measured_ns, 2 * SECOND);
    assert_eq!(summary.covered.from_unix_ns, 0);
}

#[test]
fn long_intervals_count_for_more() {
    let mut long = interval(10, &[("network", [0, 0])]);
    long.interval_ns = 9 * SECOND;
    let summary = summed(
        "network",
        [interval(1, &[("network", [SECOND, SECOND])]), long],
    );
    let share = summary.headline.share_ratio.unwrap();
    assert_eq!((share.mean, share.p50, share.max), (0.1, 0.0, 1.0));
}

#[test]
fn what_is_not_measured_is_absent_and_says_why() {
    let mut info = fixture::info();
    info.components[index_of("bridging").unwrap()].availability =
        Availability::missing("no bridge");
    let mut summarizer = Summarizer::of("network");
    summarizer.describe(&Arc::new(info));
    summarizer.add(&interval(1, &[("gro", [1, 1])]));
    let (summary, _) = summarizer.finish().unwrap();
    let reason = |slug: &str| {
        let found = summary.components.iter().find(|c| c.component == slug);
        match &found.unwrap().found {
            Outcome::Unavailable { unavailable } => unavailable.clone(),
            Outcome::Measured(_) => panic!("{slug} is measured"),
        }
    };
    assert_eq!(reason("bridging"), "no bridge");
    assert_eq!(reason("network"), "not measured in this span");
    assert_eq!(summary.headline.share_ratio, None);
    assert!(
        matches!(&summary.power, PowerSummary::Unavailable { unavailable } if unavailable == "no RAPL")
    );
    assert_eq!(summary.own, None);
    assert!(summary.cpus.is_empty() && summary.peaks.is_empty());
}

#[test]
fn a_report_about_a_component_is_about_its_parts() {
    let summary = summed(
        "rx_softirq",
        [interval(
            1,
            &[("network", [9, 9]), ("rx_softirq", [4, 0]), ("gro", [3, 0])],
        )],
    );
    assert_eq!(summary.headline.cpu_ns, Some(4));
    let (slug, _) = summary.cpus[0].largest_part.clone().unwrap();
    assert_eq!(slug, "gro");
}

#[test]
fn components_are_told_apart_by_name_although_their_rows_move() {
    let mut other = fixture::info();
    other.started_unix_ns = 99;
    other.components.swap(0, 5);
    let moved = |mut snapshot: Snapshot| {
        let cost = snapshot.sections.cost.as_mut().unwrap();
        cost.components.swap(0, 5);
        snapshot
    };
    let mut summarizer = Summarizer::of("network");
    summarizer.describe(&Arc::new(fixture::info()));
    summarizer.add(&interval(1, &[("network", [1, 2])]));
    summarizer.describe(&Arc::new(other));
    summarizer.add(&moved(interval(2, &[("network", [4, 8])])));
    let (summary, _) = summarizer.finish().unwrap();
    assert_eq!(measured(&summary, "network").cpu_ns, 15);
    assert_eq!(summary.gaps.restarts, 1);
}

#[test]
fn time_without_an_interval_is_a_gap_and_what_could_not_be_written_is_told() {
    let mut summarizer = Summarizer::of("network");
    summarizer.describe(&Arc::new(fixture::info()));
    for sequence in [1, 2, 5] {
        summarizer.add(&interval(sequence, &[("network", [1, 1])]));
    }
    summarizer.missing(&Gap {
        snapshots: 2,
        first_sequence: 3,
        last_sequence: 4,
        first_time_unix_ns: 3 * SECOND,
        last_time_unix_ns: 4 * SECOND,
        reason: "disk full".into(),
    });
    let gaps = summarizer.finish().unwrap().0.gaps;
    assert_eq!((gaps.holes, gaps.uncovered_ns), (1, 2 * SECOND));
    assert_eq!(gaps.listed_holes, [(2 * SECOND, 4 * SECOND)]);
    assert_eq!((gaps.unwritten_snapshots, gaps.restarts), (2, 0));
    assert_eq!(gaps.listed_unwritten[0].reason, "disk full");
}

#[test]
fn an_estimate_has_the_interval_of_the_samples_of_the_whole_span() {
    let mut info = fixture::info();
    for component in &mut info.components {
        component.availability = Availability::by("sampling");
    }
    let one = interval(
        1,
        &[("rx_softirq", [20_000_000, 0]), ("gro", [10_000_000, 0])],
    );
    let width = |count: u64| {
        let mut summarizer = Summarizer::of("network");
        summarizer.describe(&Arc::new(info.clone()));
        for sequence in 1..=count {
            let mut one = one.clone();
            one.sequence = sequence;
            one.time_unix_ns = sequence * SECOND;
            summarizer.add(&one);
        }
        let (summary, _) = summarizer.finish().unwrap();
        let gro = measured(&summary, "gro");
        let (low, high) = gro.cpu_interval_ns.unwrap();
        assert!(low <= gro.cpu_ns && gro.cpu_ns <= high);
        (high - low) as f64 / gro.cpu_ns as f64
    };
    let (few, many) = (width(1), width(400));
    assert!(many * 10.0 < few, "{few} {many}");
}

#[test]
fn hostile_values_make_no_panic() {
    let values = [0, 1, u64::MAX, u64::MAX / 3, 1 << 40];
    let mut info = fixture::info();
    // A part of itself, and of an unknown component.
    info.components[3].parent = Some(info.components[3].slug.clone());
    info.components[4].parent = Some("nothing".into());
    let mut summarizer = Summarizer::of("network");
    summarizer.describe(&Arc::new(info));
    for number in 0..200_u64 {
        let value = |by: u64| values[((number * 7 + by * 3) % 5) as usize];
        let mut snapshot = interval(number, &[]);
        snapshot.time_unix_ns = value(1);
        snapshot.interval_ns = value(2);
        snapshot.cpus = (0..50)
            .map(|cpu| cpu * 70_000_000 + number as u32 * 50)
            .collect();
        let row = vec![value(3); 50];
        snapshot.sections.cost = Some(Cost {
            components: (0..COMPONENTS.len())
                .map(|index| (index != 0 || number % 2 == 0).then(|| row.clone()))
                .collect(),
            samples: vec![Some(vec![u32::MAX; 50]); COMPONENTS.len()],
            entries: vec![Some(row.clone()); 3],
            stacks_taken: row.clone(),
            stacks_lost: row.clone(),
            probe_missed: row.clone(),
            ..Cost::default()
        });
        let wild = [f64::NAN, f64::INFINITY, -1.0, 1e300, 0.0][number as usize % 5];
        snapshot.sections.power = Some(Power {
            host_watts: wild,
            network_watts: wild,
            network_energy_joules: wild,
            network_capacity_watts: wild,
            network_capacity_energy_joules: wild,
            zones: Vec::new(),
        });
        snapshot.sections.own = Some(OwnCost {
            user_ns: value(4),
            system_ns: value(0),
            resident_bytes: value(1),
            taken_ns: vec![Some(row); 8],
            costliest: Some(metrics_common::CostliestCpu {
                cpu: 1,
                ratio: wild,
            }),
            ..OwnCost::default()
        });
        let mut modes = Modes::default();
        modes.host.user_ns = value(2);
        modes.host.system_ns = value(3);
        snapshot.sections.modes = Some(modes);
        summarizer.add(&snapshot);
    }
    if let Some((summary, strip)) = summarizer.finish() {
        assert!(summary.cpus.len() <= MOST_CPUS);
        assert!(strip.timeline.steps().count() <= timeline::MOST_STEPS);
        serde_json::to_string(&summary).unwrap();
    }
}

#[test]
fn no_interval_makes_no_summary() {
    let mut summarizer = Summarizer::of("network");
    assert!(summarizer.clone().finish().is_none());
    summarizer.describe(&Arc::new(fixture::info()));
    assert!(summarizer.finish().is_none());
}
