//! How large a log becomes: of a made-up host, because its load is known.

use metrics_common::Snapshot;
use metrics_common::codec;
use metrics_common::log::{Block, DigestBuilder, Packer, Rounding};

use super::*;

const DAY_SECONDS: u64 = 86_400;
/// A day of 64 CPUs may have so many bytes. What is left of it is mostly chance: of 110 values
/// for each CPU and interval, 70 are not 0 and differ from the last ones by their scatter.
const MOST_BYTES_A_DAY: u64 = 520_000_000;

/// Intervals of a block, which is written after three and a half seconds.
const A_BLOCK: u64 = 7;

/// Bytes of so many intervals of half a second of 64 CPUs, in blocks as they are written, with
/// their digests.
fn logged(intervals: u64, mut keep: impl FnMut(Snapshot) -> Snapshot) -> u64 {
    let settings = Settings {
        cpus: 64,
        seed: 1,
        period: Duration::from_millis(500),
        frequency_hz: 1000,
        has_owners: false,
        has_latency: false,
    };
    let mut source = Source::new(settings);
    let (mut block, mut packer) = (Block::default(), Packer::default());
    let mut digests = DigestBuilder::default();
    let mut bytes = 0;
    for number in 0..intervals {
        let time_unix_ns = 1_800_000_000_000_000_000 + number * 500_000_000 + number % 7 * 1_000;
        let snapshot = keep(source.make(500_000_000, time_unix_ns));
        let message = codec::encode_snapshot(&snapshot).unwrap();
        block.push_snapshot(message, time_unix_ns).unwrap();
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
fn a_day_of_64_cpus_is_at_most_520_megabytes() {
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
