//! What becomes of the log file while netto runs: rotated, emptied, removed,
//! locked and full. `netto demo` is a daemon like any other, with nothing to
//! measure. A disk that does not answer is in `endings`.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics_common::codec::{Gap, ServerMessage};
use netto_log_format::{Beginning, LogReader};

use crate::support::eventually;

/// A netto that logs; killed by its own number when dropped.
struct Logging {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Logging {
    /// A snapshot every 50 ms.
    fn to(path: &Path) -> Logging {
        Logging::by(Command::new(env!("CARGO_BIN_EXE_netto")), "50", path)
    }

    /// So rarely that nothing comes of snapshots.
    fn rarely_to(path: &Path) -> Logging {
        Logging::by(Command::new(env!("CARGO_BIN_EXE_netto")), "60000", path)
    }

    /// Through a command that runs it.
    fn under(runner: &[&str], path: &Path) -> Logging {
        let mut command = Command::new(runner[0]);
        command.args(&runner[1..]).arg(env!("CARGO_BIN_EXE_netto"));
        Logging::by(command, "50", path)
    }

    fn by(mut command: Command, period_ms: &str, path: &Path) -> Logging {
        let options = [
            "demo",
            "--cpus",
            "2",
            "--port",
            "0",
            "--user-period",
            period_ms,
        ];
        let mut child = command
            .args(options)
            .args(["--log-flush", "0", "--log-file"])
            .arg(path)
            .stderr(Stdio::piped())
            .spawn()
            .expect("netto starts");
        let received = Arc::new(Mutex::new(Vec::new()));
        let lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let into = received.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                into.lock().expect("no panic").push(line);
            }
        });
        Logging {
            child,
            lines: received,
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(status.expect("kill runs").success());
    }

    fn count_with(&self, words: &str) -> usize {
        let lines = self.lines.lock().expect("no panic");
        lines.iter().filter(|line| line.contains(words)).count()
    }

    fn wait_for_words(&self, words: &str) {
        eventually(&format!("{words:?} on standard error"), || {
            (self.count_with(words) > 0).then_some(())
        });
    }

    /// Until it has ended by itself.
    fn ended(&mut self) -> ExitStatus {
        eventually("the end of netto", || {
            self.child.try_wait().expect("it can be waited for")
        })
    }

    fn is_alive(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("it can be waited for")
            .is_none()
    }

    fn terminate(mut self) -> ExitStatus {
        self.signal("TERM");
        self.ended()
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A log as it is now.
#[derive(Debug, Default)]
struct Log {
    begins_with_hello: bool,
    sequences: Vec<u64>,
    gaps: Vec<Gap>,
    has_bye: bool,
    damaged: u64,
}

impl Log {
    fn read(path: &Path) -> Option<Log> {
        let mut reader = LogReader::new(fs::File::open(path).ok()?).ok()?;
        assert_eq!(reader.beginning(), Beginning::Header);
        let mut log = Log::default();
        for (index, message) in reader.by_ref().enumerate() {
            match message.expect("it can be read") {
                ServerMessage::Hello(_) => log.begins_with_hello |= index == 0,
                ServerMessage::Snapshot(snapshot) => log.sequences.push(snapshot.sequence),
                ServerMessage::Gap(gap) => log.gaps.push(gap),
                ServerMessage::Bye(_) => log.has_bye = true,
                ServerMessage::History(_) | ServerMessage::Stacks(_) => {}
            }
        }
        log.damaged = reader.damaged_stretches();
        Some(log)
    }

    /// Waits until it holds so many snapshots.
    fn with(path: &Path, snapshots: usize) -> Log {
        eventually(
            &format!("{snapshots} snapshots in {}", path.display()),
            || Log::read(path).filter(|log| log.sequences.len() >= snapshots),
        )
    }

    /// Has every snapshot from the first on, but for those that it says are missing.
    fn assert_complete(&self) {
        let mut missing = self.gaps.iter();
        for pair in self.sequences.windows(2) {
            if pair[1] != pair[0] + 1 {
                let gap = missing.next().expect("a gap is told");
                assert_eq!(
                    (gap.first_sequence, gap.last_sequence),
                    (pair[0] + 1, pair[1] - 1)
                );
                assert_eq!(gap.snapshots, pair[1] - pair[0] - 1);
            }
        }
        assert_eq!(missing.next(), None);
        assert_eq!(self.damaged, 0);
        assert!(self.begins_with_hello);
    }
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.log");
    (folder, path)
}

#[test]
fn a_renamed_log_is_followed_by_a_new_one_without_a_snapshot_lost() {
    let (folder, path) = folder();
    let old = folder.path().join("x.log.1");
    let netto = Logging::to(&path);
    Log::with(&path, 5);
    fs::rename(&path, &old).expect("renamed");
    Log::with(&path, 5);
    assert!(netto.terminate().success());
    let (first, second) = (Log::with(&old, 5), Log::with(&path, 5));
    first.assert_complete();
    second.assert_complete();
    assert_eq!(
        first.sequences.last().map(|last| last + 1),
        second.sequences.first().copied()
    );
    assert!(second.has_bye);
}

#[test]
fn sighup_reopens_a_renamed_log_at_once_and_ends_nothing() {
    let (folder, path) = folder();
    let mut netto = Logging::rarely_to(&path);
    netto.wait_for_words("dashboard at");
    Log::with(&path, 0);
    fs::rename(&path, folder.path().join("x.log.1")).expect("renamed");
    netto.signal("HUP");
    // Long before the next snapshot.
    eventually("a new log", || {
        Log::read(&path).filter(|log| log.begins_with_hello)
    });
    // Without a rotation it is not a reason for anything.
    netto.signal("HUP");
    netto.signal("HUP");
    assert!(netto.is_alive());
    assert!(netto.terminate().success());
    let log = Log::with(&path, 0);
    log.assert_complete();
    assert!(log.has_bye);
}

#[test]
fn an_emptied_log_begins_anew_with_header_and_hello() {
    let (_folder, path) = folder();
    let netto = Logging::to(&path);
    for round in 0..5 {
        Log::with(&path, 3);
        // As copytruncate does it, and `: > x.log`.
        let file = OpenOptions::new().write(true).open(&path).expect("opened");
        file.set_len(0).expect("emptied");
        let log = Log::with(&path, 3);
        log.assert_complete();
        assert!(log.sequences[0] > 3 * round, "{log:?}");
    }
    assert!(netto.terminate().success());
    // The next start accepts it.
    let netto = Logging::to(&path);
    let before = Log::with(&path, 3).sequences.len();
    Log::with(&path, before + 3);
    assert!(netto.terminate().success());
}

#[test]
fn a_log_emptied_without_its_header_by_an_older_netto_is_continued() {
    let (_folder, path) = folder();
    assert!(logged(&path, 5).terminate().success());
    let whole = fs::read(&path).expect("a log");
    for zeros in [0, 12, 5_000] {
        let mut damaged = vec![0; zeros];
        damaged.extend(&whole[12..]);
        fs::write(&path, damaged).expect("written");
        let netto = Logging::to(&path);
        netto.wait_for_words(&format!("{zeros} bytes of zeros"));
        let before = count_frames(&path);
        eventually("more snapshots", || {
            (count_frames(&path) > before + 2).then_some(())
        });
        assert!(netto.terminate().success());
    }
}

/// A daemon that has logged this many snapshots, including existing ones.
fn logged(path: &Path, snapshots: usize) -> Logging {
    let netto = Logging::to(path);
    // From now on it listens to signals.
    netto.wait_for_words("dashboard at");
    Log::with(path, snapshots);
    netto
}

fn count_frames(path: &Path) -> usize {
    let file = fs::File::open(path).expect("opened");
    LogReader::new(file).expect("a log").count()
}

#[test]
fn a_removed_log_is_made_anew() {
    let (_folder, path) = folder();
    let netto = logged(&path, 3);
    fs::remove_file(&path).expect("removed");
    Log::with(&path, 3).assert_complete();
    assert!(netto.terminate().success());
}

#[test]
fn a_folder_that_was_removed_loses_nothing_once_it_is_back() {
    let (folder, _) = folder();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).expect("made");
    let path = inner.join("x.log");
    let netto = logged(&path, 3);
    fs::rename(&inner, folder.path().join("away")).expect("moved");
    netto.wait_for_words("No such file or directory");
    let before = Log::with(&folder.path().join("away/x.log"), 3);
    fs::create_dir(&inner).expect("made");
    let after = Log::with(&path, 3);
    netto.wait_for_words("can be written again");
    before.assert_complete();
    after.assert_complete();
    assert_eq!(
        before.sequences.last().map(|last| last + 1),
        after.sequences.first().copied()
    );
    assert_eq!(netto.count_with("cannot"), 1, "one line for the whole time");
    assert!(netto.terminate().success());
}

