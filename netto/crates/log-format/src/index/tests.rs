//! How many parts of a file an index keeps separate.

use std::io::Cursor;

use super::*;
use crate::{Block, Packer, file_header};
use metrics_common::Snapshot;
use metrics_common::codec::ServerMessage;

#[test]
fn of_more_blocks_than_any_log_has_neighbours_are_taken_together_and_nothing_is_lost() {
    let count = MOST_PARTS as u64 + 1_000;
    let (mut block, mut packer) = (Block::default(), Packer::default());
    let mut bytes = file_header();
    for sequence in 1..=count {
        let snapshot = Snapshot {
            sequence,
            time_unix_ns: sequence * 1_000,
            ..Snapshot::default()
        };
        let message = metrics_common::codec::encode_snapshot(&snapshot).unwrap();
        block.push_snapshot(message, sequence * 1_000).unwrap();
        bytes.extend(block.close(&mut packer));
    }
    let length = bytes.len() as u64;
    let mut file = Cursor::new(bytes);
    let index = LogIndex::of(&mut file).unwrap();
    assert!(index.parts().len() <= MOST_PARTS);
    assert!(index.is_known());
    assert_eq!(index.span_unix_ns(), Some((1_000, count * 1_000)));
    let mut end = HEADER_BYTES as u64;
    for part in index.parts() {
        assert_eq!(part.offset, end);
        end = part.end();
    }
    assert_eq!(end, length);
    let sequences = index.messages_between(&mut file, 5_000, 9_000);
    let sequences: Vec<u64> = sequences
        .filter_map(|message| match message.unwrap() {
            ServerMessage::Snapshot(snapshot) => Some(snapshot.sequence),
            _ => None,
        })
        .collect();
    assert_eq!(sequences, [5, 6, 7, 8, 9]);
}

#[test]
fn digests_stay_apart_when_neighbours_are_taken_together() {
    let part = |number: u64| Part {
        offset: 40 * number,
        bytes: 40,
        messages: Some(u16::from(number % 4 != 3)),
        times_unix_ns: Some((1, 2)),
        has_hello: number == 8,
        blocks: 1,
    };
    let mut parts: Vec<Part> = (0..10).map(part).collect();
    halve(&mut parts, |part| !part.is_digest() && !part.has_hello);
    let found: Vec<(u32, bool)> = parts.iter().map(|p| (p.blocks, p.is_digest())).collect();
    let (pair, one, digest) = ((2, false), (1, false), (1, true));
    assert_eq!(
        found,
        [pair, one, digest, pair, one, digest, one, one],
        "{parts:?}"
    );
}
