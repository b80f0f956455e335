//! The wire and log formats from outside: decoding restores what was encoded, and damage costs only
//! the blocks that it hits.

#![allow(clippy::unwrap_used)]

use metrics_common::codec::{self, FORMAT_VERSION, ServerMessage};
use metrics_common::component::{children_of, index_of};
use metrics_common::latency::{BUCKETS, Histogram, Point};
use metrics_common::sections::{
    About, Attachment, Caused, Causes, Estimated, GroupKind, GroupLatency, Interruption,
    MissingPoint, OwnerBasis, Packets, PointLatency, Price, Program, Programs, SamplePrice,
    SampledFigure, Samples, SlowSoftirq, Slowest, Variance,
};
use metrics_common::{
    Availability, COMPONENTS, ComponentInfo, Correction, Cost, CostliestCpu, CpuModes, DropPlace,
    Drops, Info, InstrumentCost, Interface, InterfaceCounts, Interfaces, Latency, Modes, OwnCost,
    OwnPart, Owner, OwnerKind, Owners, Power, Sections, Snapshot, SplitBasis, Traffic, Work,
    ZonePower, fixture,
};
use netto_log_format::{self as log, LogError, LogReader};
use proptest::prelude::*;

fn info() -> Info {
    Info {
        hostname: "host \"quoted\" ü".into(),
        started_unix_ns: u64::MAX,
        numa_nodes: vec![0, 1],
        components: ComponentInfo::table(|index| match index % 5 {
            0 => Availability::missing("no such function"),
            _ => Availability::by("sampling"),
        }),
        probes: vec![fixture::probe("softirq_entry", "tp_btf", Some("refused"))],
        power: Availability::by("rapl"),
        notes: vec!["A note.".into()],
        ..fixture::info()
    }
}

