//! The size of a log, for a made-up host, whose load is known.

use std::time::Duration;

use metrics_common::{Snapshot, codec};
use netto::features::FEATURES;
use netto_demo::{Settings, Source};
use netto_log_format::{Block, DigestBuilder, Packer, Rounding};
use netto_pipeline::trace_analyzer::SnapshotSource;

const DAY_SECONDS: u64 = 86_400;
/// A day of 64 CPUs may have so many bytes. What is left of it is mostly chance: of 113 values
/// for each CPU and interval, 73 are not 0 and differ from the last ones by their scatter.
const MOST_BYTES_A_DAY: u64 = 580_000_000;

/// Intervals of a block, which is written after three and a half seconds.
const A_BLOCK: u64 = 7;

fn source(cpus: u32, seed: u64) -> Source {
    source_without(cpus, seed, &["owners", "latency", "flows"])
}

fn source_without(cpus: u32, seed: u64, without: &'static [&'static str]) -> Source {
    Source::new(Settings {
        cpus,
        seed,
        period: Duration::from_millis(500),
        frequency_hz: 1000,
        features: FEATURES,
        without,
    })
}

/// Bytes of so many intervals of half a second of 64 CPUs, in blocks as they are written, with
/// their digests.
fn logged(intervals: u64, mut keep: impl FnMut(Snapshot) -> Snapshot) -> u64 {
    let mut source = source(64, 1);
    let (mut block, mut packer) = (Block::default(), Packer::default());
    let mut digests = DigestBuilder::default();
    let mut bytes = 0;
    for number in 0..intervals {
        let time_unix_ns = 1_800_000_000_000_000_000 + number * 500_000_000 + number % 7 * 1_000;
        let snapshot = keep(Snapshot {
            time_unix_ns,
            ..source.next_snapshot().expect("a snapshot")
        });
        let message = codec::encode_snapshot(&snapshot).expect("encoded");
        block.push_snapshot(message, time_unix_ns).expect("it fits");
        if number % A_BLOCK == A_BLOCK - 1 {
            let block = block.close(&mut packer);
            digests.wrote(bytes, &block);
            bytes += block.len() as u64;
            bytes += digests.due(bytes).len() as u64;
            digests.written();
        }
    }
    digests.end();
    bytes + digests.due(bytes).len() as u64
}

/// Ten minutes, in which there are bursts and all of a cycle of the load but its last phase.
#[test]
fn a_day_of_64_cpus_is_at_most_580_megabytes() {
    let intervals = 1200;
    let mut rounding = Rounding::default();
    let bytes = logged(intervals, |snapshot| rounding.round(&snapshot));
    let a_day = bytes * (2 * DAY_SECONDS) / intervals;
    println!(
        "{} bytes an interval, {} MB a day",
        bytes / intervals,
        a_day / 1_000_000
    );
    assert!(a_day <= MOST_BYTES_A_DAY, "{a_day} bytes a day");
}

/// Without rounding it takes more, and is said to take three times as much.
#[test]
fn a_day_of_64_cpus_to_the_nanosecond_is_two_to_four_times_as_much() {
    let intervals = 600;
    let exact = logged(intervals, |snapshot| snapshot);
    let mut rounding = Rounding::default();
    let rounded = logged(intervals, |snapshot| rounding.round(&snapshot));
    let ratio = exact as f64 / rounded as f64;
    println!("{ratio:.1} times: {} bytes an interval", exact / intervals);
    assert!((2.0..4.0).contains(&ratio), "{ratio}");
}

#[test]
fn a_frame_of_128_cpus_is_at_most_26_kilobytes_and_105_with_all_sections() {
    for (without, most) in [
        (&["owners", "latency", "flows"][..], 26_000),
        (&[], 105_000),
    ] {
        let mut source = source_without(128, 1, without);
        let snapshots = (0..60).map(|_| source.next_snapshot().expect("a snapshot"));
        let bytes =
            snapshots.map(|snapshot| codec::encode_snapshot(&snapshot).expect("encoded").len());
        let largest = bytes.max();
        println!("{largest:?} bytes a frame without {without:?}");
        assert!(largest <= Some(most), "{largest:?} bytes");
    }
}

#[test]
fn the_same_settings_make_the_same_values() {
    let some = |seed| {
        let mut source = source(4, seed);
        let snapshots = (0..3).map(|_| source.next_snapshot().expect("a snapshot"));
        snapshots
            .map(|snapshot| snapshot.sections)
            .collect::<Vec<_>>()
    };
    assert_eq!(some(1), some(1));
    assert_ne!(some(1), some(2));
}
