//! Sampled stacks out of logs: for other programs' flame graphs, and drawn in a comparison.

use metrics_common::codec::{ServerMessage, Stacks};
use netto_log_format::LogBuilder;

use super::files::*;

/// A log of so many minutes, with the stacks of each.
fn log_of_stacks(path: &std::path::Path, minutes: u64, folded: &str) {
    let per_minute = 60_000_000_000 / INTERVAL_NS;
    let (info, snapshots) = snapshots(2, minutes * per_minute);
    let mut log = LogBuilder::default();
    let mut push = |message| {
        log.push(&message).expect("it fits");
    };
    push(ServerMessage::Hello(Box::new(info)));
    for snapshot in snapshots {
        let is_minute = snapshot.sequence % per_minute == 0;
        let time_unix_ns = snapshot.time_unix_ns;
        push(ServerMessage::Snapshot(Box::new(snapshot)));
        if is_minute {
            push(ServerMessage::Stacks(Box::new(Stacks {
                time_unix_ns,
                window_ns: 60_000_000_000,
                samples: 0,
                left_out: 0,
                folded: folded.to_owned(),
            })));
        }
    }
    std::fs::write(path, log.finish()).expect("written");
}

const BEFORE: &str = "rx_softirq;net_rx_action;ip_rcv 300\nrx_softirq;net_rx_action;old 50\n";
const AFTER: &str = "rx_softirq;net_rx_action;</title><script>\x1b[2J 40\n\
                     rx_softirq;net_rx_action;ip_rcv 600\n";

fn before_and_after() -> (tempfile::TempDir, [String; 2]) {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = ["before.log", "after.log"].map(|name| folder.path().join(name));
    log_of_stacks(&paths[0], 4, BEFORE);
    log_of_stacks(&paths[1], 2, AFTER);
    let paths = paths.map(|path| text(&path).to_owned());
    (folder, paths)
}

#[test]
fn two_logs_become_lines_with_the_samples_of_both_in_the_same_time() {
    let (_folder, [a, b]) = before_and_after();
    let lines = stdout_of(&["diff", &a, &b, "--format", "folded"]);
    assert_eq!(
        lines,
        "rx_softirq;net_rx_action;</title><script>\u{fffd}[2J 0 160\n\
         rx_softirq;net_rx_action;ip_rcv 1200 2400\n\
         rx_softirq;net_rx_action;old 200 0\n"
    );
}

#[test]
fn a_log_becomes_a_profile_and_what_it_cannot_be_is_refused() {
    let (folder, [a, _]) = before_and_after();
    let profile = folder.path().join("netto.pb.gz");
    let output = text(&profile);
    stdout_of(&["report", &a, "--format", "pprof", "--output", output]);
    let packed = std::fs::read(&profile).expect("a file");
    assert!(packed.starts_with(&[0x1f, 0x8b]), "gzip");
    let refused = netto(&["report", &a, "--format", "pprof", "--cpus", "0"]);
    assert_eq!(refused.status.code(), Some(2));
    let (_folder, plain, _) = log(1, 3);
    let none = netto(&["report", text(&plain), "--format", "pprof"]);
    let error = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(error.contains("--log-stacks"), "{error}");
}

#[test]
fn a_page_has_a_flame_graph_with_both_figures_of_each_function_and_no_name_breaks_it() {
    let (_folder, [a, b]) = before_and_after();
    let page = stdout_of(&["diff", &a, &b, "--format", "html"]);
    for part in [
        "ip_rcv: 1\u{202f}200 samples in A, 2\u{202f}400 in B (+100.0 %)",
        "old: 200 samples in A, 0 in B (-100.0 %)",
        "&lt;/title&gt;&lt;script&gt;\u{fffd}[2J: 0 samples in A, 160 in B (new)",
        "those of B are multiplied by 2.00",
        "fill=\"rgb(255,",
        "fill=\"rgb(120,120,255)\"",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(!page.contains("<script") && !page.contains('\x1b'));
    assert_eq!(page.matches("<g>").count(), page.matches("</g>").count());
}

#[test]
fn a_log_without_stacks_is_said_in_one_line_and_the_rest_of_the_page_is_there() {
    let (folder, [a, _]) = before_and_after();
    let (info, few) = snapshots(2, 20);
    let without = folder.path().join("without.log");
    write(&without, &info, &few);
    let without = text(&without);
    let output = netto(&["diff", &a, without, "--format", "folded"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(
        error.contains(without) && error.contains("--log-stacks"),
        "{error}"
    );
    let page = stdout_of(&["diff", &a, without, "--format", "html"]);
    assert!(page.contains("--log-stacks") && page.contains("</table>"));
    let output = netto(&["report", without, "--format", "folded"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("--log-stacks"), "{error}");
}

#[test]
fn a_report_has_the_stacks_that_lie_in_its_span_as_a_whole() {
    let (_folder, [a, _]) = before_and_after();
    let all = stdout_of(&["report", &a, "--format", "folded"]);
    assert!(all.contains("ip_rcv 1200\n"), "{all}");
    let from = ["report", &a, "--format", "folded", "--from", "12:00:30"];
    let three = stdout_of(&from);
    assert!(three.contains("ip_rcv 900\n"), "{three}");
    let twice = stdout_of(&["report", &a, &a, "--format", "folded"]);
    assert_eq!(twice, all, "what two files hold counts once");
    for option in [["--component", "gro"], ["--cpus", "0"]] {
        let output = netto(&[["report", &a, "--format", "folded"].as_slice(), &option].concat());
        assert_eq!(output.status.code(), Some(2));
    }
}
