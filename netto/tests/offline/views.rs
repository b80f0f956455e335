//! Views of features on a log, such as `netto advise LOG`.

use std::path::{Path, PathBuf};
use std::process::Command;

use netto_judges::advice::fixture;
use serde_json::Value;

use crate::files::{
    BEGIN_UNIX_NS, full_log, log, netto, report, snapshots, stdout_of, text, write,
};

/// A log of 20 s in which CPUs poll in vain, and of 20 s without, 100 s later.
fn unusual() -> (tempfile::TempDir, PathBuf) {
    let (mut info, mut all) = snapshots(4, 80);
    info.hostname = "evil\u{1b}[2J".to_owned();
    for snapshot in &mut all {
        match snapshot.sequence {
            // 0.4 s of each half a second.
            ..=40 => fixture::busy(snapshot, "busy_poll_spin", 1, 0.04),
            _ => snapshot.time_unix_ns += 100_000_000_000,
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("netto.log");
    write(&path, &info, &all);
    (folder, path)
}

#[test]
fn advice_on_a_log_is_whole_of_the_span_that_is_asked_for_and_as_in_its_report() {
    let (_folder, path) = unusual();
    let whole = stdout_of(&["advise", text(&path)]);
    for part in [
        "2026-05-01 12:00:00 to 2026-05-01 12:02:20, 40.0 s measured\nnetto advise · evil\u{fffd}[2J\n\n",
        "\nCPUs poll and find nothing\n  polls for nothing take 10.2 % of this host: Busy poll, spinning 10.0 %",
        "\n  try   sysctl -w net.core.busy_poll=0 net.core.busy_read=0\n  try   ps ",
        "\n  gain  at most 10.2 % of this host: these, and busy polls in drivers, ",
        "\n  see   docs/ADVICE.md#spinning\n",
    ] {
        assert!(whole.contains(part), "{part}: {whole}");
    }
    assert!(!whole.contains('\u{1b}'), "{whole}");
    let last = stdout_of(&["advise", text(&path), "--last", "20s"]);
    assert!(!last.contains("#spinning\n"), "{last}");

    let part = format!("{}@2026-05-01T12:02:00Z..", text(&path));
    let of_part = stdout_of(&["advise", &part]);
    assert_eq!(of_part, last, "the log ends at 12:02:20");

    let json: Value =
        serde_json::from_str(&stdout_of(&["advise", text(&path), "--json"])).expect("JSON");
    assert_eq!(json["advice"], report(&path, &[])["advice"]);
    let rules = json["advice"].as_array().expect("a list");
    assert!(
        rules.iter().any(|advice| advice["rule"] == "spinning"),
        "{json}"
    );
    let begin = BEGIN_UNIX_NS as f64 / 1e9;
    assert_eq!(json["begin_unix_seconds"], begin);
    assert_eq!(json["end_unix_seconds"], begin + 140.0);
    assert_eq!(json["measured_seconds"], 40.0);
    assert_eq!(json["intervals"], 80);
    assert_eq!(
        report(Path::new(&part), &[])["advice"],
        report(&path, &["--last", "20s"])["advice"]
    );
    let twice = netto(&["report", &part, "--last", "5s"]);
    let error = String::from_utf8_lossy(&twice.stderr).into_owned();
    assert_eq!(twice.status.code(), Some(2), "{error}");
    assert!(error.contains("--last"), "{error}");
}

#[test]
fn each_view_shows_a_log_by_digests_too_and_says_what_the_log_lacks() {
    let (_folder, path, _) = full_log(2, 700);
    for (view, title) in [
        ("latency", "netto latency · "),
        ("programs", "BPF program  "),
        ("slowest", "slowest softirqs "),
        ("advise", "netto advise · "),
    ] {
        let shown = stdout_of(&[view, text(&path)]);
        assert!(shown.starts_with("2026-05-01 12:00:00 to 2026-05-01 12:05:50, 350.0 s"));
        assert!(shown.contains(title), "{shown}");
    }
    let json: Value =
        serde_json::from_str(&stdout_of(&["latency", text(&path), "--json"])).expect("JSON");
    assert_eq!(json["span"]["intervals"], 700);
    assert_eq!(json["span"]["measured_seconds"], 350.0);

    let (_folder, path, _) = log(2, 10);
    let output = netto(&["latency", text(&path)]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.starts_with("error: latency is not measured there: "),
        "{error}"
    );
    let output = netto(&["advise", text(&path), "--from", "13:00"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("no interval of these logs"), "{error}");
}

#[test]
fn a_log_is_about_no_host_and_no_daemon() {
    let (_folder, path, _) = log(2, 10);
    let output = Command::new(env!("CARGO_BIN_EXE_netto"))
        .args(["advise", text(&path)])
        .env("NETTO_CONNECT", "http://127.0.0.1:1")
        .env("NETTO_CONFIG", "/nonexistent.toml")
        .output()
        .expect("the program runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
}
