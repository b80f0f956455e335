//! A digest equals the sum of its intervals, and covers nothing else.

use std::io::Cursor;

use super::*;
use crate::{LogBuilder, LogIndex, LogReader, Part, file_header};
use metrics_common::codec::{Gap, ServerMessage};
use metrics_common::fixture;
use metrics_common::sections::{Cost, CpuModes, Modes, OwnCost, Power, Sections};

const BEGIN: u64 = 1_777_636_800_000_000_000;
const INTERVAL_NS: u64 = 500_000_000;
const CPUS: u64 = 4;

/// A pseudorandom number.
fn chance(seed: u64, below: u64) -> u64 {
    let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    state ^= state >> 29;
    state = state.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (state ^ state >> 32) % below
}

/// An interval with something in every section.
fn snapshot(sequence: u64) -> Snapshot {
    let row = |row: u64, below: u64| -> Vec<u64> {
        (0..CPUS)
            .map(|cpu| chance(sequence * 1_000 + row * 10 + cpu, below))
            .collect()
    };
    let components = (0..COMPONENTS.len() as u64)
        .map(|index| (index % 7 != 3).then(|| row(index, 9_000_000)))
        .collect();
    let cost = Cost {
        components,
        entries: vec![Some(row(200, 90)), None],
        samples: vec![None, Some(vec![sequence as u32 % 5; CPUS as usize])],
        stacks_taken: row(201, 500),
        stacks_lost: row(202, 2),
        probe_missed: vec![sequence % 3],
        ..Cost::default()
    };
    let busy = CpuModes {
        user_ns: chance(sequence, 1 << 30),
        ..CpuModes::default()
    };
    let own_cost = OwnCost {
        user_ns: 1_000 + sequence % 10,
        resident_bytes: 1_000_000 + chance(sequence, 5_000),
        taken_ns: vec![Some(row(203, 50)), None],
        costliest: sequence.is_multiple_of(2).then(|| CostliestCpu {
            cpu: sequence as u32 % 4,
            ratio: chance(sequence, 1_000) as f64 / 1e5,
        }),
        ..OwnCost::default()
    };
    Snapshot {
        sequence,
        time_unix_ns: BEGIN + sequence * INTERVAL_NS + chance(sequence, 1_000),
        interval_ns: INTERVAL_NS - chance(sequence, 70),
        cpus: (0..CPUS as u32).collect(),
        sections: Sections {
            cost: Some(cost),
            modes: Some(Modes {
                cpus: vec![busy; CPUS as usize],
                host: busy,
            }),
            power: Some(Power {
                host_watts: 50.0 + chance(sequence, 9) as f64,
                network_energy_joules: 0.5,
                network_capacity_energy_joules: 0.125,
                ..Power::default()
            }),
            own: Some(own_cost),
            ..Sections::default()
        },
    }
}

fn hello(started_unix_ns: u64) -> ServerMessage {
    ServerMessage::Hello(Box::new(metrics_common::Info {
        started_unix_ns,
        ..fixture::info()
    }))
}

fn interval(sequence: u64) -> ServerMessage {
    ServerMessage::Snapshot(Box::new(snapshot(sequence)))
}

fn log(messages: impl IntoIterator<Item = ServerMessage>) -> Vec<u8> {
    let mut log = LogBuilder::default();
    for message in messages {
        log.push(&message).unwrap();
    }
    log.finish()
}

fn log_of(intervals: u64) -> Vec<u8> {
    log(std::iter::once(hello(1)).chain((1..=intervals).map(interval)))
}

/// What was read of a log by its digests.
struct ReadLog {
    digests: Vec<Digest>,
    /// Numbers of the intervals read individually.
    single: Vec<u64>,
    /// Numbers of all intervals, in the order of reading.
    all: Vec<u64>,
    damaged: u64,
}

fn read(bytes: &[u8]) -> ReadLog {
    read_some(bytes, |_, _| true)
}

