//! Logs and messages of older formats are read as they were meant.

#![allow(clippy::unwrap_used)]

use metrics_common::codec::{self, ServerMessage};
use metrics_common::log::LogReader;
use metrics_common::{
    Cost, CpuModes, Modes, OwnCost, Power, Sections, Snapshot, SplitBasis, ZonePower,
};

/// Numbers without a pattern that would be easy to shorten.
fn dice() -> impl FnMut(u64) -> u64 {
    let mut state = 1_u64;
    move |most| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % most
    }
}

/// The snapshot that the recorded messages hold.
fn recorded() -> Snapshot {
    const CPUS: usize = 3;
    let mut random = dice();
    let mut row = |most: u64| (0..CPUS).map(|_| random(most)).collect::<Vec<u64>>();
    let of_row = |index: usize| if index < 15 { 500_000_000 } else { 20_000_000 };
    let mut components: Vec<_> = (0..60).map(|index| Some(row(of_row(index)))).collect();
    let entries = (0..60)
        .map(|index| (index < 14).then(|| row(20_000)))
        .collect();
    components[5] = None;
    let narrow = |row: Vec<u64>| row.into_iter().map(|n| n as u32).collect();
    let samples = (0..60).map(|i| (i < 2).then(|| narrow(row(500)))).collect();
    let mut tick = || row(50)[0] * 10_000_000;
    let modes = Modes {
        cpus: (0..CPUS)
            .map(|_| CpuModes::from_values([0; 8].map(|_: u64| tick())))
            .collect(),
        host: CpuModes::from_values([1, 2, 3, 4, 5, 6, 7, 8]),
    };
    let cost = Cost {
        components,
        samples,
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
        ksoftirqd_rx_ns: Some(vec![1, 0, 3_000_000_001]),
        stacks_taken: row(500),
        stacks_lost: vec![0, 7, 0],
        probe_missed: vec![4, 0],
        softirq_correction: None,
        fewest_due: None,
    };
    Snapshot {
        sequence: 123_456,
        time_unix_ns: 1_700_000_000_123_456_789,
        interval_ns: 500_000_000,
        cpus: (0..CPUS as u32).collect(),
        sections: Sections {
            cost: Some(cost),
            modes: Some(modes),
            power: Some(Power {
                host_watts: 20.5,
                network_watts: 1.25,
                network_energy_joules: 0.625,
                zones: vec![ZonePower {
                    zone: "package-0".into(),
                    energy_joules: 10.25,
                }],
            }),
            own: Some(OwnCost {
                user_ns: 1,
                system_ns: 2,
                resident_bytes: 3,
                analysis_ns: 4,
                ..OwnCost::default()
            }),
            ..Sections::default()
        },
    }
}

#[test]
fn logs_and_messages_of_format_1_are_read() {
    let expected = ServerMessage::Snapshot(Box::new(recorded()));
    let log = LogReader::new(&include_bytes!("data/format-1.1.log")[..]).unwrap();
    let messages: Vec<ServerMessage> = log.map(Result::unwrap).collect();
    assert!(matches!(&messages[0], ServerMessage::Hello(info) if info.kernel == "6.18.0"));
    assert_eq!(&messages[1..], std::slice::from_ref(&expected));
    let message = include_bytes!("data/format-1.1.message");
    assert_eq!(codec::decode::<ServerMessage>(message).unwrap(), expected);
}

#[test]
fn what_format_2_0_did_not_say_of_nettos_cost_is_unknown() {
    let message = include_bytes!("data/format-2.0.message");
    let read = codec::decode::<ServerMessage>(message).unwrap();
    let ServerMessage::Snapshot(snapshot) = &read else {
        panic!("{read:?}");
    };
    let own = snapshot.sections.own.as_ref().unwrap();
    assert_eq!((own.user_ns, own.taken_total_ns()), (1, None));
    assert_eq!(read, ServerMessage::Snapshot(Box::new(recorded())));
}
