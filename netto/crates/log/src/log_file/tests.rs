//! Existing logs are continued, and files changed by others are handled.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use metrics_common::codec::{self, ServerMessage};
use netto_log_format::{self as log, Block, Item, LogIndex, LogReader, Packer};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::*;

// No test here starts a program: between fork and exec it would hold the locks of the others' logs.

fn block(text: &str) -> Vec<u8> {
    netto_log_format::fixture::block(&ServerMessage::Bye(text.to_owned())).unwrap()
}

fn opened(path: &Path) -> anyhow::Result<LogFile> {
    LogFile::open(path, &LogSettings::default())
}

fn write(log: &mut LogFile, text: &str) {
    log.prepare().unwrap();
    assert!(log.append(&block(text)).unwrap());
}

fn write_session(path: &Path, texts: &[&str]) {
    let mut log = opened(path).unwrap();
    texts.iter().for_each(|text| write(&mut log, text));
}

fn texts(path: &Path) -> (Vec<String>, u64) {
    let mut reader = LogReader::new(File::open(path).unwrap()).unwrap();
    let texts = reader
        .by_ref()
        .map(|message| match message.unwrap() {
            ServerMessage::Bye(text) => text,
            other => panic!("{other:?}"),
        })
        .collect();
    (texts, reader.damaged_stretches())
}

#[test]
fn a_second_session_is_appended_to_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("netto.log");
    write_session(&path, &["a", "b"]);
    write_session(&path, &["c"]);
    assert_eq!(texts(&path), (["a", "b", "c"].map(String::from).into(), 0));
}

#[test]
fn a_cut_tail_costs_only_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("netto.log");
    for cut_bytes in 1..block("b").len() as u64 {
        write_session(&path, &["a", "b"]);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(file.metadata().unwrap().len() - cut_bytes)
            .unwrap();
        write_session(&path, &["c"]);
        let expected = ["a", "c"].map(String::from).into();
        assert_eq!(texts(&path), (expected, 1), "cut by {cut_bytes} bytes");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_log_that_is_cut_while_it_is_open_stays_readable_wherever_it_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("netto.log");
    let whole = log::file_header().len() + block("a").len();
    for left in 0..whole {
        let mut log = opened(&path).unwrap();
        write(&mut log, "a");
        log.open
            .as_ref()
            .unwrap()
            .file
            .set_len(left as u64)
            .unwrap();
        assert!(log.prepare().unwrap(), "it begins anew");
        write(&mut log, "b");
        assert_eq!(texts(&path).0, ["b"], "{left} bytes were left");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_cut_header_is_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("netto.log");
    for length in 0..HEADER_BYTES {
        fs::write(&path, &log::file_header()[..length]).unwrap();
        write_session(&path, &["a"]);
        assert_eq!(texts(&path), (vec!["a".to_owned()], 0));
    }
}

#[test]
fn foreign_files_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("letter.txt");
    for content in ["a letter to my grandmother", "short", "\0\0\0", "\n"] {
        fs::write(&path, content).unwrap();
        let error = opened(&path).err().expect("refused").to_string();
        assert!(error.contains("letter.txt"), "{error}");
        assert!(error.contains("not a netto log"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
}

#[test]
fn a_log_of_a_newer_format_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("netto.log");
    for major in [2, 99] {
        let mut header = log::file_header();
        header[8] = major;
        fs::write(&path, &header).unwrap();
        let error = opened(&path).err().expect("refused").to_string();
        assert!(error.contains(&format!("format {major}")), "{error}");
        assert_eq!(fs::read(&path).unwrap(), header);
    }
}

#[test]
fn a_path_that_cannot_be_opened_is_named() {
    let error = opened(Path::new("/nonexistent/netto.log"))
        .err()
        .expect("refused");
    let text = format!("{error:#}");
    assert!(text.contains("/nonexistent/netto.log"), "{text}");
    assert!(text.contains("No such file"), "{text}");
}

#[test]
fn what_is_no_regular_file_is_refused_and_never_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    mkfifo(&fifo, Mode::S_IRWXU).unwrap();
    let socket = folder.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    for path in [&fifo, &socket, Path::new("/dev/null"), folder.path()] {
        let error = format!("{:#}", opened(path).err().expect("refused"));
        assert!(error.contains(&path.display().to_string()), "{error}");
        assert!(error.contains("choose another with --log-file"), "{error}");
    }
}

#[test]
fn what_takes_the_place_of_a_log_is_left_alone_and_a_new_one_comes_once_it_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let (path, away) = (folder.path().join("netto.log"), folder.path().join("away"));
    let mut log = opened(&path).unwrap();
    write(&mut log, "a");
    fs::rename(&path, &away).unwrap();
    for intruder in ["a FIFO", "a folder", "a link to the log itself"] {
        match intruder {
            "a FIFO" => mkfifo(&path, Mode::S_IRWXU).unwrap(),
            "a folder" => fs::create_dir(&path).unwrap(),
            _ => symlink(&away, &path).unwrap(),
        }
        assert!(log.prepare().is_err(), "{intruder}");
        fs::rename(&path, folder.path().join(intruder)).unwrap();
    }
    assert!(log.prepare().unwrap(), "it begins anew");
    write(&mut log, "b");
    assert_eq!(texts(&away).0, ["a"]);
    assert_eq!(texts(&path).0, ["b"]);
}