fn read_some(bytes: &[u8], is_wanted: impl Fn(u64, u64) -> bool) -> ReadLog {
    let index = LogIndex::of(&mut Cursor::new(bytes)).unwrap();
    let mut items = index
        .digested(Cursor::new(bytes), 0, u64::MAX, is_wanted)
        .unwrap();
    let mut found = ReadLog {
        digests: Vec::new(),
        single: Vec::new(),
        all: Vec::new(),
        damaged: 0,
    };
    for item in items.by_ref() {
        match item.unwrap() {
            Item::Message(ServerMessage::Snapshot(snapshot)) => {
                found.single.push(snapshot.sequence);
                found.all.push(snapshot.sequence);
            }
            Item::Message(_) => {}
            Item::Digest(digest) => {
                found
                    .all
                    .extend(digest.first_sequence()..=digest.sum.sequence);
                found.digests.push(*digest);
            }
        }
    }
    found.damaged = items.damaged_stretches() + u64::from(items.is_cut());
    found
}

#[test]
fn what_is_no_energy_is_none_and_not_part_of_the_mean() {
    for (host_watts, network_energy_joules, network_capacity_energy_joules) in [
        (20.0, f64::NAN, 0.1),
        (-1.0, 0.5, 0.1),
        (20.0, -0.5, 0.1),
        (20.0, 0.5, f64::INFINITY),
    ] {
        let snapshot = Snapshot {
            interval_ns: INTERVAL_NS,
            sections: Sections {
                power: Some(Power {
                    host_watts,
                    network_energy_joules,
                    network_capacity_energy_joules,
                    ..Power::default()
                }),
                ..Sections::default()
            },
            ..Snapshot::default()
        };
        assert_eq!(Extremes::of(&snapshot), Extremes::default());
    }
}

/// The digest of the intervals with these numbers.
fn expected(sequences: std::ops::RangeInclusive<u64>) -> Digest {
    let snapshots: Vec<Snapshot> = sequences.map(snapshot).collect();
    let mut sum = snapshots[0].clone();
    let mut extremes = Extremes::of(&sum);
    for later in &snapshots[1..] {
        sum.add(later);
        extremes.add(&Extremes::of(later));
    }
    let totals = |row| snapshots.iter().map(|s| s.total_ns(row)).collect();
    Digest {
        course: IntervalTotals {
            times_unix_ns: snapshots.iter().map(|s| s.time_unix_ns).collect(),
            intervals_ns: snapshots.iter().map(|s| s.interval_ns).collect(),
            totals_ns: (0..COMPONENTS.len()).map(totals).collect(),
        },
        sum,
        extremes,
    }
}

#[test]
fn a_digest_is_what_a_reader_of_its_intervals_finds_to_the_last_digit() {
    let found = read(&log_of(1_500));
    assert_eq!(found.all, (1..=1_500).collect::<Vec<_>>());
    // Ten minutes and the remaining intervals.
    let lengths = found.digests.iter().map(|d| d.course.times_unix_ns.len());
    assert_eq!(lengths.collect::<Vec<_>>(), [600, 600, 300]);
    assert!(found.single.is_empty());
    let mut from = 1;
    for digest in &found.digests {
        assert_eq!(*digest, expected(from..=digest.sum.sequence));
        from = digest.sum.sequence + 1;
    }
    assert_eq!(found.damaged, 0);
}

#[test]
fn only_stretches_that_are_wanted_as_a_whole_are_read_by_their_digest() {
    let bytes = log_of(1_300);
    let bounds = (snapshot(601).time_unix_ns, snapshot(1_200).time_unix_ns);
    let found = read_some(&bytes, |first, last| (first, last) == bounds);
    assert_eq!(found.digests.len(), 1);
    assert_eq!(found.all, (1..=1_300).collect::<Vec<_>>());
    assert_eq!(found.single.len(), 700);
}

#[test]
fn who_reads_in_order_passes_over_digests() {
    let bytes = log_of(700);
    let mut reader = LogReader::new(bytes.as_slice()).unwrap();
    assert_eq!(reader.by_ref().filter(Result::is_ok).count(), 701);
    assert_eq!(reader.counts().digests, 2);
    assert_eq!(
        (reader.damaged_stretches(), reader.unknown_messages()),
        (0, 0)
    );
}

