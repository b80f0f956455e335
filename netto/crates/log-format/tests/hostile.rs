//! Logs made to do harm, or similar ones: the reader's work depends only on the file's length, and
//! it finds the same as a naive reader.

#![allow(clippy::unwrap_used)]

use metrics_common::codec::{self, Gap, ServerMessage};
use metrics_common::packed::Packed;
use netto_log_format::{
    self as log, Beginning, Block, HEADER_BYTES, LogError, LogReader, MAX_PAYLOAD_BYTES,
    WORK_PER_BYTE, heads,
};
use proptest::prelude::*;

/// A first block behind zeros is read twice.
const TWICE_BYTES: u64 = 256;

fn bye(text: &str) -> Vec<u8> {
    netto_log_format::fixture::block(&ServerMessage::Bye(text.to_owned())).unwrap()
}

/// Length of a block's head, bytes.
const HEAD_BYTES: usize = 40;

/// A head that claims a payload of this length, with a valid checksum.
fn claim(length: u32) -> Vec<u8> {
    let mut head = bye("x")[..HEAD_BYTES].to_vec();
    head[4..8].copy_from_slice(&length.to_le_bytes());
    let sum = crc32fast::hash(&head[..32]);
    head[32..36].copy_from_slice(&sum.to_le_bytes());
    head
}

/// A block with any message and valid checksums.
fn block_of(message: &[u8]) -> Vec<u8> {
    let mut block = Block::default();
    block.push(message.to_vec()).unwrap();
    block.close_plain()
}

fn log_of(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = log::file_header();
    bytes.extend(parts.concat());
    bytes
}

/// The result of reading.
struct ReadLog {
    texts: Vec<String>,
    beginning: Beginning,
    damaged_stretches: u64,
    unknown_messages: u64,
    is_cut: bool,
}

/// Reads a log, and checks that the work is within the bound for its length.
fn read(bytes: &[u8]) -> ReadLog {
    let mut reader = LogReader::new(bytes).unwrap();
    let texts = reader
        .by_ref()
        .filter_map(|message| match message.unwrap() {
            ServerMessage::Bye(text) => Some(text),
            _ => None,
        })
        .collect();
    let most = WORK_PER_BYTE * bytes.len() as u64 + TWICE_BYTES;
    let work = reader.work_bytes();
    assert!(work <= most, "{work} bytes for {}", bytes.len());
    ReadLog {
        texts,
        beginning: reader.beginning(),
        damaged_stretches: reader.damaged_stretches(),
        unknown_messages: reader.unknown_messages(),
        is_cut: reader.is_cut(),
    }
}

/// Reads a log by trying every offset.
fn read_naively(bytes: &[u8]) -> Vec<String> {
    let mut texts = Vec::new();
    let mut at = HEADER_BYTES;
    while at < bytes.len() {
        let block = heads(&bytes[at..]).next();
        let block = block.map(|(_, head)| &bytes[at..at + head.block_bytes() as usize]);
        let is_whole = |block: &&[u8]| {
            let sum = u32::from_le_bytes(block[36..HEAD_BYTES].try_into().unwrap());
            crc32fast::hash(&block[HEAD_BYTES..]) == sum
        };
        match block.filter(is_whole) {
            Some(block) => {
                let alone = [&log::file_header()[..], block].concat();
                let read = LogReader::new(alone.as_slice()).unwrap();
                texts.extend(read.filter_map(|message| match message.unwrap() {
                    ServerMessage::Bye(text) => Some(text),
                    _ => None,
                }));
                at += block.len();
            }
            None => at += 1,
        }
    }
    texts
}

/// Pieces of hostile and damaged files.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let small = prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        4 => "[a-z]{0,90}".prop_map(|text| bye(&text)),
        3 => (0_u32..3_000).prop_map(claim),
        2 => any::<u32>().prop_map(claim),
        2 => (0_u32..2_000, small.clone()).prop_map(|(length, rest)| [claim(length), rest].concat()),
        1 => small,
        1 => (0_usize..200).prop_map(|count| vec![0; count]),
        1 => (0_usize..120, "[a-z]{80}").prop_map(|(cut, text)| bye(&text)[..cut].to_vec()),
        1 => "[a-z]{0,90}".prop_map(|text| block_of(&bye(&text))),
        1 => Just(b"NTB".to_vec()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn whatever_a_file_holds_the_work_is_bounded_and_nothing_readable_is_missed(
        pieces in prop::collection::vec(piece(), 0..60)
    ) {
        let bytes = log_of(&pieces);
        prop_assert_eq!(read(&bytes).texts, read_naively(&bytes));
    }

    #[test]
    fn zeros_before_the_first_block_are_passed_over(
        zeros in 0_usize..40_000, pieces in prop::collection::vec(piece(), 0..10), header: bool
    ) {
        let mut bytes = vec![0; zeros];
        if header {
            bytes.extend(log::file_header());
        }
        bytes.extend(bye("first"));
        bytes.extend(pieces.concat());
        let found = read(&bytes);
        prop_assert_eq!(found.texts.first().map(String::as_str), Some("first"));
        let expected = match (zeros, header) {
            (0, true) => Beginning::Header,
            _ => Beginning::Damaged { zero_bytes: zeros as u64 },
        };
        prop_assert_eq!(found.beginning, expected);
    }
}

