//! Several files, or damaged ones, as one series.

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use metrics_common::codec::ServerMessage;
use metrics_common::{COMPONENTS, Cost, Sections, fixture};
use netto_log_format::{LogBuilder, LogIndex, Part, step_number};

use super::*;
use crate::read::Files;

const SECOND: u64 = 1_000_000_000;

/// The only place here that knows how a log is written.
fn write(path: &Path, messages: &[ServerMessage]) {
    let mut log = LogBuilder::default();
    for message in messages {
        log.push(message).unwrap();
    }
    fs::write(path, log.finish()).unwrap();
}

fn hello(hostname: &str, started_seconds: u64) -> ServerMessage {
    ServerMessage::Hello(Box::new(Info {
        hostname: hostname.to_owned(),
        started_unix_ns: started_seconds * SECOND,
        ..fixture::info()
    }))
}

/// The interval of a second that ends at this time, with a unique network time.
fn interval(sequence: u64, end_seconds: u64) -> ServerMessage {
    let mut components = vec![None; COMPONENTS.len()];
    components[0] = Some(vec![end_seconds, 0]);
    ServerMessage::Snapshot(Box::new(Snapshot {
        sequence,
        time_unix_ns: end_seconds * SECOND,
        interval_ns: SECOND,
        cpus: vec![0, 1],
        sections: Sections {
            cost: Some(Cost {
                components,
                stacks_taken: vec![0; 2],
                stacks_lost: vec![0; 2],
                ..Cost::default()
            }),
            ..Sections::default()
        },
    }))
}

/// A run that began then, and its intervals of a second each.
fn run(started: u64, ends: std::ops::RangeInclusive<u64>) -> Vec<ServerMessage> {
    let mut messages = vec![hello("host", started)];
    messages.extend(ends.map(|end| interval(end - started, end)));
    messages
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn log(&self, name: &str, messages: &[ServerMessage]) -> PathBuf {
        let path = self.0.path().join(name);
        write(&path, messages);
        path
    }
}

/// The ends of all intervals, in seconds, and what was wrong.
fn read(paths: &[PathBuf], span: Span) -> (Vec<u64>, Findings) {
    let mut series = Files::look(paths).unwrap().series(span);
    let mut ends = Vec::new();
    for entry in series.by_ref() {
        if let SeriesItem::Interval(snapshot) = entry {
            ends.push(snapshot.time_unix_ns / SECOND);
        }
    }
    for step_ns in [SECOND, 4 * SECOND, 60 * SECOND] {
        let (each, _) = steps(Files::look(paths).unwrap().series(span), step_ns);
        let summed = Files::look(paths).unwrap().series(span);
        let summed = summed.only(vec!["cost"]).summed(step_ns, |components| {
            Some(
                components
                    .iter()
                    .map(|component| component.slug == "network")
                    .collect(),
            )
        });
        assert_eq!(steps(summed, step_ns), (each, series.findings().clone()));
    }
    (ends, series.findings().clone())
}

/// By step: time of all intervals, and networking's.
fn steps(mut series: Series, step_ns: u64) -> (BTreeMap<u64, (u64, u64)>, Findings) {
    let mut steps = BTreeMap::new();
    for entry in series.by_ref() {
        if let SeriesItem::Interval(snapshot) = entry {
            let step = step_number(step_ns, snapshot.time_unix_ns);
            let (interval_ns, network_ns) = steps.entry(step).or_default();
            *interval_ns += snapshot.interval_ns;
            *network_ns += snapshot.cost().total_ns(0).unwrap_or(0);
        }
    }
    (steps, series.findings().clone())
}

#[test]
fn intervals_of_a_step_are_read_as_one_where_nothing_is_there_twice() {
    let folder = Folder::new();
    let paths = [
        folder.log("a", &run(100, 101..=400)),
        folder.log("b", &run(400, 401..=700)),
    ];
    read(&paths, Span::EVER);
    let summed = Files::look(&paths).unwrap().series(Span::EVER);
    let summed = summed.only(vec!["cost"]).summed(60 * SECOND, |_| None);
    let is_interval = |entry: &SeriesItem| matches!(entry, SeriesItem::Interval(_));
    assert!(summed.filter(is_interval).count() < 300);
}