#[test]
fn a_stretch_ends_where_its_figures_would_not_hold_for_each_interval() {
    let gap = ServerMessage::Gap(Gap {
        snapshots: 1,
        first_sequence: 97,
        last_sequence: 97,
        first_time_unix_ns: 97,
        last_time_unix_ns: 97,
        reason: "no room".to_owned(),
    });
    let with = |sequence, change: fn(&mut Snapshot)| {
        let mut snapshot = snapshot(sequence);
        change(&mut snapshot);
        ServerMessage::Snapshot(Box::new(snapshot))
    };
    let without_power = |sequence| with(sequence, |s| s.sections.power = None);
    let other_cpus = |sequence| with(sequence, |s| s.cpus[3] = 9);
    let earlier = |sequence| with(sequence, |s| s.time_unix_ns -= 100 * INTERVAL_NS);
    let impossible = |sequence| {
        with(sequence, |s| {
            let cost = s.sections.cost.as_mut().unwrap();
            cost.components[0] = Some(vec![u64::MAX / 8; CPUS as usize]);
        })
    };
    let of_no_length = |sequence| with(sequence, |s| s.interval_ns = 0);
    let cases: [(&str, Vec<ServerMessage>); 7] = [
        (
            "what rows mean",
            std::iter::once(hello(2))
                .chain((97..=200).map(interval))
                .collect(),
        ),
        (
            "a gap",
            std::iter::once(gap)
                .chain((98..=200).map(interval))
                .collect(),
        ),
        ("a loss", (98..=200).map(interval).collect()),
        ("sections", (97..=200).map(without_power).collect()),
        ("CPUs", (97..=200).map(other_cpus).collect()),
        ("the clock", (97..=200).map(earlier).collect()),
        (
            "values that cannot be",
            [impossible(97), of_no_length(98)]
                .into_iter()
                .chain((99..=200).map(interval))
                .collect(),
        ),
    ];
    for (what, rest) in cases {
        let count = |messages: &[ServerMessage]| {
            let is_interval = |m: &&ServerMessage| matches!(m, ServerMessage::Snapshot(_));
            messages.iter().filter(is_interval).count()
        };
        let intervals = 96 + count(&rest);
        let first = std::iter::once(hello(1)).chain((1..=96).map(interval));
        let found = read(&log(first.chain(rest)));
        assert_eq!(found.all.len(), intervals, "{what}");
        assert_eq!(found.digests.len(), 2, "{what}");
        assert_eq!(found.digests[0], expected(1..=96), "{what}");
        let single = found.single.len();
        assert!(single <= 16, "{what}: {single} one by one");
    }
}

#[test]
fn a_log_that_was_cut_or_goes_on_is_read_by_the_digests_that_it_has() {
    let bytes = log_of(1_500);
    let index = LogIndex::of(&mut Cursor::new(&bytes)).unwrap();
    let digests: Vec<Part> = index
        .parts()
        .iter()
        .filter(|p| p.is_digest())
        .copied()
        .collect();
    let in_third = &bytes[..digests[2].offset as usize];
    let found = read(in_third);
    assert_eq!(
        (found.digests.len(), found.single.len(), found.damaged),
        (2, 300, 0)
    );
    let in_a_block = &in_third[..in_third.len() - 10];
    let found = read(in_a_block);
    assert_eq!((found.digests.len(), found.damaged), (2, 1));
    assert_eq!(found.all.len(), found.all.last().copied().unwrap() as usize);
    // Another run is appended, including its header.
    let both = [in_third, &log_of(700)].concat();
    let found = read(&both);
    assert_eq!((found.digests.len(), found.single.len()), (4, 300));
    assert_eq!(found.all.len(), 2_200);
}