#[test]
fn indices_of_several_sessions_lead_to_all_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("netto.log");
    for texts in [&["a", "b"][..], &["c"], &[]] {
        let mut log = opened(&path).unwrap();
        texts.iter().for_each(|text| write(&mut log, text));
        log.finish().unwrap();
    }
    let index = LogIndex::of(&mut File::open(&path).unwrap()).unwrap();
    assert!(index.is_complete());
    let bytes = fs::read(&path).unwrap();
    let found: Vec<Vec<u8>> = index
        .parts()
        .iter()
        .map(|part| bytes[part.offset as usize..(part.offset + part.bytes) as usize].to_vec())
        .collect();
    assert_eq!(found, ["a", "b", "c"].map(block));
    assert_eq!(texts(&path).0, ["a", "b", "c"]);
    // An unfinished file is read by the heads of its blocks.
    write_session(&path, &["d"]);
    let index = LogIndex::of(&mut File::open(&path).unwrap()).unwrap();
    assert!(!index.is_complete());
    assert_eq!(index.parts().len(), 4);
}

#[test]
fn another_file_is_begun_at_its_size_and_old_ones_are_kept_by_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("netto.log");
    let settings = LogSettings {
        max_bytes: Some(100),
        keep: 2,
        ..LogSettings::default()
    };
    let mut log = LogFile::open(&path, &settings).unwrap();
    let mut begun = 0;
    for number in 0..20 {
        begun += usize::from(log.prepare().unwrap());
        log.append(&block(&format!("number {number}"))).unwrap();
    }
    log.finish().unwrap();
    // 12 bytes of header and 55 of each block: two to a file.
    assert_eq!(begun, 9);
    let mut names: Vec<PathBuf> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort_unstable();
    assert_eq!(names.len(), 3, "{names:?}");
    names.rotate_left(1);
    let kept: Vec<String> = names.iter().flat_map(|name| texts(name).0).collect();
    let expected: Vec<String> = (14..20).map(|number| format!("number {number}")).collect();
    assert_eq!(kept, expected);
    for name in &names {
        let index = LogIndex::of(&mut File::open(name).unwrap()).unwrap();
        assert!(index.is_complete(), "{}", name.display());
    }
}

/// Blocks with these intervals, one in each.
fn intervals(sequences: std::ops::RangeInclusive<u64>) -> Vec<Vec<u8>> {
    let block = |sequence: u64| {
        let snapshot = metrics_common::Snapshot {
            sequence,
            time_unix_ns: sequence * 500_000_000,
            interval_ns: 500_000_000,
            cpus: vec![0, 1],
            ..Default::default()
        };
        let (message, mut block) = (codec::encode_snapshot(&snapshot).unwrap(), Block::default());
        block.push_snapshot(message, snapshot.time_unix_ns).unwrap();
        block.close(&mut Packer::default())
    };
    sequences.map(block).collect()
}