prop_compose! {
    fn any_snapshot()(
        sequence in any::<u64>(),
        cpus in 0_usize..5,
        seed in any::<u64>(),
        power in proptest::option::of(0.0_f64..1e6),
    ) -> Snapshot {
        let value = |i: usize, cpu: usize| seed.rotate_left((i * 7 + cpu) as u32 % 64) >> (i % 64);
        let row = |i: usize| (0..cpus).map(|cpu| value(i, cpu)).collect::<Vec<u64>>();
        let estimated = |ns: u64| ns.is_multiple_of(2).then_some(Estimated {
            ns, counted_ns: 1, events: seed,
            variance: (seed % 3 != 0).then_some(Variance { events2: u64::MAX, freedom: [seed, 67], weight: 1 }),
        });
        let rows = |absent: usize| (0..COMPONENTS.len()).map(|i| (i % 7 != absent).then(|| row(i))).collect::<Vec<_>>();
        let cost = Cost {
            components: rows(3),
            samples: rows(1).into_iter().map(|row| row.map(|r| r.into_iter().map(|v| v as u32).collect())).collect(),
            split_basis: power.map(|_| SplitBasis { component: 3, stacks_ns: seed, past_ns: 1, host_ns: 2, nothing_ns: u64::MAX }).into_iter().collect(),
            entries: rows(2),
            ksoftirqd_rx_ns: power.map(|_| row(4)),
            stacks_taken: row(1),
            stacks_lost: row(2),
            probe_missed: vec![seed; cpus],
            softirq_correction: power.map(|ratio| Correction { ratio, error_ratio: 0.1 }),
            received_ns_ms: power.map(|_| seed),
            received_shared_ns: power.map(|_| seed),
            sample_ns_ms: power.map(|_| (0..COMPONENTS.len()).map(|i| value(i, 0)).collect()),
            ticks_shared_ns: power.map(|_| (0..COMPONENTS.len()).map(|i| value(i, 1)).collect()),
            fewest_due: power.map(|_| seed),
            fewest_due_in_tasks: power.map(|_| seed),
        };
        let modes = Modes {
            cpus: (0..cpus).map(|cpu| CpuModes::from_values([value(cpu, 1); 8])).collect(),
            host: CpuModes::from_values([seed; 8]),
        };
        let group = Owner { id: seed, cgroup: "/a\\xffb".into(), pod: "web-1".into(), ..Owner::single(OwnerKind::Cgroup) };
        let process = Owner { kind: OwnerKind::Process, pid: 7, started_ns: seed, comm: "ü\"".into(), ..group.clone() };
        let owners = Owners {
            owners: vec![group, process, Owner::single(OwnerKind::Idle)],
            caused: (0..2).map(|owner| Caused { owner, component: 5, cpu_ns: row(5) }).collect(),
            taken: vec![Interruption { cause: 0, payer: 2, ns: seed }],
            basis: vec![OwnerBasis { component: 3, socket_ns: seed, nothing_ns: u64::MAX, cause_ns_ms: power.map(|_| seed), ..OwnerBasis::default() }],
            irq_pressure_ns: vec![power.map(|_| seed), None, None],
            flows: Vec::new(),
            samples: power.map(|_| Samples::of(vec![(SampledFigure::Caused(0, 5), seed), (SampledFigure::Taken(0, 2), 1)])),
        };
        let interface = |number: u64| Interface {
            name: format!("veth{number}\\xff\"ü"),
            driver: "virtio_net".into(),
            is_hardware: number.is_multiple_of(2),
            rx_queues: number as u32,
            tx_queues: u32::MAX,
            counts: InterfaceCounts::from_values([seed.rotate_left(number as u32); 9]),
        };
        let traffic = Traffic {
            softnet: rows(0).into_iter().take(5).collect(),
            interfaces: (seed % 4 != 0).then(|| Interfaces {
                named: (0..seed % 70).map(interface).collect(),
                others: cpus as u32,
                other: InterfaceCounts::from_values([1, 2, 3, 4, 5, 6, 7, 8, seed]),
            }),
            protocols: vec![Some(seed), None, Some(0)],
            work: (seed % 3 != 0).then(|| Work {
                counted_ns: seed, estimated: estimated(seed),
                counts: vec![Some(seed), None, Some(1)],
            }),
        };
        let place = |packets: u64| DropPlace {
            reason: "NO_SOCKET".into(), function: format!("f{packets}"), packets,
        };
        let drops = Drops {
            places: (0..seed % 128).map(place).collect(),
            other_packets: seed,
            cpus: row(5),
            estimated: estimated(seed / 2),
        };
        let program = |id: u64| Program {
            about: About {
                id: id as u32, name: "ü\"".into(), kind: "xdp".into(), is_own: id == 1, samples: seed,
                attached: vec![Attachment { hook: "xdp".into(), target: format!("veth{id}") }; id as usize % 3],
                packets: (id > 1).then_some(Packets { count: seed, cpu_ns: id, are_runs: true }),
                uncounted: if id > 1 { String::new() } else { "gone".into() }, ..About::default()
            },
            cpu_ns: row(id as usize),
            variance_ns_ms: power.map(|_| seed),
            causes: (seed % 2 != 0).then(|| {
                let mut causes = Causes::default();
                causes.add(&Owner { id, cgroup: "/ü".into(), ..Owner::single(OwnerKind::Cgroup) }, id, power.map(|_| seed));
                causes.add(&Owner::single(OwnerKind::Unknown), seed, None);
                causes
            }),
        };
        let programs = Programs {
            programs: (0..seed % 64).map(program).collect(), other_cpu_ns: row(9), other_samples: seed,
        };
        let slow = |number: u64| SlowSoftirq {
            began_unix_ns: u64::MAX - number, length_ns: seed, cpu: 3, softirq: "NET_RX".into(), samples: 1,
            part: number.is_multiple_of(2).then(|| "ü".into()), payer: Owner::single(OwnerKind::Idle),
            cause: Owner { id: number % 3, comm: "ü\"".into(), ..Owner::single(OwnerKind::Process) },
        };
        let slowest = Slowest {
            softirqs: (0..seed % 11).map(slow).collect(), timed: seed, timed_ns: 1, measured_ns: 2,
        };
        let buckets = |point: usize| (0..BUCKETS).map(|i| (i % 3 != point % 3).then(|| row(i))).collect();
        let point = |(index, point): (usize, &Point)| PointLatency {
            buckets: buckets(index), sum_ns: row(index), negative: row(1), too_long: row(2), lost: row(3),
            ..PointLatency::new(*point, "tracepoint \"ü\"", cpus)
        };
        let group = |number: u64| GroupLatency {
            kind: [GroupKind::Interface, GroupKind::Owner][number as usize % 2], point: Point::Qdisc,
            name: (number > 0).then(|| format!("/a\\xff{number}")), histogram: Histogram::of(&[seed, 0, number], u64::MAX),
        };
        let latency = Latency {
            one_in: seed, groups: (0..seed % 40).map(group).collect(),
            points: Point::ALL.iter().enumerate().skip(cpus).map(point).collect(),
            missing: vec![MissingPoint { point: Point::IpStart, reason: "no BTF".into() }],
            estimated: estimated(seed / 3),
        };
        Snapshot {
            sequence,
            time_unix_ns: seed,
            interval_ns: 500_000_000,
            cpus: (0..cpus as u32).collect(),
            sections: Sections {
                cost: (seed % 7 != 0).then_some(cost),
                modes: (seed % 5 != 0).then_some(modes),
                owners: (seed % 2 != 0).then_some(owners),
                power: power.map(|watts| Power {
                    host_watts: watts * 2.0,
                    network_watts: watts,
                    network_energy_joules: watts / 2.0,
                    network_capacity_watts: watts / 8.0,
                    network_capacity_energy_joules: watts / 16.0,
                    zones: vec![ZonePower { zone: "package-0/dram".into(), energy_joules: watts }],
                }),
                traffic: (seed % 2 != 0).then_some(traffic),
                drops: power.map(|_| drops),
                programs: (seed % 3 != 0).then_some(programs),
                slowest: (seed % 3 != 0).then_some(slowest),
                latency: (seed % 3 != 0).then_some(latency),
                own: (seed % 3 != 0).then(|| OwnCost {
                    user_ns: seed,
                    system_ns: 1,
                    resident_bytes: 2,
                    analysis_ns: 3,
                    taken_ns: rows(0).into_iter().take(OwnPart::ALL.len()).collect(),
                    sampling_hz: power.map(|_| row(6)),
                    costliest: power.map(|ratio| CostliestCpu { cpu: 3, ratio }),
                    sample_price: power.map(|ratio| SamplePrice {
                        perf: Price { ns: ratio, half_width_ns: 1.0 },
                        tick: (ratio > 1.0).then_some(Price { ns: 3.0, half_width_ns: ratio }),
                        trials: seed,
                    }),
                    instruments: vec![InstrumentCost { name: "cost".into(), analysis_ns: seed }; cpus],
                }),
                ..Sections::default()
            },
        }
    }
}

