//! SIGKILL at random times: snapshots older than five seconds are in the log.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use metrics_common::codec::ServerMessage;
use netto_log_format::LogReader;

use crate::support::until;

/// Longest time that may be lost.
const MAY_BE_LOST_NS: u64 = 5_000_000_000;
/// The same in the run of all tests, on a host that may be busy.
const MAY_BE_LOST_IF_BUSY_NS: u64 = 2 * MAY_BE_LOST_NS;

fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("after 1970").as_nanos() as u64
}

/// The numbers and times of the snapshots in a log; no log is an empty one.
fn logged(path: &Path) -> Vec<(u64, u64)> {
    let Some(mut reader) = File::open(path)
        .ok()
        .and_then(|file| LogReader::new(file).ok())
    else {
        return Vec::new();
    };
    let mut times = Vec::new();
    for message in reader.by_ref() {
        if let ServerMessage::Snapshot(snapshot) = message.expect("it can be read") {
            times.push((snapshot.sequence, snapshot.time_unix_ns));
        }
    }
    assert_eq!(reader.damaged_stretches(), 0);
    times
}

/// Kills a netto so long after its log has begun, and reads the log.
fn kill_after(lived: Duration, path: &Path, may_be_lost_ns: u64) {
    let options = ["demo", "--cpus", "4", "--port", "0", "--user-period", "200"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_netto"))
        .args(options)
        .arg("--log-file")
        .arg(path)
        .stderr(Stdio::null())
        .spawn()
        .expect("netto starts");
    until("the log has begun", || !logged(path).is_empty());
    std::thread::sleep(lived);
    let killed_ns = unix_ns();
    child.kill().expect("it lives");
    child.wait().expect("it ends");
    let times = logged(path);
    let is_complete = times.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1);
    assert!(is_complete, "killed after {lived:?}: {times:?}");
    let lost_ns = killed_ns.saturating_sub(times.last().expect("it was not empty").1);
    assert!(
        lost_ns <= may_be_lost_ns,
        "{lost_ns} ns lost, killed after {lived:?}"
    );
}

/// Some at a time, at moments that differ from run to run.
fn kills(count: u64, at_a_time: u64, may_be_lost_ns: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    for round in 0..count.div_ceil(at_a_time) {
        std::thread::scope(|scope| {
            for number in round * at_a_time..count.min((round + 1) * at_a_time) {
                let path = folder.path().join(format!("{number}.log"));
                let lived = (unix_ns() / 1000 + number * 7_919) % 7_000;
                let lived = Duration::from_millis(lived);
                scope.spawn(move || kill_after(lived, &path, may_be_lost_ns));
            }
        });
    }
}

#[test]
fn whenever_it_is_killed_what_is_older_than_five_seconds_is_in_the_log() {
    kills(4, 2, MAY_BE_LOST_IF_BUSY_NS);
}

#[test]
#[ignore = "takes five minutes; `cargo test -p netto --test sinks -- --ignored a_hundred_kills`"]
fn a_hundred_kills_cost_five_seconds_each() {
    kills(100, 4, MAY_BE_LOST_NS);
}
