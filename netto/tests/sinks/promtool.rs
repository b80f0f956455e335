//! Prometheus' own tool checks netto's metrics and the shipped rules.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::support::*;

/// Runs the tool with this input; `None` if it is not installed, which is printed.
fn promtool(arguments: &[&str], input: Stdio) -> Option<Output> {
    let output = Command::new("promtool")
        .args(arguments)
        .stdin(input)
        .output();
    match output {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let is_ci = std::env::var("CI").is_ok_and(|ci| ci == "true" || ci == "1");
            assert!(
                !is_ci,
                "promtool is not installed, and CI=true allows no skipping"
            );
            eprintln!("SKIPPED: promtool is not installed");
            None
        }
        Err(error) => panic!("promtool cannot be run: {error}"),
    }
}

fn printed(output: &Output) -> String {
    let printed = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&printed).into_owned()
}

fn shipped(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../dist/prometheus");
    folder.join(name).display().to_string()
}

#[test]
fn promtool_has_nothing_to_say() {
    let daemon = Daemon::start(&config(), endless());
    daemon.counted();
    let answer = get(daemon.address, "/metrics", &[]);
    assert!(
        answer.head.contains("text/plain; version=0.0.4"),
        "{}",
        answer.head
    );
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("metrics");
    std::fs::write(&file, &answer.body).expect("a file");
    let input = std::fs::File::open(&file).expect("the file");
    if let Some(output) = promtool(&["check", "metrics"], input.into()) {
        let printed = printed(&output);
        assert!(output.status.success() && printed.is_empty(), "{printed}");
    }
}

#[test]
fn the_shipped_rules_are_understood() {
    for arguments in [
        ["check", "rules", &shipped("netto.rules.yml")],
        ["check", "rules", &shipped("netto-fleet.rules.yml")],
        ["check", "config", &shipped("prometheus.yml")],
    ] {
        if let Some(output) = promtool(&arguments, Stdio::null()) {
            let printed = printed(&output);
            assert!(output.status.success(), "{printed}");
            assert!(!printed.contains("FAILED"), "{printed}");
        }
    }
}

#[test]
fn the_shipped_rules_record_and_alert_what_they_must_and_nothing_else() {
    let (hosts, fleet) = ("netto.rules.test.yml", "netto-fleet.rules.test.yml");
    let arguments = ["test", "rules", &shipped(hosts), &shipped(fleet)];
    if let Some(output) = promtool(&arguments, Stdio::null()) {
        assert!(output.status.success(), "{}", printed(&output));
    }
}

#[test]
fn every_shipped_alert_says_what_it_means_and_what_to_do_and_has_a_test() {
    let read = |name: &str| std::fs::read_to_string(shipped(name)).expect("a shipped file");
    let rules: serde_yaml_ng::Value =
        serde_yaml_ng::from_str(&read("netto.rules.yml")).expect("YAML");
    let tests: serde_yaml_ng::Value =
        serde_yaml_ng::from_str(&read("netto.rules.test.yml")).expect("YAML");
    let list = |value: &serde_yaml_ng::Value| value.as_sequence().cloned().unwrap_or_default();
    let tested: Vec<_> = list(&tests["tests"])
        .iter()
        .flat_map(|test| list(&test["alert_rule_test"]))
        .filter(|case| !list(&case["exp_alerts"]).is_empty())
        .map(|case| case["alertname"].clone())
        .collect();
    let mut alerts = 0;
    for rule in list(&rules["groups"])
        .iter()
        .flat_map(|group| list(&group["rules"]))
    {
        let name = &rule["alert"];
        if name.is_null() {
            continue;
        }
        alerts += 1;
        for annotation in ["summary", "description", "action"] {
            let text = rule["annotations"][annotation].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{name:?} has no {annotation}");
        }
        assert!(rule["labels"]["severity"].is_string(), "{name:?}");
        assert!(tested.contains(name), "nothing tests that {name:?} fires");
    }
    assert!(alerts >= 6, "{alerts} alerts");
}