/// A log of a Hello and these snapshots, and the offset of each block.
fn written(snapshots: &[Snapshot]) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = log::file_header();
    let mut starts = Vec::new();
    let hello = ServerMessage::Hello(Box::new(info()));
    let messages = snapshots
        .iter()
        .map(|s| ServerMessage::Snapshot(Box::new(s.clone())));
    for message in std::iter::once(hello).chain(messages) {
        starts.push(bytes.len());
        bytes.extend(netto_log_format::fixture::block(&message).unwrap());
    }
    (bytes, starts)
}

fn sequences(reader: &mut LogReader<&[u8]>) -> Vec<u64> {
    reader
        .filter_map(|message| match message.unwrap() {
            ServerMessage::Snapshot(snapshot) => Some(snapshot.sequence),
            _ => None,
        })
        .collect()
}

fn numbered(count: u64) -> Vec<Snapshot> {
    (1..=count).map(empty_snapshot).collect()
}

fn empty_snapshot(sequence: u64) -> Snapshot {
    Snapshot {
        sequence,
        ..Snapshot::default()
    }
}

/// Pseudorandom numbers, which do not compress.
fn random_numbers() -> impl FnMut(u64) -> u64 {
    let mut state = 1_u64;
    move |most| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % most
    }
}

/// A busy host: every component at work on every CPU; each CPU's parts sum to all of its time, with
/// large and small ones as in a real stack.
fn busy(cpus: u32) -> Snapshot {
    let mut random = random_numbers();
    let mut row = |most: u64| (0..cpus).map(|_| random(most)).collect::<Vec<u64>>();
    let mut components: Vec<Option<Vec<u64>>> = vec![None; COMPONENTS.len()];
    // 60 rows, including wholes: each part is a fraction of the one before.
    let leaves = (0..COMPONENTS.len()).filter(|&i| children_of(COMPONENTS[i].slug).count() == 0);
    for (at, leaf) in leaves.take(60 - 4).enumerate() {
        components[leaf] = Some(row(66_000_000 >> (at / 5)));
    }
    for whole in (0..COMPONENTS.len()).rev() {
        let parts: Vec<usize> = children_of(COMPONENTS[whole].slug).collect();
        let parts: Vec<_> = parts
            .iter()
            .filter_map(|&part| components[part].clone())
            .collect();
        if !parts.is_empty() {
            let of_cpu = |cpu: usize| parts.iter().map(|part| part[cpu]).sum();
            components[whole] = Some((0..cpus as usize).map(of_cpu).collect());
        }
    }
    let rx = index_of("rx_softirq").unwrap();
    let mut samples = vec![None; COMPONENTS.len()];
    samples[rx] = Some(row(500).into_iter().map(|n| n as u32).collect());
    let mut tick = || row(50)[0] * 10_000_000;
    let modes = (0..cpus)
        .map(|_| CpuModes::from_values([0; 8].map(|_: u64| tick())))
        .collect();
    Snapshot {
        sequence: 123_456,
        time_unix_ns: 1_700_000_000_123_456_789,
        interval_ns: 500_000_000,
        cpus: (0..cpus).collect(),
        sections: Sections {
            cost: Some(Cost {
                entries: (0..COMPONENTS.len())
                    .map(|i| (i < 14).then(|| row(20_000)))
                    .collect(),
                components,
                samples,
                stacks_taken: row(500),
                stacks_lost: vec![0; cpus as usize],
                ..Cost::default()
            }),
            modes: Some(Modes {
                cpus: modes,
                host: CpuModes::default(),
            }),
            own: Some(OwnCost::default()),
            power: None,
            ..Sections::default()
        },
    }
}

