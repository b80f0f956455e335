//! Decoding restores any messages; damaged streams are refused.

use proptest::prelude::*;

use super::super::ahead::Decoded;
use super::*;
use metrics_common::codec::{self, ServerMessage};
use metrics_common::component::COMPONENTS;
use metrics_common::fixture;
use metrics_common::packed::{Packed, pack, unpack};
use metrics_common::snapshot::Snapshot;

fn decode(streams: &[Vec<u8>], work: u64, form: &Form) -> Result<Vec<Vec<u8>>, Damaged> {
    let open = |index| Ok(Cow::from(streams.get(index).ok_or(Damaged)?));
    let decoded = super::decode(streams.len(), open, work, form)?;
    Ok(decoded.into_iter().map(|decoded| decoded.bytes).collect())
}

/// The form of these sections alone.
fn only(sections: &[&'static str]) -> Form {
    Form::Quick(Wanted {
        sections: Some(sections.to_vec()),
        sums: None,
    })
}

/// The form of sums over steps of so many intervals, of these rows.
fn summed(intervals: u64, rows: Option<Vec<bool>>) -> Form {
    Form::Quick(Wanted {
        sections: Some(vec!["cost"]),
        sums: Some(Sums {
            step_ns: intervals * 500_000_000,
            after_unix_ns: 0,
            until_unix_ns: u64::MAX,
            rows,
        }),
    })
}

/// A table of a few rows, most of them similar.
fn table() -> impl Strategy<Value = Packed> {
    let value = prop_oneof![3 => Just(0_u64), 3 => 0_u64..100, 1 => any::<u64>()];
    let row = prop::option::of(prop::collection::vec(value, 5));
    prop::collection::vec(row, 0..4).prop_map(|rows| pack(rows.iter().map(Option::as_deref)))
}

/// An interval, perhaps with its CPU time by mode.
fn interval() -> impl Strategy<Value = Snapshot> {
    (1_u64..1000, any::<bool>()).prop_map(|(sequence, has_modes)| {
        let mut interval = fixture::measured(sequence);
        interval.sections.modes.take_if(|_| !has_modes);
        interval
    })
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        2 => interval().prop_map(|snapshot| codec::encode_snapshot(&snapshot).unwrap()),
        4 => ("[a-z]{0,5}", table(), any::<u64>(), prop::collection::vec(table(), 0..3))
            .prop_map(|message| codec::encode(&message).unwrap()),
        1 => prop::collection::vec(any::<u8>(), 0..60),
    ]
}

proptest! {
    #[test]
    fn messages_come_back_byte_for_byte(messages in prop::collection::vec(message(), 0..12)) {
        let columns = encode(&messages);
        prop_assert_eq!(decode(&columns.streams, columns.work, &Form::Same), Ok(messages.clone()));
        if !messages.is_empty() {
            prop_assert_eq!(decode(&columns.streams, columns.work - 1, &Form::Same), Err(Damaged));
        }
    }

    #[test]
    fn quickly_read_tables_have_the_same_values(tables in prop::collection::vec(table(), 0..12)) {
        let messages: Vec<Vec<u8>> = tables.iter().map(|table| codec::encode(table).unwrap()).collect();
        let columns = encode(&messages);
        let quick = decode(&columns.streams, columns.work, &Form::Quick(Wanted::default())).unwrap();
        prop_assert_eq!(quick.len(), messages.len());
        for (quick, table) in quick.iter().zip(&tables) {
            let quick: Packed = codec::decode(quick).unwrap();
            prop_assert_eq!(unpack(&quick, 5), unpack(table, 5));
        }
    }

    #[test]
    fn wanted_sections_are_the_same_without_the_others(intervals in prop::collection::vec(interval(), 0..8)) {
        let messages: Vec<_> = intervals.iter().map(|snapshot| codec::encode_snapshot(snapshot).unwrap()).collect();
        let columns = encode(&messages);
        for wanted in [vec!["modes"], vec!["own", "cost"], vec![]] {
            let found = decode(&columns.streams, columns.work, &only(&wanted)).unwrap();
            prop_assert_eq!(found.len(), intervals.len());
            for (found, interval) in found.iter().zip(&intervals) {
                let mut left = interval.clone();
                left.sections.cost.take_if(|_| !wanted.contains(&"cost"));
                left.sections.modes.take_if(|_| !wanted.contains(&"modes"));
                left.sections.own.take_if(|_| !wanted.contains(&"own"));
                let message = ServerMessage::Snapshot(Box::new(left));
                prop_assert_eq!(codec::decode::<ServerMessage>(found).unwrap(), message);
            }
        }
    }

    #[test]
    fn the_intervals_of_a_step_as_one_have_the_sums_of_their_components(
        length in 0_u64..12,
        intervals in 1_u64..6,
        wanted in prop::option::of(prop::collection::vec(any::<bool>(), COMPONENTS.len())),
    ) {
        let each: Vec<Snapshot> = (1..=length).map(fixture::measured).collect();
        let messages: Vec<_> = each.iter().map(|snapshot| codec::encode_snapshot(snapshot).unwrap()).collect();
        let columns = encode(&messages);
        let open = |index: usize| Ok(Cow::from(&columns.streams[index]));
        let found = super::decode(columns.streams.len(), open, columns.work, &summed(intervals, wanted.clone())).unwrap();
        let mut left = each.into_iter();
        for decoded in &found {
            let mut sum = left.next().unwrap();
            left.by_ref().take(decoded.messages - 1).for_each(|snapshot| sum.add(&snapshot));
            let Some(ServerMessage::Snapshot(found)) = Decoded::of(decoded).message else {
                panic!("no snapshot");
            };
            let head = |snapshot: &Snapshot| (snapshot.sequence, snapshot.time_unix_ns, snapshot.interval_ns, snapshot.cpus.clone());
            prop_assert_eq!(head(&found), head(&sum));
            let (found, sum) = (found.cost(), sum.cost());
            let is_wanted = |row: &usize| wanted.as_ref().is_none_or(|wanted| wanted[*row]);
            for row in (0..COMPONENTS.len()).filter(is_wanted) {
                prop_assert_eq!(found.cpu_ns(row), sum.cpu_ns(row));
                prop_assert_eq!(found.samples_of(row), sum.samples_of(row));
                prop_assert_eq!(found.entries_of(row), sum.entries_of(row));
            }
        }
        prop_assert_eq!(left.next(), None);
        // As many as fit are one.
        prop_assert!(found.len() as u64 <= 2 + length / intervals);
    }

    #[test]
    fn damaged_streams_are_refused_or_read_within_the_work(
        messages in prop::collection::vec(message(), 1..6),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let EncodedColumns { mut streams, work } = encode(&messages);
        for (stream, at, byte) in flips {
            let stream = stream.get_mut(&mut streams);
            if !stream.is_empty() {
                *at.get_mut(stream) ^= byte;
            }
        }
        // It must not panic.
        let _ = decode(&streams, 4 * work, &only(&["cost"]));
        let _ = decode(&streams, 4 * work, &summed(3, None));
        let _ = decode(&streams, 4 * work, &summed(3, Some(vec![false, true])));
        if let Ok(messages) = decode(&streams, 4 * work, &Form::Same) {
            let bytes: usize = messages.iter().map(Vec::len).sum();
            prop_assert!(bytes as u64 <= 80 * work);
        }
    }
}