#[test]
fn files_are_read_in_the_order_of_their_first_intervals_whatever_their_names() {
    let folder = Folder::new();
    let paths = [
        folder.log("a", &run(100, 121..=130)),
        folder.log("b", &run(100, 101..=110)),
        folder.log("c", &run(100, 111..=120)),
    ];
    let (ends, findings) = read(&paths, Span::EVER);
    assert_eq!(ends, (101..=130).collect::<Vec<_>>());
    assert_eq!(findings, Findings::default());
}

#[test]
fn what_several_files_hold_counts_once() {
    let folder = Folder::new();
    let whole = folder.log("whole", &run(100, 101..=120));
    let part = folder.log("part", &run(100, 111..=125));
    let again = folder.log("again", &run(100, 101..=120));
    let (ends, findings) = read(&[whole, part, again], Span::EVER);
    assert_eq!(ends, (101..=125).collect::<Vec<_>>());
    assert_eq!(findings.repeated_intervals, 30);
}

#[test]
fn of_two_runs_in_the_same_time_only_one_counts() {
    let folder = Folder::new();
    let one = folder.log("one", &run(100, 101..=120));
    let other = folder.log("other", &run(109, 110..=130));
    let (ends, findings) = read(&[one, other], Span::EVER);
    assert_eq!(ends, (101..=130).collect::<Vec<_>>());
    assert_eq!(findings.overlapping_intervals, 11);
}

#[test]
fn a_hole_in_one_file_is_filled_by_another() {
    let folder = Folder::new();
    let mut holed = run(100, 101..=105);
    holed.extend(run(100, 116..=120).split_off(1));
    let holed = folder.log("holed", &holed);
    let rest = folder.log("rest", &run(100, 101..=120));
    assert_eq!(
        read(&[holed, rest], Span::EVER).0,
        (101..=120).collect::<Vec<_>>()
    );
}

#[test]
fn a_later_run_in_the_same_file_counts_although_the_clock_was_set_back() {
    let folder = Folder::new();
    let mut messages = run(100, 101..=110);
    messages.extend(run(50, 51..=53));
    let log = folder.log("log", &messages);
    let (ends, findings) = read(&[log], Span::EVER);
    assert_eq!(ends.len(), 13);
    assert_eq!(findings, Findings::default());
}

#[test]
fn a_span_holds_the_intervals_that_end_in_it() {
    let folder = Folder::new();
    let log = folder.log("log", &run(100, 101..=120));
    let span = Span {
        after_unix_ns: Some(105 * SECOND),
        until_unix_ns: 110 * SECOND,
    };
    assert_eq!(
        read(std::slice::from_ref(&log), span).0,
        [106, 107, 108, 109, 110]
    );
    let files = Files::look(&[log]).unwrap();
    assert_eq!(files.begin_unix_ns(), 100 * SECOND);
    assert_eq!(files.end_unix_ns(), 120 * SECOND);
}

#[test]
fn logs_of_different_hosts_are_no_series() {
    let folder = Folder::new();
    let one = folder.log("one", &run(100, 101..=102));
    let other = folder.log("other", &[hello("elsewhere", 5), interval(1, 200)]);
    let error = Files::look(&[one, other]).unwrap_err().to_string();
    assert!(
        error.contains("elsewhere") && error.contains("different hosts"),
        "{error}"
    );
}

#[test]
fn an_empty_a_foreign_and_a_missing_file_say_so_and_the_others_are_read() {
    let folder = Folder::new();
    let empty = folder.0.path().join("empty");
    fs::write(&empty, b"").unwrap();
    let foreign = folder.0.path().join("foreign");
    fs::write(&foreign, b"#!/bin/sh\necho no log at all\n").unwrap();
    let without = folder.log("without", &[hello("host", 1)]);
    let missing = folder.0.path().join("missing");
    let directory = folder.0.path().to_owned();
    for (path, word) in [
        (&empty, "is empty"),
        (&foreign, "is no log"),
        (&without, "holds no interval"),
        (&missing, "No such file"),
        (&directory, "not a regular file"),
    ] {
        let error = Files::look(std::slice::from_ref(path))
            .unwrap_err()
            .to_string();
        assert!(error.contains(word), "{error}");
        assert!(error.contains(&path.display().to_string()), "{error}");
        let good = folder.log("good", &run(100, 101..=102));
        let (ends, findings) = read(&[path.clone(), good], Span::EVER);
        assert_eq!(ends, [101, 102]);
        assert!(findings.problems[0].contains(word), "{findings:?}");
    }
}

