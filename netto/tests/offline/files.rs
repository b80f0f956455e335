//! Logs to try things on, and netto to try them with.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use metrics_common::codec::ServerMessage;
use metrics_common::component::index_of;
use metrics_common::{Info, Snapshot};
use netto_demo::{Demo, Settings};
use netto_log_format::LogBuilder;
use netto_pipeline::trace_analyzer::SnapshotSource;
use serde_json::Value;

/// When made-up logs begin: 2026-05-01T12:00:00Z.
pub const BEGIN_UNIX_NS: u64 = 1_777_636_800_000_000_000;
pub const INTERVAL_NS: u64 = 500_000_000;

/// The made-up host of `netto demo`, but at the clock of the log.
pub fn snapshots(cpus: u32, count: u64) -> (Info, Vec<Snapshot>) {
    snapshots_without(&["owners", "latency"], cpus, count)
}

/// The same, of every feature.
pub fn full_snapshots(cpus: u32, count: u64) -> (Info, Vec<Snapshot>) {
    snapshots_without(&[], cpus, count)
}

/// The same, of all features but these.
fn snapshots_without(
    without: &'static [&'static str],
    cpus: u32,
    count: u64,
) -> (Info, Vec<Snapshot>) {
    let Demo {
        mut info,
        mut source,
        ..
    } = netto_demo::demo(Settings {
        cpus,
        seed: 1,
        period: Duration::from_nanos(INTERVAL_NS),
        frequency_hz: 1_000,
        features: netto::features::FEATURES,
        without,
    });
    info.started_unix_ns = BEGIN_UNIX_NS;
    let snapshots = (1..=count).map(|sequence| Snapshot {
        sequence,
        time_unix_ns: BEGIN_UNIX_NS + sequence * INTERVAL_NS,
        ..source.next_snapshot().expect("it makes one up")
    });
    let snapshots = snapshots.collect();
    (info, snapshots)
}

/// The only place here that knows how a log is written.
pub fn write(path: &Path, info: &Info, snapshots: &[Snapshot]) {
    let mut log = LogBuilder::default();
    let hello = ServerMessage::Hello(Box::new(info.clone()));
    log.push(&hello).expect("it fits");
    for snapshot in snapshots {
        let message = ServerMessage::Snapshot(Box::new(snapshot.clone()));
        log.push(&message).expect("it fits");
    }
    std::fs::write(path, log.finish()).expect("written");
}

/// A folder with a log of this many intervals, and the snapshots in it.
pub fn log(cpus: u32, count: u64) -> (tempfile::TempDir, PathBuf, Vec<Snapshot>) {
    in_a_folder(snapshots(cpus, count))
}

/// The same with every feature.
pub fn full_log(cpus: u32, count: u64) -> (tempfile::TempDir, PathBuf, Vec<Snapshot>) {
    in_a_folder(full_snapshots(cpus, count))
}

fn in_a_folder(
    (info, snapshots): (Info, Vec<Snapshot>),
) -> (tempfile::TempDir, PathBuf, Vec<Snapshot>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("netto.log");
    write(&path, &info, &snapshots);
    (folder, path, snapshots)
}

/// CPU time of a component in all snapshots.
pub fn sum_ns(snapshots: &[Snapshot], slug: &str) -> u64 {
    let row = index_of(slug).expect("a component");
    snapshots.iter().filter_map(|s| s.total_ns(row)).sum()
}

/// Runs netto, without the environment's settings, in UTC.
pub fn netto(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netto"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("NETTO_")) {
        command.env_remove(name);
    }
    command.env("TZ", "UTC").args(arguments);
    command.output().expect("the program runs")
}

/// The standard output of netto, which must succeed.
pub fn stdout_of(arguments: &[&str]) -> String {
    let output = netto(arguments);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

/// A report as JSON.
pub fn report(path: &Path, options: &[&str]) -> Value {
    let mut arguments = vec!["report", text(path), "--format", "json"];
    arguments.extend(options);
    serde_json::from_str(&stdout_of(&arguments)).expect("JSON")
}

/// CPU time of a component in a report, nanoseconds; `None` if it was not measured.
pub fn reported_ns(report: &Value, slug: &str) -> Option<u64> {
    let components = report["components"].as_array().expect("a list");
    let component = components.iter().find(|c| c["component"] == slug);
    component.expect("every component is there")["cpu_ns"].as_u64()
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}
