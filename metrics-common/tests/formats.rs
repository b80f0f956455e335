//! The wire and log formats, from outside: what is written is read back, and
//! damage costs no more than the frames that it hits.

#![allow(clippy::unwrap_used)]

use metrics_common::codec::{self, ServerMessage};
use metrics_common::log::{self, LogError, LogReader};
use metrics_common::{
    Availability, COMPONENTS, ComponentInfo, CpuModes, Info, OwnCost, Power, ProbeInfo, Snapshot,
    SplitBasis, ZonePower,
};
use proptest::prelude::*;

fn info() -> Info {
    Info {
        version: "0.1.0".into(),
        kernel: "6.18.0".into(),
        hostname: "host \"quoted\" ü".into(),
        boot_id: "b".into(),
        started_unix_ns: u64::MAX,
        user_period_ms: 500,
        frequency_hz: 1000,
        possible_cpus: 2,
        numa_nodes: vec![0, 1],
        components: ComponentInfo::table(|index| match index % 5 {
            0 => Availability::missing("no such function"),
            _ => Availability::by("sampling"),
        }),
        probes: vec![ProbeInfo {
            name: "softirq_entry".into(),
            method: "tp_btf".into(),
            purpose: "rx_softirq".into(),
            failure: Some("refused".into()),
        }],
        missable: Vec::new(),
        power: Availability::by("rapl"),
        notes: vec!["A note.".into()],
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
        let rows = |absent: usize| (0..COMPONENTS.len()).map(|i| (i % 7 != absent).then(|| row(i))).collect::<Vec<_>>();
        Snapshot {
            sequence,
            time_unix_ns: seed,
            interval_ns: 500_000_000,
            cpus: (0..cpus as u32).collect(),
            components: rows(3),
            samples: rows(1).into_iter().map(|row| row.map(|r| r.into_iter().map(|v| v as u32).collect())).collect(),
            split_basis: power.map(|_| SplitBasis { component: 3, stacks_ns: seed, past_ns: 1, host_ns: 2, nothing_ns: u64::MAX }).into_iter().collect(),
            entries: rows(2),
            ksoftirqd_rx_ns: power.map(|_| row(4)),
            cpu_modes: (0..cpus).map(|cpu| CpuModes::from_values([value(cpu, 1); 8])).collect(),
            host_modes: CpuModes::from_values([seed; 8]),
            stacks_taken: row(1),
            stacks_lost: row(2),
            probe_missed: Vec::new(),
            power: power.map(|watts| Power {
                host_watts: watts * 2.0,
                network_watts: watts,
                network_energy_joules: watts / 2.0,
                zones: vec![ZonePower { zone: "package-0/dram".into(), energy_joules: watts }],
            }),
            own: OwnCost { user_ns: seed, system_ns: 1, resident_bytes: 2, analysis_ns: 3 },
        }
    }
}

/// A log of a hello and these snapshots, and where each frame begins.
fn written(snapshots: &[Snapshot]) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = log::file_header();
    let mut starts = Vec::new();
    let hello = ServerMessage::Hello(Box::new(info()));
    let messages = snapshots
        .iter()
        .map(|s| ServerMessage::Snapshot(Box::new(s.clone())));
    for message in std::iter::once(hello).chain(messages) {
        starts.push(bytes.len());
        bytes.extend(log::frame(&message).unwrap());
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
        time_unix_ns: 0,
        interval_ns: 0,
        cpus: vec![],
        components: vec![],
        samples: vec![],
        split_basis: vec![],
        entries: vec![],
        ksoftirqd_rx_ns: None,
        cpu_modes: vec![],
        host_modes: CpuModes::default(),
        stacks_taken: vec![],
        stacks_lost: vec![],
        probe_missed: Vec::new(),
        power: None,
        own: OwnCost::default(),
    }
}

/// A busy host: every component at work on every CPU, each CPU's parts adding up
/// to all of its time, in no pattern that would be easy to shorten.
fn busy(cpus: u32, components: usize) -> Snapshot {
    let mut state = 1_u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state >> 33
    };
    let mut row = |most: u64| (0..cpus).map(|_| random() % most).collect::<Vec<u64>>();
    // Sums and timed rows are large, parts share what their whole has.
    let of_row = |index: usize| if index < 15 { 500_000_000 } else { 20_000_000 };
    let components = (0..components)
        .map(|index| Some(row(of_row(index))))
        .collect();
    let entries = (0..60)
        .map(|index| (index < 14).then(|| row(20_000)))
        .collect();
    Snapshot {
        cpus: (0..cpus).collect(),
        interval_ns: 500_000_000,
        time_unix_ns: 1_700_000_000_123_456_789,
        components,
        samples: (0..60)
            .map(|i| (i < 2).then(|| row(500).into_iter().map(|n| n as u32).collect()))
            .collect(),
        split_basis: (0..8)
            .map(|component| SplitBasis {
                component,
                stacks_ns: 60_000_000_001,
                past_ns: 3_000_000_001,
                host_ns: 300_000_001,
                nothing_ns: 0,
            })
            .collect(),
        entries,
        cpu_modes: (0..cpus)
            .map(|_| CpuModes::from_values([0; 8].map(|_: u64| row(50)[0] * 10_000_000)))
            .collect(),
        stacks_taken: row(500),
        stacks_lost: vec![0; cpus as usize],
        probe_missed: Vec::new(),
        ..empty_snapshot(123_456)
    }
}

