//! A thousand logs with random damage each: undamaged blocks are read, losses are reported, and
//! nothing is invented.

#![allow(clippy::unwrap_used)]
#![allow(
    clippy::single_range_in_vec_init,
    reason = "one stretch of several that a damage may touch"
)]

use std::io::Cursor;
use std::ops::Range;

use metrics_common::codec::{self, ServerMessage};
use metrics_common::{Cost, Sections, Snapshot};
use netto_log_format::{self as log, Block, LogIndex, LogReader, Packer, WORK_PER_BYTE, Wanted};

const DAMAGES: u64 = 1000;
const SNAPSHOTS: u64 = 60;

/// A log with the offset and the snapshots of each of its blocks.
struct Log {
    bytes: Vec<u8>,
    pieces: Vec<(Range<usize>, Range<u64>)>,
}

impl Log {
    fn new() -> Log {
        Log {
            bytes: log::file_header(),
            pieces: Vec::new(),
        }
    }

    fn push(&mut self, piece: &[u8], sequences: Range<u64>) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(piece);
        self.pieces.push((from..self.bytes.len(), sequences));
    }

    /// Each message in an uncompressed block of its own, as in a dump.
    fn of_plain_blocks() -> Log {
        let mut log = Log::new();
        for sequence in 1..=SNAPSHOTS {
            let block = netto_log_format::fixture::block(&snapshot(sequence)).unwrap();
            log.push(&block, sequence..sequence + 1);
        }
        log.push(&netto_log_format::fixture::block(&bye()).unwrap(), 0..0);
        log
    }

    fn of_blocks() -> Log {
        let (mut log, mut packer) = (Log::new(), Packer::default());
        for first in (1..=SNAPSHOTS).step_by(5) {
            let mut block = Block::default();
            for sequence in first..first + 5 {
                let message = codec::encode(&snapshot(sequence)).unwrap();
                block.push_snapshot(message, sequence).unwrap();
            }
            log.push(&block.close(&mut packer), first..first + 5);
        }
        let mut block = Block::default();
        block.push(codec::encode(&bye()).unwrap()).unwrap();
        log.push(&block.close(&mut packer), 0..0);
        log
    }
}

/// A snapshot of eight CPUs, with numbers that change a little from one to the next.
fn snapshot(sequence: u64) -> ServerMessage {
    let row = |row: u64| {
        let ns = move |cpu: u64| (row % 5) * (1_000_000 + sequence * 7_919 % 90_000 + cpu * 10_000);
        Some((0..8).map(ns).collect())
    };
    let cost = Cost {
        components: (0..40).map(row).collect(),
        stacks_taken: vec![500; 8],
        stacks_lost: vec![0; 8],
        ..Cost::default()
    };
    ServerMessage::Snapshot(Box::new(Snapshot {
        sequence,
        time_unix_ns: sequence,
        interval_ns: 500_000_000,
        cpus: (0..8).collect(),
        sections: Sections {
            cost: Some(cost),
            ..Sections::default()
        },
    }))
}

fn bye() -> ServerMessage {
    ServerMessage::Bye("the end".to_owned())
}

fn random_numbers(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |most| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % most.max(1)
    }
}

/// Damages a log behind its header; returns the bytes, and the damaged ranges of the original.
fn damaged(log: &Log, seed: u64) -> (Vec<u8>, Vec<Range<usize>>) {
    let mut roll = random_numbers(seed);
    let mut bytes = log.bytes.clone();
    let begin = log::HEADER_BYTES;
    let at = begin + roll(bytes.len() - begin);
    let end = at + 1 + roll((bytes.len() - at).min(3_000));
    let end = end.min(bytes.len());
    match roll(6) {
        0 => {
            let count = 1 + roll(8);
            let mut touched = Vec::new();
            for _ in 0..count {
                let at = begin + roll(bytes.len() - begin);
                bytes[at] ^= 1 << roll(8);
                touched.push(at..at + 1);
            }
            (bytes, touched)
        }
        1 => {
            bytes.truncate(at);
            (bytes, vec![at..log.bytes.len()])
        }
        2 => {
            bytes.drain(at..end);
            (bytes, vec![at..end])
        }
        3 => {
            bytes[at..end].fill(0);
            (bytes, vec![at..end])
        }
        4 => {
            let copy = bytes[at..end].to_vec();
            let to = begin + roll(bytes.len() - begin);
            bytes.splice(to..to, copy);
            // Only the block that contains the position.
            (bytes, vec![to.saturating_sub(1)..to + 1])
        }
        _ => {
            // Duplicates a range.
            let copy = bytes[begin..end].to_vec();
            bytes.splice(end..end, copy);
            (bytes, vec![end.saturating_sub(1)..end + 1])
        }
    }
}