#[test]
fn a_busy_host_of_128_cpus_and_60_components_fits_into_25_kilobytes_exactly() {
    let snapshot = busy(128);
    let measured = snapshot.cost().components.iter().flatten().count();
    assert!((60..66).contains(&measured), "{measured}");
    let bytes = codec::encode_snapshot(&snapshot).unwrap();
    assert!(bytes.len() <= 25_000, "{} bytes", bytes.len());
    let back: ServerMessage = codec::decode(&bytes).unwrap();
    assert_eq!(back, ServerMessage::Snapshot(Box::new(snapshot)));
}

#[test]
fn a_snapshot_that_stays_where_it_is_is_written_as_a_message() {
    let snapshot = busy(3);
    let message = codec::encode_snapshot(&snapshot).unwrap();
    let whole = ServerMessage::Snapshot(Box::new(snapshot));
    assert_eq!(codec::encode(&whole).unwrap(), message);
}

#[test]
fn every_message_is_read_back_as_it_was_written() {
    for message in [
        ServerMessage::Hello(Box::new(info())),
        ServerMessage::Snapshot(Box::new(empty_snapshot(7))),
        ServerMessage::Bye("the daemon was asked to end".into()),
    ] {
        assert_eq!(
            codec::decode::<ServerMessage>(&codec::encode(&message).unwrap()).unwrap(),
            message
        );
    }
}