#[test]
fn a_busy_host_of_128_cpus_and_60_components_fits_into_25_kilobytes() {
    let snapshot = busy(128, 60);
    let bytes = codec::encode_packed(&snapshot).unwrap();
    assert!(bytes.len() <= 25_000, "{} bytes", bytes.len());
    let plain = codec::encode(&ServerMessage::Snapshot(Box::new(snapshot))).unwrap();
    assert!(plain.len() > 2 * bytes.len(), "packing is worth it");
}

#[test]
fn beyond_32_cpus_time_travels_in_microseconds_and_counts_stay_exact() {
    for (cpus, off_ns) in [(32, 0), (33, 500)] {
        let snapshot = busy(cpus, 60);
        let bytes = codec::encode_packed(&snapshot).unwrap();
        let Ok(ServerMessage::Snapshot(back)) = codec::decode(&bytes) else {
            panic!("no snapshot");
        };
        for (row, back) in snapshot.components.iter().zip(&back.components) {
            for (ns, back) in row.iter().flatten().zip(back.iter().flatten()) {
                assert!(
                    ns.abs_diff(*back) <= off_ns,
                    "{cpus} CPUs: {ns} became {back}"
                );
            }
        }
        let exact = Snapshot {
            components: snapshot.components.clone(),
            ..*back
        };
        assert_eq!(exact, snapshot);
    }
}

proptest! {
    #[test]
    fn a_packed_snapshot_is_read_back_like_any_other(snapshot in any_snapshot()) {
        let bytes = codec::encode_packed(&snapshot).unwrap();
        let back: ServerMessage = codec::decode(&bytes).unwrap();
        prop_assert_eq!(back, ServerMessage::Snapshot(Box::new(snapshot)));
    }
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

/// An older netto knew neither `entries` nor `split_basis`; a newer one may know more than this one.
#[test]
fn fields_that_one_side_does_not_know_do_no_harm() {
    #[derive(serde::Serialize)]
    struct Foreign {
        sequence: u64,
        time_unix_ns: u64,
        interval_ns: u64,
        cpus: Vec<u32>,
        components: Vec<Option<Vec<u64>>>,
        samples: Vec<Option<Vec<u32>>>,
        cpu_modes: Vec<CpuModes>,
        host_modes: CpuModes,
        stacks_taken: Vec<u64>,
        stacks_lost: Vec<u64>,
        power: Option<Power>,
        own: OwnCost,
        weather: &'static str,
    }
    let foreign = Foreign {
        sequence: 9,
        time_unix_ns: 1,
        interval_ns: 2,
        cpus: vec![],
        components: vec![],
        samples: vec![],
        cpu_modes: vec![],
        host_modes: CpuModes::default(),
        stacks_taken: vec![],
        stacks_lost: vec![],
        power: None,
        own: OwnCost::default(),
        weather: "sunny",
    };
    let read: Snapshot = codec::decode(&codec::encode(&foreign).unwrap()).unwrap();
    assert_eq!((read.sequence, read.entries.len()), (9, 0));
    assert_eq!(read.split_basis, vec![]);
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
    newer[8] = 99;
    let error = LogReader::new(newer.as_slice()).unwrap_err();
    assert!(
        matches!(error, LogError::TooNew { major: 99, .. })
            && error.to_string().contains("newer netto"),
        "{error}"
    );
}

#[test]
fn a_damaged_frame_costs_that_frame_and_is_counted() {
    let (mut bytes, starts) = written(&numbered(3));
    bytes[starts[2] + 20] ^= 0x55;
    let mut reader = LogReader::new(bytes.as_slice()).unwrap();
    assert_eq!(sequences(&mut reader), [1, 3]);
    assert_eq!((reader.damaged_frames(), reader.is_cut()), (1, false));
}

#[test]
fn a_length_that_was_damaged_does_not_swallow_what_follows() {
    for damaged_length in [0_u32, 5, 4_000, 1 << 20, u32::MAX] {
        let (mut bytes, starts) = written(&numbered(4));
        bytes[starts[2] + 4..starts[2] + 8].copy_from_slice(&damaged_length.to_le_bytes());
        let mut reader = LogReader::new(bytes.as_slice()).unwrap();
        assert_eq!(sequences(&mut reader), [1, 3, 4], "length {damaged_length}");
        assert_eq!(reader.damaged_frames(), 1);
    }
}

#[test]
fn a_log_that_goes_on_after_a_cut_is_read_on() {
    let (first, starts) = written(&numbered(2));
    let mut bytes = first[..starts[2] + 9].to_vec();
    bytes.extend(log::frame(&ServerMessage::Snapshot(Box::new(empty_snapshot(8)))).unwrap());
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
