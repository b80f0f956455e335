//! Damaged logs: all readable data is reported, and so are the problems.

use std::fs;
use std::io::Cursor;
use std::process::Output;

use netto_log_format::LogIndex;

use super::files::*;

fn words(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn a_cut_log_is_reported_up_to_the_cut() {
    let (_folder, path, snapshots) = log(2, 60);
    let bytes = fs::read(&path).expect("read");
    let index = LogIndex::of(&mut Cursor::new(&bytes)).expect("a log");
    let mut blocks = index.parts().iter().filter(|part| !part.is_digest());
    let last = blocks.next_back().expect("a block");
    let lost = usize::from(last.messages.expect("it is known"));
    fs::write(&path, &bytes[..last.offset as usize + 100]).expect("written");
    let report = report(&path, &[]);
    assert_eq!(report["covered"]["intervals"], 60 - lost);
    assert_eq!(
        reported_ns(&report, "gro"),
        Some(sum_ns(&snapshots[..60 - lost], "gro"))
    );
    assert_eq!(report["files"]["cut_files"], 1);
    let table = stdout_of(&["report", text(&path)]);
    assert!(
        table.contains("1 file ends in the middle of a block"),
        "{table}"
    );
}

#[test]
fn any_damage_gives_a_report_or_a_reason_and_never_a_panic() {
    let (_folder, path, _) = log(2, 30);
    let whole = fs::read(&path).expect("read");
    let mut state = 7_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    for round in 0..12 {
        let mut bytes = whole.clone();
        for _ in 0..=random(20) {
            let at = random(bytes.len());
            match round % 3 {
                0 => bytes[at] ^= 1 << random(8),
                1 => bytes[at..].iter_mut().take(200).for_each(|byte| *byte = 0),
                _ => bytes.truncate(at.max(20)),
            }
        }
        fs::write(&path, &bytes).expect("written");
        for format in ["table", "csv"] {
            let (code, stdout, error) = words(&netto(&["report", text(&path), "--format", format]));
            assert!(matches!(code, Some(0 | 1)), "{code:?}: {error}");
            assert!(code == Some(1) || !stdout.is_empty());
            assert!(code == Some(0) || error.starts_with("error: "), "{error}");
        }
    }
}

#[test]
fn a_log_without_a_report_gives_one_line_of_reason() {
    let (folder, path, _) = log(2, 10);
    let foreign = folder.path().join("foreign");
    fs::write(&foreign, "no log at all, but long enough to be one").expect("written");
    let empty = folder.path().join("empty");
    fs::write(&empty, "").expect("written");
    let there = text(&path);
    for (arguments, code, word) in [
        (vec!["report", text(&foreign)], 1, "no log of netto's"),
        (vec!["report", text(&empty)], 1, "is empty"),
        (
            vec!["report", "/nonexistent"],
            1,
            "/nonexistent cannot be opened: No such file",
        ),
        (vec!["report", there, "--from", "13:00"], 1, "no interval"),
        (vec!["report", there, "--cpus", "7"], 1, "no interval"),
        (
            vec![
                "report",
                there,
                "--from",
                "2026-05-01T13:00",
                "--to",
                "2026-05-01T12:00",
            ],
            2,
            "before it begins",
        ),
        (
            vec!["report", there, "--last", "5m", "--from", "12:00"],
            2,
            "--last",
        ),
        (
            vec!["report", there, "--component", "grow"],
            2,
            "netto list",
        ),
        (vec!["report", there, "--format", "xml"], 2, "xml"),
        (vec!["report"], 2, "LOG"),
        (
            vec!["report", there, "--output", "/nonexistent/x"],
            1,
            "cannot write",
        ),
    ] {
        let (found, stdout, error) = words(&netto(&arguments));
        assert_eq!(found, Some(code), "{arguments:?}: {error}");
        assert!(
            error.starts_with("error: ") && error.contains(word),
            "{arguments:?}: {error}"
        );
        assert!(error.lines().count() <= 2 && stdout.is_empty(), "{error}");
    }
}

#[test]
fn a_reader_that_closes_the_pipe_early_is_no_error() {
    let (_folder, path, _) = log(4, 300);
    let script = format!(
        "{{ {} report {} --format csv; echo ended $? >&2; }} | head -n 1",
        env!("CARGO_BIN_EXE_netto"),
        text(&path)
    );
    let mut shell = std::process::Command::new("sh");
    let (_, stdout, error) = words(&shell.args(["-c", &script]).output().expect("sh runs"));
    assert_eq!(stdout.lines().count(), 1);
    assert_eq!(error, "ended 0\n");
}