/// The file of the attack: thousands of offsets that claim to begin a long block.
#[test]
fn thousands_of_false_claims_cost_no_more_than_their_bytes() {
    const FILE_BYTES: u32 = 1_600_000;
    type LengthAt = fn(u32) -> u32;
    let ends: [(&str, LengthAt); 4] = [
        ("the end of the file", |at| {
            FILE_BYTES.saturating_sub(at + 120)
        }),
        ("beyond the file", |at| FILE_BYTES - at + 1),
        ("the most that is allowed", |_| MAX_PAYLOAD_BYTES as u32),
        ("the middle", |at| FILE_BYTES.saturating_sub(at) / 2),
    ];
    for (name, length_at) in ends {
        // The least distance is a head; the others vary the alignment.
        for distance in [40_u32, 43, 71] {
            let mut bytes = log::file_header();
            while (bytes.len() as u32) < FILE_BYTES - 80 {
                let at = bytes.len() as u32;
                bytes.extend(claim(length_at(at).min(MAX_PAYLOAD_BYTES as u32)));
                bytes.resize((at + distance) as usize, b'x');
            }
            bytes.extend(bye("the end"));
            let found = read(&bytes);
            assert_eq!(found.texts, ["the end"], "{name}, every {distance} bytes");
            assert_eq!(found.damaged_stretches, 1);
        }
    }
}

/// False claims between whole blocks, so that the reader meets each while in step.
#[test]
fn false_claims_between_whole_blocks_cost_no_more_than_their_bytes() {
    let mut bytes = log::file_header();
    let mut whole = 0;
    while bytes.len() < 1_600_000 {
        bytes.extend(bye("x"));
        whole += 1;
        bytes.extend(claim(1_000_000));
        bytes.extend(*b"1234");
    }
    let found = read(&bytes);
    assert_eq!(found.texts.len(), whole);
}

#[test]
fn logs_put_one_behind_the_other_are_a_log() {
    let one = log_of(&[bye("one")]);
    let two = log_of(&[bye("two")]);
    let found = read(&[one, two].concat());
    assert_eq!(found.texts, ["one", "two"]);
    assert_eq!((found.damaged_stretches, found.is_cut), (0, false));
}

#[test]
fn zeros_alone_are_no_log() {
    for zeros in [1, 11, 12, 100_000] {
        let bytes = vec![0_u8; zeros];
        let error = LogReader::new(bytes.as_slice()).unwrap_err();
        assert!(matches!(error, LogError::NotALog), "{zeros}: {error}");
    }
}

#[test]
fn a_newer_log_behind_an_older_one_ends_the_reading_once() {
    let mut newer = log_of(&[bye("two")]);
    newer[8] = 99;
    let bytes = [log_of(&[bye("one")]), newer].concat();
    let mut reader = LogReader::new(bytes.as_slice()).unwrap();
    assert!(matches!(reader.next(), Some(Ok(ServerMessage::Bye(_)))));
    assert!(matches!(
        reader.next(),
        Some(Err(LogError::TooNew { major: 99, .. }))
    ));
    assert!(reader.next().is_none());
}

#[test]
fn a_gap_is_read_back() {
    let gap = ServerMessage::Gap(Gap {
        snapshots: 3,
        first_sequence: 7,
        last_sequence: 9,
        first_time_unix_ns: 1,
        last_time_unix_ns: 2,
        reason: "No space left on device".to_owned(),
    });
    let bytes = log_of(&[netto_log_format::fixture::block(&gap).unwrap()]);
    let mut reader = LogReader::new(bytes.as_slice()).unwrap();
    assert_eq!(reader.next().unwrap().unwrap(), gap);
}

#[test]
fn messages_of_a_newer_netto_are_passed_over_and_no_damage() {
    let unknown = block_of(b"\x81\xa7weather\xa5sunny");
    let found = read(&log_of(&[bye("a"), unknown, bye("b")]));
    assert_eq!(found.texts, ["a", "b"]);
    assert_eq!((found.damaged_stretches, found.unknown_messages), (0, 1));
}