#[test]
fn a_newer_minor_version_of_messages_is_read_and_a_newer_major_one_is_refused() {
    let hello = ServerMessage::Hello(Box::new(info()));
    let bytes = codec::encode(&hello).unwrap();
    let (major, minor) = FORMAT_VERSION;
    let version = codec::encode(&FORMAT_VERSION).unwrap();
    let at = bytes.windows(version.len()).position(|w| w == version);
    let with = |version: (u16, u16)| {
        let mut bytes = bytes.clone();
        let (from, version) = (at.unwrap(), codec::encode(&version).unwrap());
        bytes[from..from + version.len()].copy_from_slice(&version);
        codec::decode::<ServerMessage>(&bytes)
    };
    assert_eq!(with((major, minor + 1)).unwrap(), hello);
    let error = with((major + 1, 3)).unwrap_err().to_string();
    assert!(
        error.contains("format 2.3") && error.contains("use a newer netto"),
        "{error}"
    );
}

/// A newer netto has sections and fields that this one does not know, and may lack others.
#[test]
fn sections_and_fields_that_one_side_does_not_know_do_no_harm() {
    #[derive(serde::Serialize)]
    struct Newer {
        sequence: u64,
        time_unix_ns: u64,
        interval_ns: u64,
        cpus: Vec<u32>,
        sections: NewerSections,
        weather: &'static str,
    }
    #[derive(serde::Serialize)]
    struct NewerSections {
        tides: Vec<Vec<u32>>,
        own: NewerOwn,
    }
    #[derive(serde::Serialize)]
    struct NewerOwn {
        user_ns: u64,
        system_ns: u64,
        resident_bytes: u64,
        analysis_ns: u64,
        instruments: [u8; 0],
        mood: &'static str,
    }
    let newer = Newer {
        sequence: 9,
        time_unix_ns: 1,
        interval_ns: 2,
        cpus: vec![0, 1],
        sections: NewerSections {
            tides: vec![vec![1, 2], vec![]],
            own: NewerOwn {
                user_ns: 5,
                system_ns: 0,
                resident_bytes: 0,
                analysis_ns: 0,
                instruments: [],
                mood: "fine",
            },
        },
        weather: "sunny",
    };
    let read: Snapshot = codec::decode(&codec::encode(&newer).unwrap()).unwrap();
    assert_eq!(
        (read.sequence, read.sections.own.as_ref().unwrap().user_ns),
        (9, 5)
    );
    assert_eq!(read.sections.cost, None);
    assert_eq!(read.total_ns(0), None, "not measured, which is not zero");
}

#[test]
fn intervals_add_up_to_one_that_says_the_same() {
    let (one, mut other) = (busy(2), busy(3));
    other.cpus = vec![0, 2, 7];
    let mut sum = one.clone();
    sum.add(&other);
    assert_eq!(
        (sum.cpus.as_slice(), sum.interval_ns),
        ([0, 1, 2, 7].as_slice(), 1_000_000_000)
    );
    for row in 0..COMPONENTS.len() {
        let both = one
            .total_ns(row)
            .zip(other.total_ns(row))
            .map(|(a, b)| a + b);
        assert_eq!(sum.total_ns(row), both);
        let total = sum.sections.sum();
        assert_eq!(total.cost.unwrap().total_ns(row), both);
        if let (Some(sum), Some(one), Some(other)) = (
            sum.cost().cpu_ns(row),
            one.cost().cpu_ns(row),
            other.cost().cpu_ns(row),
        ) {
            assert_eq!(sum, [one[0] + other[0], one[1], other[1], other[2]]);
        }
    }
}

#[test]
fn garbage_is_refused_with_its_length() {
    let error = codec::decode::<ServerMessage>(&[0xc1; 17])
        .unwrap_err()
        .to_string();
    assert!(error.contains("17 bytes"), "{error}");
}