/// Sequence numbers in the order of reading, and whether the reader reported a loss.
fn read(bytes: &[u8]) -> (Vec<u64>, bool) {
    let Ok(mut reader) = LogReader::new(bytes) else {
        // Nothing but a header, or a damaged first block: still a log.
        panic!("a log with a header is a log");
    };
    let mut sequences = Vec::new();
    let mut is_ended = false;
    for message in reader.by_ref() {
        let message = message.unwrap();
        is_ended = matches!(message, ServerMessage::Bye(_));
        if let ServerMessage::Snapshot(snapshot) = message {
            sequences.push(snapshot.sequence);
        }
    }
    let counts = reader.counts();
    assert!(reader.work_bytes() <= WORK_PER_BYTE * bytes.len() as u64 + 256);
    let accounted = counts.stored_bytes + counts.lost_bytes + log::HEADER_BYTES as u64;
    assert!(
        accounted <= bytes.len() as u64,
        "{accounted} of {}",
        bytes.len()
    );
    let jumps = sequences.windows(2).any(|pair| pair[1] != pair[0] + 1);
    let has_told = reader.damaged_stretches() > 0 || reader.is_cut() || counts.lost_bytes > 0;
    (sequences, has_told || jumps || !is_ended)
}

fn try_damages(log: &Log) {
    let (sequences, has_told) = read(&log.bytes);
    assert_eq!(sequences, (1..=SNAPSHOTS).collect::<Vec<_>>());
    assert!(!has_told);
    for seed in 0..DAMAGES {
        let (bytes, touched) = damaged(log, seed);
        let (found, has_told) = read(&bytes);
        let is_touched = |piece: &Range<usize>| {
            let overlaps =
                |range: &Range<usize>| range.start < piece.end && piece.start < range.end;
            touched.iter().any(overlaps)
        };
        for (piece, sequences) in &log.pieces {
            if !is_touched(piece) {
                let is_read = sequences.clone().all(|sequence| found.contains(&sequence));
                assert!(
                    is_read,
                    "damage {seed}: {sequences:?} was not touched and is lost"
                );
            }
        }
        let is_known = |sequence: &u64| (1..=SNAPSHOTS).contains(sequence);
        assert!(found.iter().all(is_known), "damage {seed}");
        let is_complete = (1..=SNAPSHOTS).all(|sequence| found.contains(&sequence));
        assert!(
            is_complete || has_told,
            "damage {seed}: a loss that is not told"
        );
        // Reading by index gives the same as reading in order.
        let index = LogIndex::of(&mut Cursor::new(&bytes)).unwrap();
        let mut source = Cursor::new(&bytes);
        let between = index.messages_between(&mut source, 0, u64::MAX);
        let by_place: Vec<u64> = between
            .filter_map(|message| match message.unwrap() {
                ServerMessage::Snapshot(snapshot) => Some(snapshot.sequence),
                _ => None,
            })
            .collect();
        assert_eq!(by_place, found, "damage {seed}");
    }
}

#[test]
fn a_thousand_damages_to_blocks_cost_no_more_than_they_touch() {
    try_damages(&Log::of_blocks());
}

#[test]
fn a_thousand_damages_to_plain_blocks_cost_no_more_than_they_touch() {
    try_damages(&Log::of_plain_blocks());
}

