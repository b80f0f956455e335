//! Decoding restores any messages; damaged streams are refused.

use proptest::prelude::*;

use super::*;
use crate::codec::{self, ServerMessage};
use crate::fixture;
use crate::packed::{Packed, pack, unpack};
use crate::snapshot::Snapshot;

fn decode(streams: &[Vec<u8>], work: u64, form: &Form) -> Result<Vec<Vec<u8>>, Damaged> {
    let open = |index| Ok(Cow::from(streams.get(index).ok_or(Damaged)?));
    super::decode(streams.len(), open, work, form)
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
        2 => interval().prop_map(|own| codec::encode_snapshot(&own).unwrap()),
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
        let messages: Vec<Vec<u8>> = tables.iter().map(|own| codec::encode(own).unwrap()).collect();
        let columns = encode(&messages);
        let quick = decode(&columns.streams, columns.work, &Form::Quick(None)).unwrap();
        prop_assert_eq!(quick.len(), messages.len());
        for (quick, table) in quick.iter().zip(&tables) {
            let quick: Packed = codec::decode(quick).unwrap();
            prop_assert_eq!(unpack(&quick, 5), unpack(table, 5));
        }
    }

    #[test]
    fn wanted_sections_are_the_same_without_the_others(intervals in prop::collection::vec(interval(), 0..8)) {
        let messages: Vec<_> = intervals.iter().map(|own| codec::encode_snapshot(own).unwrap()).collect();
        let columns = encode(&messages);
        for wanted in [vec!["modes"], vec!["own", "cost"], vec![]] {
            let form = Form::Quick(Some(wanted.clone()));
            let found = decode(&columns.streams, columns.work, &form).unwrap();
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
        let _ = decode(&streams, 4 * work, &Form::Quick(Some(vec!["cost"])));
        if let Ok(messages) = decode(&streams, 4 * work, &Form::Same) {
            let bytes: usize = messages.iter().map(Vec::len).sum();
            prop_assert!(bytes as u64 <= 80 * work);
        }
    }
}
