//! Decodes whole, cut and damaged messages, in comparison with another decoder.

use serde::de::DeserializeOwned;

use super::decoder::{MAX_DEPTH, decode};
use super::*;
use crate::fixture;
use crate::history::History;
use crate::sections::{
    Amount, Conversation, Drops, FlowEnd, Flows, Latency, Owner, OwnerBasis, OwnerKind, Owners,
    Power, SampledTime, Sections, Traffic,
};

/// With every section.
fn snapshot() -> Snapshot {
    let mut owners = Owners::default();
    owners.place_of(&Owner::single(OwnerKind::Cgroup));
    owners.basis.push(OwnerBasis::default());
    let mut snapshot = fixture::measured(1);
    snapshot.sections = Sections {
        owners: Some(owners),
        power: Some(Power {
            host_watts: 20.0,
            network_watts: 3.25,
            network_energy_joules: 1.625,
            network_capacity_watts: 0.65,
            network_capacity_energy_joules: 0.325,
            zones: Vec::new(),
        }),
        traffic: Some(Traffic::default()),
        drops: Some(Drops {
            cpus: vec![0, 300],
            ..Drops::default()
        }),
        latency: Some(Latency::default()),
        flows: Some(flows()),
        ..snapshot.sections
    };
    snapshot
}

fn flows() -> Flows {
    let end = |address: &str| FlowEnd {
        address: address.parse().unwrap(),
        port: Some(443),
    };
    let conversation = |ends: [&str; 2]| Conversation {
        packets_variance: None,
        interface: "eth0".to_owned(),
        vlans: vec![7],
        protocol: 6,
        ends: ends.map(end),
        sent: Amount::default(),
        received: Amount::default(),
        sampled_packets: 3,
        cpu_ns: None,
        sampled: SampledTime {
            sent_ns: Some(3),
            ..SampledTime::default()
        },
    };
    Flows {
        conversations: vec![
            conversation(["192.0.2.1", "192.0.2.2"]),
            conversation(["2001:db8::1", "2001:db8::2"]),
        ],
        ..Flows::default()
    }
}

fn messages() -> Vec<ServerMessage> {
    let mut history = History::new(&fixture::info());
    for number in 1..4 {
        history.push(&fixture::measured(number));
    }
    history.push(&Snapshot {
        sequence: 4,
        ..snapshot()
    });
    vec![
        ServerMessage::Hello(Box::new(fixture::info())),
        ServerMessage::History(Box::new(history.to_message())),
        ServerMessage::Snapshot(Box::new(snapshot())),
        ServerMessage::Bye("shutting down".to_owned()),
        ServerMessage::Gap(Gap {
            snapshots: 3,
            first_sequence: 200,
            last_sequence: 70_000,
            first_time_unix_ns: 1 << 40,
            last_time_unix_ns: u64::MAX,
            reason: "ä".repeat(40),
        }),
    ]
}

/// Reads it with the decoder of `rmp-serde`, which has written it.
fn by_another<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, rmp_serde::decode::Error> {
    rmp_serde::from_slice(bytes)
}

#[test]
fn every_message_is_read_as_it_was_written() {
    for message in messages() {
        let bytes = encode(&message).unwrap();
        let read: ServerMessage = decode(&bytes).unwrap();
        assert_eq!(read, by_another(&bytes).unwrap());
        assert_eq!(encode(&read).unwrap(), bytes);
    }
}

#[test]
fn damaged_messages_are_refused_or_read_as_another_decoder_reads_them() {
    let mut agreed = 0;
    for message in messages() {
        let bytes = encode(&message).unwrap();
        // The rest is similar, and would take long.
        let tried = bytes.len().min(500);
        for length in 0..tried {
            let cut: Result<ServerMessage, _> = decode(&bytes[..length]);
            assert!(cut.is_err(), "cut at {length}");
        }
        for at in 0..tried {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                let ours: Result<ServerMessage, _> = decode(&damaged);
                let theirs: Result<ServerMessage, _> = by_another(&damaged);
                if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
                    // Not by `==`: a number may have become NaN.
                    assert_eq!(format!("{ours:?}"), format!("{theirs:?}"), "{at} {flip:x}");
                    agreed += 1;
                }
            }
        }
    }
    assert!(agreed > 1_000, "only {agreed} damages changed a value only");
}

#[test]
fn numbers_of_every_width_keep_their_value() {
    for value in [0, 127, 128, 255, 256, 65_535, 65_536, u64::MAX] {
        assert_eq!(decode(&encode(&value).unwrap()), Ok(value));
        assert_eq!(
            decode(&encode(&value).unwrap()),
            Ok(value as f64),
            "an integer where a fraction is expected"
        );
    }
    for value in [-1, -32, -33, -128, -129, -32_769, i64::MIN] {
        assert_eq!(decode(&encode(&value).unwrap()), Ok(value));
    }
    assert_eq!(decode(&encode(&1.5_f32).unwrap()), Ok(1.5));
    assert_eq!(decode(&encode(&true).unwrap()), Ok(true));
    let too_large = encode(&256).unwrap();
    assert_eq!(decode::<u8>(&too_large), Err(DecodeError::WrongKind));
}

#[test]
fn a_field_that_is_not_known_is_passed_over_with_all_that_is_in_it() {
    #[derive(Serialize)]
    struct Newer {
        unknown: Vec<Vec<(u8, Option<String>)>>,
        known: u8,
    }
    #[derive(Deserialize, Debug, PartialEq)]
    struct Older {
        known: u8,
    }
    let newer = Newer {
        unknown: vec![vec![(1, None), (2, Some("text".to_owned()))]; 20],
        known: 7,
    };
    let bytes = encode(&newer).unwrap();
    assert_eq!(decode(&bytes), Ok(Older { known: 7 }));
}

#[test]
fn hostile_messages_are_refused() {
    #[derive(Deserialize, Debug, PartialEq)]
    struct Nested(Vec<Nested>);
    let deepest = MAX_DEPTH as usize;
    let nested = |levels: usize| [vec![0x91; levels - 1], vec![0x90]].concat();
    assert!(decode::<Nested>(&nested(deepest)).is_ok());
    let too_deep = decode::<Nested>(&nested(deepest + 1));
    assert_eq!(too_deep, Err(DecodeError::TooDeep));
    let endless = [0xdd, 0xff, 0xff, 0xff, 0xff];
    assert_eq!(decode::<Vec<u64>>(&endless), Err(DecodeError::Cut));
    assert_eq!(decode::<String>(&[0xd9]), Err(DecodeError::Cut));
    let extension = [0xd4, 0x01, 0x02];
    assert_eq!(decode::<u8>(&extension), Err(DecodeError::WrongKind));
    let not_utf8 = decode::<String>(&[0xa1, 0xff]);
    assert!(matches!(not_utf8, Err(DecodeError::Invalid(_))));
}

#[test]
fn a_field_that_is_missing_or_there_twice_is_named() {
    #[derive(Deserialize, Debug, PartialEq)]
    struct Needs {
        packets: u8,
    }
    let error = |bytes: &[u8]| {
        let error = super::decode::<Needs>(bytes).unwrap_err();
        error.to_string()
    };
    let packets = encode(&"packets").unwrap();
    assert_eq!(
        error(&[0x80]),
        "cannot decode a message of 1 bytes: missing field `packets`"
    );
    let twice = [&[0x82][..], &packets, &[1], &packets, &[1]].concat();
    assert_eq!(
        error(&twice),
        "cannot decode a message of 19 bytes: duplicate field `packets`"
    );
}
