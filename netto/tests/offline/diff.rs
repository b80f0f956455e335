//! `netto diff` as a gate: its output and exit code.

use metrics_common::component::index_of;
use metrics_common::{COMPONENTS, Snapshot};

use super::files::*;

/// Two logs of a made-up host; in the second, each CPU spends half a per cent more on TC.
fn before_and_after(folder: &std::path::Path) -> [std::path::PathBuf; 2] {
    let (info, before) = snapshots(4, 200);
    let mut after = before.clone();
    for snapshot in &mut after {
        more(
            snapshot,
            &["network", "rx_softirq", "tc_classify"],
            INTERVAL_NS / 200,
        );
    }
    let paths = ["before.log", "after.log"].map(|name| folder.join(name));
    write(&paths[0], &info, &before);
    write(&paths[1], &info, &after);
    paths
}

fn more(snapshot: &mut Snapshot, slugs: &[&str], ns: u64) {
    let cost = snapshot.sections.cost.as_mut().expect("it is measured");
    for slug in slugs {
        let row = index_of(slug).expect("a component");
        for cell in cost.components[row].as_mut().expect("it is measured") {
            *cell += ns;
        }
    }
}

#[test]
fn a_change_is_found_and_ends_with_one_if_that_was_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let [before, after] = before_and_after(folder.path());
    let (a, b) = (text(&before), text(&after));
    let json: serde_json::Value =
        serde_json::from_str(&stdout_of(&["diff", a, b, "--format", "json"])).expect("JSON");
    let changes = json["changes"].as_array().expect("a list");
    assert_eq!(
        changes.len() + json["incomparable"].as_array().expect("a list").len(),
        COMPONENTS.len()
    );
    let tc = changes
        .iter()
        .find(|c| c["component"] == "tc_classify")
        .expect("it is there");
    assert_eq!(tc["is_real"], true, "{tc}");
    assert!((tc["share"]["value"].as_f64().expect("a number") - 0.005).abs() < 1e-6);
    for change in changes {
        let is_one = ["network", "rx_softirq", "tc_classify"]
            .contains(&change["component"].as_str().expect("a name"));
        assert!(is_one || change["is_real"] == false, "{change}");
    }
    let failed = netto(&[
        "diff",
        a,
        b,
        "--fail-if",
        "tc_classify>+0.2pp",
        "--fail-if",
        "gro>+5%",
    ]);
    let error = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(1), "{error}");
    let lines: Vec<&str> = error.lines().collect();
    let [first, last] = lines[..] else {
        panic!("{error}");
    };
    assert!(
        first.starts_with("not met: gro>+5%: GRO changed by"),
        "{error}"
    );
    assert!(last.starts_with("error: tc_classify>+0.2pp: TC"), "{error}");
    for passing in ["tc_classify>+1pp", "tc_classify<-0.2pp", "tx_syscall>+5%"] {
        stdout_of(&["diff", a, b, "--fail-if", passing]);
    }
    // Networking has become dearer, by the packet and by the byte.
    let prices = json["prices"].as_array().expect("a list");
    assert!(!prices.is_empty());
    for price in prices {
        let [was, is] = ["a_ns", "b_ns"].map(|side| price[side].as_f64().expect("a number"));
        let end = |which: usize| price["change_ns"]["interval"][which].as_f64();
        let (low, high) = (end(0).expect("a number"), end(1).expect("a number"));
        assert!(is > was && low < is - was && is - was < high, "{price}");
    }
    let block = stdout_of(&["diff", a, b, "--format", "commit"]);
    assert!(block.contains("RX softirq, ns/packet"), "{block}");
    assert!(
        block
            .lines()
            .all(|line| line.is_ascii() && line.len() <= 72),
        "{block}"
    );
    let table = stdout_of(&["diff", a, b]);
    assert!(
        table.contains("Changed") && table.contains("Within chance"),
        "{table}"
    );
    let page = stdout_of(&["diff", a, b, "--format", "html"]);
    assert!(page.starts_with("<!doctype html>") && page.contains("TC") && !page.contains("http"));
}

#[test]
fn a_log_against_itself_has_not_changed() {
    let (_folder, path, _) = log(2, 100);
    let table = stdout_of(&["diff", text(&path), text(&path), "--fail-if", "network>+0%"]);
    assert!(table.contains("Nothing has changed"), "{table}");
}

#[test]
fn a_large_change_that_may_be_chance_is_inconclusive_and_not_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (info, before) = snapshots(4, 200);
    let mut after = before.clone();
    // A fifth of the time, each CPU spends two thirds more on TC: in two stretches, of which the one has none.
    for (index, snapshot) in after.iter_mut().enumerate() {
        if (150..190).contains(&index) {
            more(
                snapshot,
                &["network", "rx_softirq", "tc_classify"],
                INTERVAL_NS * 2 / 3,
            );
        }
    }
    let paths = ["before.log", "after.log"].map(|name| folder.path().join(name));
    write(&paths[0], &info, &before);
    write(&paths[1], &info, &after);
    let (a, b) = (text(&paths[0]), text(&paths[1]));
    let table = stdout_of(&["diff", a, b]);
    assert!(!table.contains("Nothing has changed"), "{table}");
    let at = table.find("Inconclusive: ").expect("a heading");
    let unsure = table[at..]
        .split("Within chance")
        .next()
        .unwrap_or_default();
    assert!(unsure.contains("TC"), "{table}");
    assert!(stdout_of(&["diff", a, b, "--format", "html"]).contains("<td>inconclusive</td>"));
    let block = stdout_of(&["diff", a, b, "--format", "commit"]);
    assert!(block.contains("Inconclusive: "), "{block}");
}

#[test]
fn spans_of_one_log_can_be_compared() {
    let (_folder, path, _) = log(2, 200);
    let a = format!("{}@..12:00:50", text(&path));
    let b = format!("{}@12:00:50..", text(&path));
    let json: serde_json::Value =
        serde_json::from_str(&stdout_of(&["diff", &a, &b, "--format", "json"])).expect("JSON");
    assert_eq!(
        (
            json["a"]["intervals"].as_u64(),
            json["b"]["intervals"].as_u64()
        ),
        (Some(100), Some(100))
    );
}

#[test]
fn wrong_conditions_are_wrong_usage_and_what_cannot_be_judged_does_not_pass() {
    let (_folder, path, _) = log(2, 20);
    let path = text(&path);
    for (condition, code, word) in [
        ("network", 2, "network>+5%"),
        ("grow>+5%", 2, "netto list"),
        ("network>5", 2, "network>+5%"),
        ("nf_ingress>+5%", 1, "cannot be judged"),
    ] {
        let output = netto(&["diff", path, path, "--fail-if", condition]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{condition}: {error}");
        assert!(error.contains(word), "{condition}: {error}");
    }
    let short = format!("{path}@..12:00:02");
    let output = netto(&["diff", path, &short, "--fail-if", "network>+5%"]);
    assert_eq!(output.status.code(), Some(1));
}