/// The blocks of a log with intervals: two of eight, and the rest of them.
fn parts(bytes: &[u8]) -> Vec<Part> {
    let index = LogIndex::of(&mut Cursor::new(bytes)).unwrap();
    let blocks = index.parts().iter().filter(|part| !part.has_hello);
    let blocks: Vec<Part> = blocks.copied().collect();
    assert_eq!(blocks.len(), 3);
    blocks
}

#[test]
fn of_a_span_only_blocks_near_it_are_read() {
    let folder = Folder::new();
    let log = folder.log("log", &run(100, 101..=1_100));
    let files = Files::look(std::slice::from_ref(&log)).unwrap();
    assert_eq!(files.end_unix_ns(), 1_100 * SECOND);
    let span = Span {
        after_unix_ns: Some(600 * SECOND),
        until_unix_ns: 640 * SECOND,
    };
    let ends = files.series(span).filter_map(|entry| match entry {
        SeriesItem::Interval(snapshot) => Some(snapshot.time_unix_ns / SECOND),
        _ => None,
    });
    assert_eq!(ends.collect::<Vec<_>>(), (601..=640).collect::<Vec<_>>());
    let (read, all) = (files.read_bytes(), files.length_bytes());
    let read = read.load(Ordering::Relaxed);
    assert!(read < all / 2, "{read} of {all} bytes");
}

#[test]
fn a_cut_file_is_read_up_to_the_cut() {
    let folder = Folder::new();
    let log = folder.log("log", &run(100, 101..=120));
    let bytes = fs::read(&log).unwrap();
    let last = parts(&bytes)[2];
    fs::write(&log, &bytes[..(last.offset + last.bytes - 1) as usize]).unwrap();
    let (ends, findings) = read(&[log], Span::EVER);
    assert_eq!(ends, (101..=116).collect::<Vec<_>>());
    assert_eq!(findings.cut_files, 1);
}

#[test]
fn damage_costs_what_is_damaged() {
    let folder = Folder::new();
    let log = folder.log("log", &run(100, 101..=120));
    let mut bytes = fs::read(&log).unwrap();
    let damaged = parts(&bytes)[1];
    bytes[(damaged.offset + damaged.bytes / 2) as usize] ^= 0xff;
    fs::write(&log, &bytes).unwrap();
    let (ends, findings) = read(&[log], Span::EVER);
    assert_eq!(ends, (101..=108).chain(117..=120).collect::<Vec<_>>());
    assert_eq!(findings.damaged_stretches, 1);
}

#[test]
fn intervals_that_have_lost_their_description_are_named_as_this_netto_names_them() {
    let folder = Folder::new();
    let log = folder.log("log", &[interval(1, 101), interval(2, 102)]);
    let mut series = Files::look(&[log]).unwrap().series(Span::EVER);
    let Some(SeriesItem::Described(info)) = series.next() else {
        panic!("no description");
    };
    assert_eq!(info.components.len(), COMPONENTS.len());
    assert_eq!(series.count(), 2);
}

#[test]
fn impossible_intervals_are_left_out() {
    let folder = Folder::new();
    let mut messages = run(100, 101..=102);
    for (interval_ns, cpus) in [(0, vec![0]), (u64::MAX, vec![0]), (SECOND, vec![])] {
        messages.push(ServerMessage::Snapshot(Box::new(Snapshot {
            sequence: 50,
            time_unix_ns: u64::MAX,
            interval_ns,
            cpus,
            ..Snapshot::default()
        })));
    }
    let (ends, findings) = read(&[folder.log("log", &messages)], Span::EVER);
    assert_eq!(ends, [101, 102]);
    assert_eq!(findings.implausible_intervals, 3);
}

#[test]
fn reading_ahead_hands_on_the_same_and_stops_when_nobody_wants_more() {
    let folder = Folder::new();
    let log = folder.log("log", &run(100, 101..=300));
    let files = Files::look(&[log]).unwrap();
    let mut ahead = Vec::new();
    let findings = files.series(Span::EVER).for_each(|entry| {
        ahead.push(entry);
        Ok::<(), ()>(())
    });
    assert_eq!(findings, Ok(Findings::default()));
    assert_eq!(ahead, files.series(Span::EVER).collect::<Vec<_>>());
    assert_eq!(
        files.series(Span::EVER).for_each(|_| Err("enough")),
        Err("enough")
    );
}