#[test]
fn something_else_in_the_logs_place_is_left_alone() {
    let (_folder, path) = folder();
    let netto = logged(&path, 3);
    fs::remove_file(&path).expect("removed");
    // A pipe without a reader would hold the writer for good.
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo runs").success());
    netto.wait_for_words("is no regular file; choose another with --log-file");
    fs::remove_file(&path).expect("removed");
    Log::with(&path, 3).assert_complete();
    assert!(netto.terminate().success());
}

/// Bytes: half for the Hello, the rest for some snapshots.
const MAY_GROW_TO: u64 = 40_000;

/// A limit on the length of files stands in for a full disk that needs no root:
/// a write is cut short and the next fails, as on any disk.
#[test]
fn a_log_that_may_not_grow_goes_on_where_it_stopped() {
    let (_folder, path) = folder();
    let limit = format!("--fsize={MAY_GROW_TO}:unlimited");
    let limit = ["prlimit", &limit];
    let mut netto = Logging::under(&limit, &path);
    netto.wait_for_words("File too large");
    assert!(netto.is_alive());
    // No frame is left incomplete.
    Log::with(&path, 1).assert_complete();
    let length = fs::metadata(&path).expect("there").len();
    assert!(length <= MAY_GROW_TO, "{length} bytes");
    let pid = netto.child.id().to_string();
    let raised = Command::new("prlimit")
        .args(["--pid", &pid, "--fsize=unlimited"])
        .status();
    assert!(raised.expect("prlimit runs").success());
    netto.wait_for_words("can be written again");
    let log = Log::with(&path, 60);
    log.assert_complete();
    assert!(log.gaps.is_empty(), "all of them fitted into the queue");
    assert_eq!(
        netto.count_with("File too large"),
        1,
        "one line for the whole time"
    );
    assert!(netto.terminate().success());
}