#[test]
fn what_is_decoded_ahead_is_the_same_in_the_same_order() {
    let all = |bytes: &[u8], is_ahead: bool| {
        let mut reader = LogReader::new(bytes).unwrap();
        if is_ahead {
            reader.read_ahead(&Wanted::default());
        }
        let messages: Vec<ServerMessage> = reader.by_ref().map(Result::unwrap).collect();
        let damage = (reader.damaged_stretches(), reader.is_cut());
        (messages, damage, reader.counts())
    };
    for log in [Log::of_blocks(), Log::of_plain_blocks()] {
        for seed in 0..50 {
            let (bytes, _) = damaged(&log, seed);
            let (messages, damage, counts) = all(&bytes, false);
            let (ahead, damage_ahead, counts_ahead) = all(&bytes, true);
            assert_eq!((ahead, damage_ahead), (messages, damage), "damage {seed}");
            assert_eq!(counts_ahead.blocks, counts.blocks, "damage {seed}");
            assert_eq!(counts_ahead.lost_bytes, counts.lost_bytes, "damage {seed}");
        }
        // Who stops reading in the middle waits for nothing.
        let mut reader = LogReader::new(log.bytes.as_slice()).unwrap();
        reader.read_ahead(&Wanted::default());
        assert!(reader.next().is_some());
    }
}

#[test]
fn a_time_is_read_without_what_is_outside_of_it() {
    let log = Log::of_blocks();
    let index = LogIndex::of(&mut Cursor::new(&log.bytes)).unwrap();
    assert_eq!(index.span_unix_ns(), Some((1, SNAPSHOTS)));
    for (from, to) in [(1, 1), (7, 9), (5, 6), (0, 100), (58, 90), (61, 70)] {
        let mut source = Cursor::new(&log.bytes);
        let mut between = index.messages_between(&mut source, from, to);
        let found: Vec<u64> = between
            .by_ref()
            .filter_map(|message| match message.unwrap() {
                ServerMessage::Snapshot(snapshot) => Some(snapshot.sequence),
                _ => None,
            })
            .collect();
        assert_eq!(found, (from.max(1)..=to.min(SNAPSHOTS)).collect::<Vec<_>>());
        let wanted = (from.max(1)..=to.min(SNAPSHOTS)).map(|sequence| (sequence - 1) / 5);
        let blocks = wanted.collect::<std::collections::BTreeSet<_>>().len() as u64;
        // One more for messages without a time.
        assert!(
            between.reader().counts().blocks <= blocks + 1,
            "{from} to {to}"
        );
    }
}

/// A head with any promise is refused before anything is unpacked.
#[test]
fn a_block_that_would_grow_beyond_its_bytes_is_refused_by_its_head() {
    let mut block = Block::default();
    let message = codec::encode(&snapshot(1)).unwrap();
    block.push_snapshot(message, 1).unwrap();
    let whole = block.close(&mut Packer::default());
    for work in [log::MOST_BLOCK_WORK as u32 + 1, u32::MAX] {
        let mut bomb = whole.clone();
        bomb[8..12].copy_from_slice(&work.to_le_bytes());
        let sum = crc32fast::hash(&bomb[..32]);
        bomb[32..36].copy_from_slice(&sum.to_le_bytes());
        let bytes = [log::file_header(), bomb].concat();
        let mut reader = LogReader::new(bytes.as_slice()).unwrap();
        assert!(reader.next().is_none());
        assert_eq!(reader.damaged_stretches(), 1);
    }
    // A block larger than it promises is not unpacked to the end.
    let mut bomb = whole;
    bomb[8..12].copy_from_slice(&10_u32.to_le_bytes());
    let sum = crc32fast::hash(&bomb[..32]);
    bomb[32..36].copy_from_slice(&sum.to_le_bytes());
    let bytes = [log::file_header(), bomb].concat();
    let mut reader = LogReader::new(bytes.as_slice()).unwrap();
    assert!(reader.next().is_none());
    assert_eq!(reader.damaged_stretches(), 1);
}