/// `{"snapshot": {"x": …}}`: an unknown field, which readers must skip.
fn with_unknown_field(value: &[u8]) -> Vec<u8> {
    let mut payload = b"\x81\xa8snapshot\x81\xa1x".to_vec();
    payload.extend(value);
    payload
}

#[test]
fn nesting_without_end_is_refused_before_the_stack_is_used_up() {
    // A thread with a fraction of the usual stack.
    let small = std::thread::Builder::new().stack_size(256 << 10);
    let thread = small.spawn(|| {
        for opening in [
            &b"\x91"[..],
            b"\x81\xa1k",
            b"\xdd\0\0\0\x01",
            b"\xc7\x01\x01",
        ] {
            let payload = with_unknown_field(&opening.repeat(200_000));
            let error = codec::decode::<ServerMessage>(&payload).unwrap_err();
            assert!(error.to_string().contains("cannot decode"), "{error}");
            let found = read(&log_of(&[block_of(&payload), bye("after")]));
            assert_eq!(found.texts, ["after"]);
            assert_eq!(found.unknown_messages, 1);
        }
    });
    thread.unwrap().join().unwrap();
}

/// Each announces four billion elements or bytes and has none.
#[test]
fn announced_lengths_take_no_memory() {
    let array = b"\xdd\xff\xff\xff\xff";
    let map = b"\xdf\xff\xff\xff\xff";
    let text = b"\xdb\xff\xff\xff\xff";
    let binary = b"\xc6\xff\xff\xff\xff";
    for length in [array, map, text, binary] {
        for field in ["cpus", "sections", "x"] {
            let mut payload = b"\x81\xa8snapshot\x81".to_vec();
            payload.push(0xa0 | field.len() as u8);
            payload.extend(field.as_bytes());
            payload.extend(length);
            let before = peak_memory_kilobytes();
            codec::decode::<ServerMessage>(&payload).unwrap_err();
            let more = peak_memory_kilobytes() - before;
            // Other tests of this process run at the same time; the limit is still far below the
            // announced length.
            assert!(more < 512 << 10, "{field}: {more} kB for {length:02x?}");
        }
    }
}

/// Peak memory of this process.
fn peak_memory_kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmPeak:"));
    let number = line.unwrap().split_whitespace().nth(1).unwrap();
    number.parse().unwrap()
}

#[derive(serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum Message<'a> {
    Snapshot(WithDrops<'a>),
}

#[derive(serde::Serialize)]
struct WithDrops<'a> {
    sequence: u64,
    time_unix_ns: u64,
    interval_ns: u64,
    cpus: &'a [u32],
    sections: Sections,
}

#[derive(serde::Serialize)]
struct Sections {
    drops: Drops,
}

#[derive(serde::Serialize)]
struct Drops {
    places: [u64; 0],
    other_packets: u64,
    cpus: Packed,
}

/// A packed row of a few bytes may stand for a million zeros; it must have a column for each CPU
/// that the snapshot names, of which there are at most as many as a kernel can have.
#[test]
fn a_message_stands_for_no_more_than_its_cpus_and_rows() {
    let number = |value: u64| match value {
        0..0x80 => vec![value as u8],
        0x80..0x4000 => vec![value as u8 | 0x80, (value >> 7) as u8],
        _ => vec![
            value as u8 | 0x80,
            (value >> 7) as u8 | 0x80,
            (value >> 14) as u8,
        ],
    };
    // Unit 1, one row of this many zeros.
    let row_of = |length: u64| {
        let zeros = [number(length + 1), vec![0, 0], number(length - 1)];
        Packed([vec![1, 1], zeros.concat()].concat())
    };
    let all: Vec<u32> = (0..8193).collect();
    let read = |cpus: usize, row: u64| {
        let message = Message::Snapshot(WithDrops {
            sequence: 1,
            time_unix_ns: 1,
            interval_ns: 1,
            cpus: &all[..cpus],
            sections: Sections {
                drops: Drops {
                    places: [],
                    other_packets: 0,
                    cpus: row_of(row),
                },
            },
        });
        let message = codec::encode(&message).unwrap();
        codec::decode::<ServerMessage>(&message).map_err(|error| error.to_string())
    };
    assert!(read(2, 2).is_ok());
    for (cpus, row) in [(2, 1 << 20), (1, 2), (0, 2)] {
        let error = read(cpus, row).unwrap_err();
        assert!(error.contains("damaged"), "{error}");
    }
    assert!(read(8192, 8192).is_ok());
    let error = read(8193, 8193).unwrap_err();
    assert!(error.contains("more CPUs"), "{error}");
}