#[test]
fn foreign_files_and_newer_formats_are_told_apart() {
    assert!(matches!(
        LogReader::new(&b"PK\x03\x04 something else"[..]),
        Err(LogError::NotALog)
    ));
    assert!(matches!(
        LogReader::new(&b"NETTO"[..]),
        Err(LogError::NotALog)
    ));
    let mut newer = log::file_header();
    newer[10] = 7;
    assert_eq!(LogReader::new(newer.as_slice()).unwrap().count(), 0);
    newer[8] = 99;
    let error = LogReader::new(newer.as_slice()).unwrap_err();
    assert!(
        matches!(error, LogError::TooNew { major: 99, .. })
            && error.to_string().contains("newer netto"),
        "{error}"
    );
}

#[test]
fn a_damaged_block_costs_that_block_and_is_counted() {
    let (mut bytes, starts) = written(&numbered(3));
    bytes[starts[2] + 20] ^= 0x55;
    let mut reader = LogReader::new(bytes.as_slice()).unwrap();
    assert_eq!(sequences(&mut reader), [1, 3]);
    assert_eq!((reader.damaged_stretches(), reader.is_cut()), (1, false));
}

#[test]
fn a_length_that_was_damaged_does_not_swallow_what_follows() {
    for damaged_length in [0_u32, 5, 4_000, 1 << 20, u32::MAX] {
        let (mut bytes, starts) = written(&numbered(4));
        bytes[starts[2] + 4..starts[2] + 8].copy_from_slice(&damaged_length.to_le_bytes());
        let mut reader = LogReader::new(bytes.as_slice()).unwrap();
        assert_eq!(sequences(&mut reader), [1, 3, 4], "length {damaged_length}");
        assert_eq!(reader.damaged_stretches(), 1);
    }
}

#[test]
fn a_log_that_goes_on_after_a_cut_is_read_on() {
    let (first, starts) = written(&numbered(2));
    let mut bytes = first[..starts[2] + 9].to_vec();
    bytes.extend(
        netto_log_format::fixture::block(&ServerMessage::Snapshot(Box::new(empty_snapshot(8))))
            .unwrap(),
    );
    let mut reader = LogReader::new(bytes.as_slice()).unwrap();
    assert_eq!(sequences(&mut reader), [1, 8]);
}

proptest! {
    #[test]
    fn snapshots_survive_the_wire(snapshot in any_snapshot()) {
        let bytes = codec::encode(&snapshot).unwrap();
        prop_assert_eq!(codec::decode::<Snapshot>(&bytes).unwrap(), snapshot);
    }

    #[test]
    fn a_log_cut_anywhere_is_readable_up_to_the_cut(snapshots in proptest::collection::vec(any_snapshot(), 1..4), at in 0.0_f64..1.0) {
        let (bytes, starts) = written(&snapshots);
        let cut = 12 + ((bytes.len() - 12) as f64 * at) as usize;
        let whole = starts.iter().skip(1).zip(starts.iter().skip(2).chain([&bytes.len()])).filter(|(_, end)| **end <= cut).count();
        let mut reader = LogReader::new(&bytes[..cut]).unwrap();
        let expected: Vec<u64> = snapshots[..whole].iter().map(|s| s.sequence).collect();
        prop_assert_eq!(sequences(&mut reader), expected);
        prop_assert_eq!(reader.is_cut(), !starts.contains(&cut) && cut != bytes.len());
    }

    #[test]
    fn no_damage_makes_the_reader_fail_or_invent(snapshots in proptest::collection::vec(any_snapshot(), 1..4), flips in proptest::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..20)) {
        let (mut bytes, _) = written(&snapshots);
        for (index, flip) in flips {
            let at = 12 + index.index(bytes.len() - 12);
            bytes[at] ^= flip;
        }
        let known: Vec<u64> = snapshots.iter().map(|s| s.sequence).collect();
        let mut reader = LogReader::new(bytes.as_slice()).unwrap();
        for sequence in sequences(&mut reader) {
            prop_assert!(known.contains(&sequence));
        }
    }
}