/// The same as [`read`] by digests, and how many intervals these stood for.
fn read_by_digests(paths: &[PathBuf], span: Span) -> (Vec<u64>, usize, Findings) {
    let mut series = Files::look(paths).unwrap().series_by_digests(span);
    let (mut ends, mut digested) = (Vec::new(), 0);
    for entry in series.by_ref() {
        match entry {
            SeriesItem::Interval(snapshot) => ends.push(snapshot.time_unix_ns / SECOND),
            SeriesItem::Digest(digest) => {
                digested += digest.course.times_unix_ns.len();
                ends.extend(digest.course.times_unix_ns.iter().map(|time| time / SECOND));
            }
            _ => {}
        }
    }
    (ends, digested, series.findings().clone())
}

#[test]
fn by_digests_the_same_intervals_count() {
    let folder = Folder::new();
    let whole = folder.log("whole", &run(100, 101..=2_000));
    let part = folder.log("part", &run(100, 1_301..=2_600));
    let other_run = folder.log("other", &run(1_409, 1_410..=3_000));
    let mut holed = run(100, 101..=800);
    holed.extend(run(100, 1_101..=1_900).split_off(1));
    let holed = folder.log("holed", &holed);
    let between = |after: u64, until: u64| Span {
        after_unix_ns: Some(after * SECOND),
        until_unix_ns: until * SECOND,
    };
    // Files and span, and how many intervals are read by digests.
    for (paths, span, expected) in [
        (vec![&whole], Span::EVER, 1_900),
        (vec![&whole], between(400, 1_950), 1_200),
        (vec![&whole], between(750, 1_200), 0),
        (vec![&whole, &part], Span::EVER, 1_300),
        (vec![&whole, &whole], Span::EVER, 0),
        (vec![&part, &other_run], between(0, 2_650), 0),
        (vec![&other_run, &whole], Span::EVER, 2_191),
        (vec![&holed, &whole], Span::EVER, 100),
    ] {
        let paths: Vec<PathBuf> = paths.into_iter().cloned().collect();
        let (ends, findings) = read(&paths, span);
        let (by_digests, digested, same) = read_by_digests(&paths, span);
        assert_eq!(by_digests, ends, "{paths:?} {span:?}");
        assert_eq!(same, findings, "{paths:?} {span:?}");
        assert_eq!(digested, expected, "{paths:?} {span:?}");
    }
}

#[test]
fn a_digest_that_is_damaged_is_said_and_its_intervals_are_read() {
    let folder = Folder::new();
    let log = folder.log("log", &run(100, 101..=300));
    let mut bytes = fs::read(&log).unwrap();
    let index = LogIndex::of(&mut Cursor::new(&bytes)).unwrap();
    let digest = *index.parts().iter().find(|part| part.is_digest()).unwrap();
    bytes[(digest.offset + digest.bytes / 2) as usize] ^= 0xff;
    fs::write(&log, &bytes).unwrap();
    let (ends, digested, findings) = read_by_digests(&[log], Span::EVER);
    assert_eq!(ends, (101..=300).collect::<Vec<_>>());
    assert_eq!((digested, findings.damaged_stretches), (0, 1));
}

/// A digest's intervals are not read; a reader that needs them reads every interval.
#[test]
fn damage_below_a_digest_costs_no_figure() {
    let folder = Folder::new();
    let log = folder.log("log", &run(100, 101..=300));
    let mut bytes = fs::read(&log).unwrap();
    let index = LogIndex::of(&mut Cursor::new(&bytes)).unwrap();
    let block = index.parts()[3];
    bytes[(block.offset + block.bytes / 2) as usize] ^= 0xff;
    fs::write(&log, &bytes).unwrap();
    let paths = [log];
    let (ends, _, findings) = read_by_digests(&paths, Span::EVER);
    assert_eq!(ends, (101..=300).collect::<Vec<_>>());
    assert_eq!(findings, Findings::default());
    assert_eq!(read(&paths, Span::EVER).1.damaged_stretches, 1);
    // Without a head, it is not known that the block was there.
    bytes[block.offset as usize] ^= 0xff;
    let without_index = index.parts().last().unwrap();
    let length = (without_index.offset + without_index.bytes) as usize;
    fs::write(&paths[0], &bytes[..length]).unwrap();
    let (ends, _, findings) = read_by_digests(&paths, Span::EVER);
    assert_eq!(ends.len(), 192);
    assert_eq!(findings.damaged_stretches, 1);
}