/// Replaces a digest by one with this content and valid checksums.
fn with_digest(bytes: &[u8], digest: &Digest, cover: impl Fn(Coverage) -> Coverage) -> Vec<u8> {
    let index = LogIndex::of(&mut Cursor::new(bytes)).unwrap();
    let part = *index.parts().iter().find(|part| part.is_digest()).unwrap();
    let (from, to) = (part.offset as usize, part.end() as usize);
    let cover_at = from + block::HEAD_BYTES;
    let is = Coverage::of(&mut packed::Reader(&bytes[cover_at..to])).unwrap();
    let other = digest.block(cover(is), &mut Packer::default()).unwrap();
    // Without the index, whose offsets would be wrong.
    [&bytes[..from], &other].concat()
}

#[test]
fn a_digest_that_its_intervals_cannot_come_to_is_damage_and_they_are_read_instead() {
    let bytes = log_of(300);
    let whole = read(&bytes).digests.remove(0);
    let same = |cover| cover;
    assert_eq!(read(&with_digest(&bytes, &whole, same)).digests.len(), 1);
    let changes: [fn(&mut Digest); 7] = [
        |digest| digest.extremes.host_joules = f64::NAN,
        |digest| digest.sum.sequence = 5,
        |digest| digest.sum.interval_ns += 1,
        |digest| digest.course.totals_ns[0].as_mut().unwrap()[7] += 10_000,
        |digest| digest.course.totals_ns[0] = None,
        |digest| digest.course.intervals_ns[3] = 0,
        |digest| digest.sum.sections.cost = None,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut digest = whole.clone();
        change(&mut digest);
        let found = read(&with_digest(&bytes, &digest, same));
        assert_eq!(found.single, (1..=300).collect::<Vec<_>>(), "{number}");
        assert_eq!(found.damaged, 1, "{number}");
    }
    // A digest that claims other blocks is ignored.
    let claims: [fn(Coverage) -> Coverage; 4] = [
        |is| Coverage {
            blocks: is.blocks - 1,
            ..is
        },
        |is| Coverage {
            blocks: u64::MAX,
            ..is
        },
        |is| Coverage {
            bytes: is.bytes + 1,
            ..is
        },
        |is| Coverage {
            bytes: u64::MAX,
            ..is
        },
    ];
    for claim in claims {
        let found = read(&with_digest(&bytes, &whole, claim));
        assert_eq!(found.single, (1..=300).collect::<Vec<_>>());
    }
}

#[test]
fn hundreds_of_damages_count_no_interval_twice_and_lose_no_more_than_they_touch() {
    let bytes = log_of(70);
    let all: Vec<u64> = (1..=70).collect();
    for seed in 0..400_u64 {
        let mut damaged = bytes.clone();
        let at = file_header().len() as u64;
        let at = (at + chance(seed, bytes.len() as u64 - at)) as usize;
        let to = bytes.len().min(at + 1 + chance(seed ^ 7, 2_000) as usize);
        match seed % 4 {
            0 => damaged[at] ^= 1 << chance(seed ^ 1, 8),
            1 => damaged[at..to].fill(0),
            2 => drop(damaged.drain(at..to)),
            _ => damaged.truncate(at),
        }
        let found = read(&damaged);
        let mut once = found.all.clone();
        once.dedup();
        assert_eq!(once, found.all, "damage {seed}");
        assert!(found.all.is_sorted(), "damage {seed}");
        let sequences = LogReader::new(damaged.as_slice())
            .unwrap()
            .filter_map(|message| match message {
                Ok(ServerMessage::Snapshot(snapshot)) => Some(snapshot.sequence),
                _ => None,
            });
        let in_order: Vec<u64> = sequences.collect();
        let is_there = |sequence| found.all.contains(sequence);
        assert!(in_order.iter().all(is_there), "damage {seed}");
        assert!(found.all.iter().all(|sequence| all.contains(sequence)));
        for digest in &found.digests {
            let range = digest.first_sequence()..=digest.sum.sequence;
            assert_eq!(*digest, expected(range), "damage {seed}");
        }
    }
}