/// How many intervals each digest of a log stands for, and how many were read one by one.
fn digested(path: &Path) -> (Vec<usize>, usize) {
    let mut file = File::open(path).unwrap();
    let index = LogIndex::of(&mut file).unwrap();
    let (mut digests, mut single) = (Vec::new(), 0);
    for item in index.digested(file, 0, u64::MAX, |_, _| true).unwrap() {
        match item.unwrap() {
            Item::Digest(digest) => digests.push(digest.course.times_unix_ns.len()),
            Item::Message(ServerMessage::Snapshot(_)) => single += 1,
            Item::Message(_) => {}
        }
    }
    (digests, single)
}

#[test]
fn every_600_intervals_are_summed_up_and_what_is_left_at_the_end_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("netto.log");
    let settings = LogSettings::default();
    let mut log = LogFile::open(&path, &settings).unwrap();
    for block in intervals(1..=1_300) {
        log.prepare().unwrap();
        log.append(&block).unwrap();
    }
    // As if netto was killed here.
    assert_eq!(digested(&path), (vec![600, 600], 100));
    log.finish().unwrap();
    assert_eq!(digested(&path), (vec![600, 600, 100], 0));
    drop(log);
    // Another session makes digests of its own blocks only.
    let mut log = LogFile::open(&path, &settings).unwrap();
    for block in intervals(1_301..=1_400) {
        log.append(&block).unwrap();
    }
    log.finish().unwrap();
    assert_eq!(digested(&path), (vec![600, 600, 100, 100], 0));
    let index = LogIndex::of(&mut File::open(&path).unwrap()).unwrap();
    assert!(index.is_complete());
}

#[test]
fn no_digest_stands_for_blocks_of_another_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("netto.log");
    let settings = LogSettings {
        max_bytes: Some(20_000),
        keep: 100,
        ..LogSettings::default()
    };
    let mut log = LogFile::open(&path, &settings).unwrap();
    for block in intervals(1..=700) {
        log.prepare().unwrap();
        log.append(&block).unwrap();
    }
    log.finish().unwrap();
    let files = fs::read_dir(folder.path()).unwrap();
    let files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() > 2);
    let mut all = 0;
    for file in files {
        let (digests, single) = digested(&file);
        assert_eq!((digests.len(), single), (1, 0), "{}", file.display());
        all += digests[0];
    }
    assert_eq!(all, 700);
    // A truncated file starts anew, too.
    for block in intervals(1..=50) {
        log.append(&block).unwrap();
    }
    File::create(&path).unwrap();
    for block in intervals(51..=100) {
        assert_eq!(log.prepare().unwrap(), block == intervals(51..=51)[0]);
        log.append(&block).unwrap();
    }
    log.finish().unwrap();
    assert_eq!(digested(&path), (vec![50], 0));
}

#[test]
fn another_file_is_begun_at_its_age() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("netto.log");
    let settings = LogSettings {
        max_age: Some(Duration::from_secs(3600)),
        ..LogSettings::default()
    };
    let mut log = LogFile::open(&path, &settings).unwrap();
    write(&mut log, "a");
    assert!(!log.prepare().unwrap());
    let open = log.open.as_mut().unwrap();
    open.began -= Duration::from_secs(3601);
    assert!(log.prepare().unwrap(), "it begins anew");
    write(&mut log, "b");
    assert_eq!(texts(&path).0, ["b"]);
}

#[test]
fn a_log_that_cannot_be_set_aside_grows_on() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let path = inner.join("netto.log");
    let settings = LogSettings {
        max_bytes: Some(20),
        ..LogSettings::default()
    };
    let mut log = LogFile::open(&path, &settings).unwrap();
    write(&mut log, "a");
    // The name would be too long by its time.
    let long = inner.join("n".repeat(250));
    fs::rename(&path, &long).unwrap();
    log.path = long.clone();
    assert!(!log.prepare().unwrap());
    write(&mut log, "b");
    assert_eq!(texts(&long).0, ["a", "b"]);
}

#[test]
fn a_log_is_for_its_owner_and_group_and_a_symbolic_link_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("netto.log");
    drop(opened(&path).unwrap());
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o007, 0, "{mode:o}");
    let (precious, link) = (folder.path().join("passwd"), folder.path().join("link"));
    fs::write(&precious, "").unwrap();
    symlink(&precious, &link).unwrap();
    let error = format!("{:#}", opened(&link).err().expect("refused"));
    assert!(error.contains("is a symbolic link"), "{error}");
    assert_eq!(fs::read(&precious).unwrap(), b"");
}
