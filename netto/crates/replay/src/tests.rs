//! Plays recordings written by the tests, without a daemon.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use metrics_common::codec::ServerMessage;
use metrics_common::{COMPONENTS, Cost, Info, Sections, Snapshot, fixture};
use netto_log_format::{self as log, LogBuilder, LogReader};
use proptest::prelude::*;
use tempfile::NamedTempFile;

use super::player::Player;
use super::recording::Recording;
use netto_pipeline::playback::{Command, Controls, Mode};
use netto_pipeline::trace_analyzer::{SnapshotSource, Update};

const SECOND_NS: u64 = 1_000_000_000;
const INTERVAL_NS: u64 = SECOND_NS / 2;
const BEGIN_NS: u64 = 1_700_000_000 * SECOND_NS;

/// The interval with this number, which begins this many intervals after the first.
fn snapshot(number: u64) -> Snapshot {
    let rows = (0..COMPONENTS.len() as u64).map(|row| Some(vec![number, 1000 * row + number]));
    Snapshot {
        sequence: number,
        time_unix_ns: BEGIN_NS + number * INTERVAL_NS,
        interval_ns: INTERVAL_NS,
        cpus: vec![0, 1],
        sections: Sections {
            cost: Some(Cost {
                components: rows.collect(),
                stacks_taken: vec![1, 2],
                stacks_lost: vec![0, number % 2],
                ..Cost::default()
            }),
            ..Sections::default()
        },
    }
}

fn message(number: u64) -> ServerMessage {
    ServerMessage::Snapshot(Box::new(snapshot(number)))
}

fn hello(hostname: &str) -> ServerMessage {
    ServerMessage::Hello(Box::new(Info {
        hostname: hostname.to_owned(),
        ..fixture::info()
    }))
}

/// Each message in an uncompressed block of its own, as in a dump.
fn bytes_of(messages: impl IntoIterator<Item = ServerMessage>) -> Vec<u8> {
    let mut bytes = log::file_header();
    for message in messages {
        bytes.extend(netto_log_format::fixture::block(&message).unwrap());
    }
    bytes
}