#[test]
fn a_log_that_could_not_be_ended_is_told_by_the_exit_code() {
    let (_folder, path) = folder();
    let limit = format!("--fsize={MAY_GROW_TO}:unlimited");
    let limit = ["prlimit", &limit];
    let mut netto = Logging::under(&limit, &path);
    netto.wait_for_words("File too large");
    netto.signal("TERM");
    assert_eq!(netto.ended().code(), Some(1));
    netto.wait_for_words("snapshots are not in it");
}

#[test]
fn who_is_stopped_goes_on_with_the_next_snapshot() {
    let (_folder, path) = folder();
    let netto = logged(&path, 3);
    netto.signal("STOP");
    let status = format!("/proc/{}/status", netto.child.id());
    eventually("a stopped netto", || {
        let status = fs::read_to_string(&status).expect("it is there");
        status.contains("State:\tT").then_some(())
    });
    // Many intervals of 50 ms.
    std::thread::sleep(Duration::from_secs(1));
    let before = Log::read(&path).expect("a log");
    before.assert_complete();
    netto.signal("CONT");
    let after = Log::with(&path, before.sequences.len() + 10);
    after.assert_complete();
    assert!(after.sequences.starts_with(&before.sequences));
    assert!(netto.terminate().success());
}

#[test]
fn a_second_netto_learns_which_process_writes_the_log() {
    let (_folder, path) = folder();
    let first = logged(&path, 3);
    let mut second = Logging::to(&path);
    assert_eq!(second.ended().code(), Some(1));
    second.wait_for_words(&format!("being written by process {}", first.child.id()));
    // Its command line, and the remedy.
    second.wait_for_words("demo --cpus 2");
    second.wait_for_words("choose another file with --log-file");
    assert!(first.terminate().success());
    // The lock goes with the process.
    assert!(logged(&path, 3).terminate().success());
}

#[test]
fn the_lock_follows_a_rotation() {
    let (folder, path) = folder();
    let old = folder.path().join("x.log.1");
    let first = logged(&path, 3);
    fs::rename(&path, &old).expect("renamed");
    Log::with(&path, 3);
    let mut second = Logging::to(&path);
    assert_eq!(second.ended().code(), Some(1));
    second.wait_for_words("being written by");
    // A rotated file is not locked.
    assert!(logged(&old, 3).terminate().success());
    assert!(first.terminate().success());
}