fn file_of(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn usual_messages(snapshots: u64) -> impl Iterator<Item = ServerMessage> {
    [hello("web-1")]
        .into_iter()
        .chain((1..=snapshots).map(message))
}

fn usual(snapshots: u64) -> Vec<u8> {
    bytes_of(usual_messages(snapshots))
}

fn in_blocks(snapshots: u64) -> Vec<u8> {
    let mut log = LogBuilder::default();
    for message in usual_messages(snapshots) {
        log.push(&message).unwrap();
    }
    log.finish()
}

fn opened(bytes: &[u8]) -> anyhow::Result<(Arc<Recording>, NamedTempFile)> {
    let file = file_of(bytes);
    let recording = Recording::open(file.path(), &mut |_, _| ())?;
    Ok((Arc::new(recording), file))
}

struct Show {
    player: Player,
    controls: Controls,
    _file: NamedTempFile,
}

impl Show {
    fn of(bytes: &[u8], speed: f64) -> Show {
        let (recording, file) = opened(bytes).unwrap();
        let controls = Controls::new(recording.facts().clone(), true, speed);
        Show {
            player: Player::new(recording, controls.clone()),
            controls,
            _file: file,
        }
    }

    fn seek(&mut self, unix_ms: u64) -> Update {
        self.controls.ask(Command {
            seek_unix_ms: Some(unix_ms),
            ..Command::default()
        });
        self.player.step(Duration::ZERO)
    }

    fn play(&self, playing: bool) {
        self.controls.ask(Command {
            playing: Some(playing),
            ..Command::default()
        });
    }

    /// Plays to the end in steps of this many milliseconds.
    fn play_out(&mut self, step_ms: u64) -> Vec<Update> {
        let mut steps = Vec::new();
        while self.controls.status().state == Mode::Playing {
            steps.push(self.player.step(Duration::from_millis(step_ms)));
            assert!(steps.len() < 1_000_000, "it never ends");
        }
        steps
    }
}

/// The sum of all intervals.
fn sum(snapshots: impl IntoIterator<Item = Snapshot>) -> Option<Snapshot> {
    let mut all = snapshots.into_iter();
    let mut sum = all.next()?;
    all.for_each(|next| sum.add(&next));
    sum.sequence = 0;
    Some(sum)
}

fn shown(steps: Vec<Update>) -> impl Iterator<Item = Snapshot> {
    steps.into_iter().filter_map(|step| step.snapshot)
}

#[test]
fn what_is_shown_adds_up_to_the_log_at_any_speed() {
    let (plain, blocks) = (usual(3_000), in_blocks(3_000));
    let expected = sum((1..=3_000).map(snapshot));
    for (bytes, speed, step_ms) in [
        (&plain, 1.0, 100),
        (&blocks, 1.0, 100),
        (&blocks, 1.0, 730),
        (&blocks, 10.0, 100),
        (&plain, 60.0, 100),
        (&blocks, 1000.0, 100),
    ] {
        let mut show = Show::of(bytes, speed);
        let steps = show.play_out(step_ms);
        let count = steps.iter().filter(|step| step.snapshot.is_some()).count();
        assert_eq!(sum(shown(steps)), expected, "{speed} times");
        if speed == 1.0 && step_ms == 100 {
            assert_eq!(count, 3_000, "as recorded");
        }
        assert_eq!(show.controls.status().state, Mode::Ended);
    }
}

#[test]
fn numbers_grow_by_one_whatever_is_played() {
    let mut show = Show::of(&usual(500), 60.0);
    let mut steps: Vec<Update> = (0..20)
        .map(|_| show.player.step(Duration::from_millis(100)))
        .collect();
    steps.push(show.seek(BEGIN_NS / 1_000_000 + 20_000));
    steps.extend(show.play_out(100));
    let numbers: Vec<u64> = shown(steps).map(|snapshot| snapshot.sequence).collect();
    assert!(numbers.len() > 30);
    assert!(
        numbers
            .iter()
            .zip(1..)
            .all(|(actual, expected)| *actual == expected)
    );
}

#[test]
fn a_place_shows_the_interval_that_ended_last_and_the_minutes_before_it() {
    let mut show = Show::of(&usual(20_000), 1.0);
    for number in [1, 2, 17, 1_000, 4_095, 12_345, 19_999, 20_000] {
        let at_ms = (BEGIN_NS + number * INTERVAL_NS) / 1_000_000;
        let step = show.seek(at_ms + 3);
        let found = step.snapshot.unwrap();
        assert_eq!(
            found.time_unix_ns,
            snapshot(number).time_unix_ns,
            "{number}"
        );
        assert_eq!(found.sections, snapshot(number).sections);
        let past = step.past.unwrap();
        let points = past.points();
        // Sixteen minutes of half seconds, including their first one at the very end; or all.
        let expected = (number - 1).min(1919)..=(number - 1).min(1920);
        assert!(expected.contains(&(points as u64)), "{number}: {points}");
        if let Some(last) = points.checked_sub(1) {
            assert_eq!(past.point_ms(last).1, (at_ms - 500) as f64);
            let network = past.component_cpus(0, last).unwrap();
            let of_log = snapshot(number - 1).total_ns(0).unwrap() as f64 / INTERVAL_NS as f64;
            assert!((network - of_log).abs() < 1e-6, "{network} {of_log}");
        }
    }
}

#[test]
fn before_the_first_interval_the_first_is_shown() {
    let mut show = Show::of(&usual(10), 1.0);
    let step = show.seek(0);
    assert_eq!(
        step.snapshot.unwrap().time_unix_ns,
        snapshot(1).time_unix_ns
    );
    assert_eq!(step.past.map(|past| past.points()), Some(0));
}

#[test]
fn from_any_place_the_file_reads_as_from_its_beginning() {
    for bytes in [usual(5_000), in_blocks(5_000)] {
        let (recording, _file) = opened(&bytes).unwrap();
        let read_from = |at_ns| -> Vec<(u64, Snapshot)> {
            let frames = recording.read_from(at_ns);
            frames.map(|frame| (frame.at_ns, frame.snapshot)).collect()
        };
        let all = read_from(0);
        assert_eq!(all.len(), 5_000);
        for number in (1..5_000).step_by(499) {
            let at_ns = snapshot(number).time_unix_ns;
            let some = read_from(at_ns);
            assert!(some[0].0 <= at_ns && some.len() < all.len() - number as usize + 100);
            assert_eq!(some[..], all[all.len() - some.len()..], "{number}");
        }
    }
}

#[test]
fn a_pause_holds() {
    let mut show = Show::of(&usual(100), 1.0);
    (0..30).for_each(|_| drop(show.player.step(Duration::from_millis(100))));
    show.play(false);
    let before = show.controls.status();
    for _ in 0..100 {
        let step = show.player.step(Duration::from_secs(1));
        assert!(step.snapshot.is_none() && step.past.is_none());
    }
    assert_eq!(show.controls.status(), before);
    assert_eq!(before.state, Mode::Paused);
    show.play(true);
    let next = shown(show.play_out(100)).next().unwrap();
    assert_eq!(next.time_unix_ns / 1_000_000, before.time_unix_ms + 500);
}

#[test]
fn a_place_is_gone_to_although_it_stands_still() {
    let mut show = Show::of(&usual(100), 1.0);
    show.play(false);
    let step = show.seek((BEGIN_NS + 50 * INTERVAL_NS) / 1_000_000);
    assert_eq!(
        step.snapshot.unwrap().time_unix_ns,
        snapshot(50).time_unix_ns
    );
    assert_eq!(show.controls.status().state, Mode::Paused);
    assert!(show.player.step(Duration::from_secs(9)).snapshot.is_none());
}

#[test]
fn behind_the_end_it_begins_anew() {
    let mut show = Show::of(&usual(10), 1.0);
    show.play_out(100);
    assert!(show.player.step(Duration::from_secs(9)).snapshot.is_none());
    show.play(true);
    let again = sum(shown(show.play_out(100)));
    assert_eq!(again, sum((1..=10).map(snapshot)));
}

#[test]
fn nobody_waits_where_nothing_was_recorded() {
    let mut bytes = usual(10);
    let hours_later = (7_200 * 5..7_200 * 5 + 10).map(message);
    bytes.extend(
        hours_later.flat_map(|message| netto_log_format::fixture::block(&message).unwrap()),
    );
    let mut show = Show::of(&bytes, 1.0);
    let steps = show.play_out(100);
    assert!(steps.len() < 150, "{} steps for ten seconds", steps.len());
    assert_eq!(shown(steps).count(), 20);
    // In the middle of the gap, the last interval before it is shown.
    let middle = (snapshot(10).time_unix_ns + 3_600 * SECOND_NS) / 1_000_000;
    let step = show.seek(middle);
    assert_eq!(
        step.snapshot.unwrap().time_unix_ns,
        snapshot(10).time_unix_ns
    );
}

#[test]
fn another_host_in_the_same_file_is_introduced_with_its_first_interval() {
    let first = [hello("web-1")].into_iter().chain((1..=10).map(message));
    let second = [hello("web-2")].into_iter().chain((11..=20).map(message));
    for speed in [1.0, 60.0] {
        let mut show = Show::of(&bytes_of(first.clone().chain(second.clone())), speed);
        let mut host = String::new();
        let mut seen: Vec<(String, u64)> = Vec::new();
        for step in show.play_out(100) {
            if let Some(info) = step.info {
                assert!(info.is_recording() && info.notes[0].contains(&info.hostname));
                host = info.hostname;
            }
            seen.extend(step.snapshot.map(|found| (host.clone(), found.interval_ns)));
        }
        for name in ["web-1", "web-2"] {
            let of_host = seen.iter().filter(|(host, _)| host == name);
            let length_ns: u64 = of_host.map(|(_, ns)| ns).sum();
            assert_eq!(length_ns, 10 * INTERVAL_NS, "{name} at {speed}");
        }
        // And after a seek across it.
        show.seek((BEGIN_NS + 5 * INTERVAL_NS) / 1_000_000);
        let step = show.seek((BEGIN_NS + 15 * INTERVAL_NS) / 1_000_000);
        assert_eq!(step.info.unwrap().hostname, "web-2");
        assert_eq!(
            step.past.unwrap().points(),
            14,
            "the other host's past goes on"
        );
    }
}

#[test]
fn a_cut_file_is_played_up_to_the_cut_and_says_so() {
    let whole = usual(50);
    let cut = &whole[..whole.len() - 7];
    let mut show = Show::of(cut, 1.0);
    let info = show.player.first_info().unwrap();
    assert!(
        info.notes.iter().any(|note| note.contains("was cut")),
        "{:?}",
        info.notes
    );
    assert_eq!(sum(shown(show.play_out(100))), sum((1..=49).map(snapshot)));
}

#[test]
fn a_damaged_file_is_played_but_for_the_damage_and_says_so() {
    let mut bytes = usual(200);
    let middle = bytes.len() / 2;
    bytes[middle..middle + 3].fill(0x55);
    let mut show = Show::of(&bytes, 10.0);
    let info = show.player.first_info().unwrap();
    assert!(
        info.notes.iter().any(|note| note.contains("damaged in 1 ")),
        "{:?}",
        info.notes
    );
    let all = sum(shown(show.play_out(100))).unwrap();
    assert!(all.interval_ns >= 198 * INTERVAL_NS && all.interval_ns < 200 * INTERVAL_NS);
}

#[test]
fn a_file_without_its_beginning_is_still_shown() {
    let whole = usual(50);
    let hello = netto_log_format::fixture::block(&hello("web-1"))
        .unwrap()
        .len();
    let mut show = Show::of(&whole[log::file_header().len() + hello..], 1.0);
    let info = show.player.first_info().unwrap();
    assert!(
        info.notes
            .iter()
            .any(|note| note.contains("beginning of the file is lost"))
    );
    assert_eq!(info.components.len(), COMPONENTS.len());
    assert_eq!(sum(shown(show.play_out(100))), sum((1..=50).map(snapshot)));
}

#[test]
fn what_is_no_recording_is_refused_with_the_cause() {
    let error = |bytes: &[u8]| format!("{:#}", opened(bytes).unwrap_err());
    assert!(error(b"").contains("not a netto log"));
    assert!(error(b"PNG, perhaps").contains("not a netto log"));
    assert!(error(&log::file_header()).contains("no snapshot"));
    assert!(error(&bytes_of([hello("web-1")])).contains("no snapshot"));
    let mut newer = log::file_header();
    newer[log::MAGIC.len()] = 99;
    assert!(error(&newer).contains("newer netto"));
    let folder = tempfile::tempdir().unwrap();
    let error = Recording::open(folder.path(), &mut |_, _| ()).unwrap_err();
    assert!(
        format!("{error:#}").contains("not a regular file"),
        "{error:#}"
    );
}

#[test]
fn progress_ends_with_the_file() {
    let file = file_of(&usual(300));
    let mut last = (0, 0);
    Recording::open(file.path(), &mut |read, all| last = (read, all)).unwrap();
    assert!(last.1 > 0 && last.0 == last.1, "{last:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_was_damaged_what_the_reader_reads_is_what_is_played(
        damages in prop::collection::vec((0.0..1.0_f64, any::<u8>(), 1..40_usize), 1..6),
        end in 0.2..1.0_f64,
        are_plain: bool,
    ) {
        let mut bytes = if are_plain { usual(120) } else { in_blocks(120) };
        for (place, value, length) in damages {
            let at = (bytes.len() as f64 * place) as usize;
            let until = (at + length).min(bytes.len());
            bytes[at..until].fill(value);
        }
        bytes.truncate((bytes.len() as f64 * end) as usize);
        let Ok(reader) = LogReader::new(&bytes[..]) else { return Ok(()) };
        let read = reader.filter_map(|message| match message {
            Ok(ServerMessage::Snapshot(snapshot)) => Some(*snapshot),
            _ => None,
        });
        let expected = sum(read);
        match opened(&bytes) {
            Ok((recording, _file)) => {
                let controls = Controls::new(recording.facts().clone(), true, 60.0);
                let mut player = Player::new(recording, controls.clone());
                let mut snapshots = Vec::new();
                while controls.status().state == Mode::Playing {
                    snapshots.extend(player.next_step().unwrap().snapshot);
                    snapshots.extend(player.step(Duration::from_millis(200)).snapshot);
                }
                prop_assert_eq!(sum(snapshots), expected);
            }
            Err(_) => prop_assert_eq!(expected, None),
        }
    }
}
