//! What is shipped for Prometheus and Grafana, in `dist/`, against what netto exports: rules and
//! board name only metrics, labels' values and variables that there are. That the queries work is
//! shown on a real Prometheus, in `tests/root/prometheus.rs`.

use std::collections::BTreeSet;

use metrics_common::component::index_of;
use metrics_common::{CpuModes, OwnPart};
use serde_json::Value;

use super::all;
use netto_metrics::catalogue::Kind;
use netto_pipeline::metrics_collector::Sink;

const BOARD: &str = include_str!("../../../../dist/grafana/netto.json");
const FLEET_BOARD: &str = include_str!("../../../../dist/grafana/netto-fleet.json");
const RULES: &str = include_str!("../../../../dist/prometheus/netto.rules.yml");
const RULES_TEST: &str = include_str!("../../../../dist/prometheus/netto.rules.test.yml");
const FLEET_RULES: &str = include_str!("../../../../dist/prometheus/netto-fleet.rules.yml");
const FLEET_RULES_TEST: &str =
    include_str!("../../../../dist/prometheus/netto-fleet.rules.test.yml");

/// The board of hosts.
fn board() -> Value {
    serde_json::from_str(BOARD).unwrap()
}

/// That one, and the board of all hosts together.
fn boards() -> [Value; 2] {
    [board(), serde_json::from_str(FLEET_BOARD).unwrap()]
}

fn panels(board: &Value) -> &[Value] {
    board["panels"].as_array().unwrap()
}

/// Every query of the board, of panels and of variables.
fn queries(board: &Value) -> Vec<&str> {
    let of_panels = panels(board)
        .iter()
        .filter_map(|panel| panel["targets"].as_array())
        .flatten()
        .map(|target| target["expr"].as_str().unwrap());
    let variables = board["templating"]["list"].as_array().unwrap().iter();
    let of_variables = variables.filter_map(|variable| variable["query"]["query"].as_str());
    of_panels.chain(of_variables).collect()
}

/// The words of a text that begin like a metric of netto. What rules record has a level before it.
fn metrics_named(text: &str) -> BTreeSet<&str> {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    text.split(|c| !is_of_word(c))
        .filter(|word| word.starts_with("netto_"))
        .collect()
}

/// What rules record or read, by the words of a text.
fn recorded_named(text: &str) -> BTreeSet<&str> {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    text.split(|c| !is_of_word(c))
        .filter(|word| word.contains(":netto_"))
        .collect()
}

/// What a text compares a label with, taken apart at `|`; variables are left out.
fn values_of<'a>(text: &'a str, label: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices(label) {
        let is_whole = !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let rest = text[at + label.len()..].trim_start_matches(['=', '~', '!']);
        let is_compared = rest.len() < text.len() - at - label.len();
        if let Some(quoted) = rest.strip_prefix('"').filter(|_| is_whole && is_compared) {
            let values = quoted.split('"').next().unwrap_or_default().split('|');
            found.extend(values.filter(|value| !value.starts_with('$')));
        }
    }
    found
}

/// The histogram of which this is a series.
fn histogram_of(name: &str) -> &str {
    let of = |ending| name.strip_suffix(ending);
    let found = ["_bucket", "_sum", "_count"].into_iter().find_map(of);
    let is_one =
        |base: &&str| all().any(|family| family.name == *base && family.kind == Kind::Histogram);
    found.filter(is_one).unwrap_or(name)
}

fn check_names(whose: &str, text: &str) {
    let exported: BTreeSet<&str> = all().map(|family| family.name).collect();
    for name in metrics_named(text) {
        assert!(
            exported.contains(name) || exported.contains(histogram_of(name)),
            "{whose} names {name}, which is no metric"
        );
    }
    for label in ["event", "component", "parent"] {
        for value in values_of(text, label) {
            assert!(
                index_of(value).is_some(),
                "{whose}: there is no {label} {value}"
            );
        }
    }
    for mode in values_of(text, "mode") {
        assert!(CpuModes::NAMES.contains(&mode), "{whose}: no mode {mode}");
    }
    for part in values_of(text, "part") {
        let is_one = OwnPart::ALL.iter().any(|own_part| own_part.slug() == part);
        assert!(is_one, "{whose}: no part {part}");
    }
    for slug in values_of(text, "sink") {
        let is_one = Sink::ALL.iter().any(|sink| sink.slug() == slug);
        assert!(is_one, "{whose}: no sink {slug}");
    }
}

#[test]
fn names_and_values_are_found_in_a_query() {
    let query =
        r#"a:netto_x:rate5m / netto_b_total{my_event="no",event=~"u|$v|w"} + netto_c{event!="x"}"#;
    assert_eq!(metrics_named(query), ["netto_b_total", "netto_c"].into());
    assert_eq!(values_of(query, "event"), ["u", "w", "x"].into());
    assert_eq!(
        values_of(r#"label_replace(x, "event", "$1")"#, "event"),
        [].into()
    );
}

#[test]
fn the_board_names_only_what_is_exported() {
    for board in boards() {
        let queries = queries(&board);
        assert!(queries.len() > 20, "{} queries", queries.len());
        for query in queries {
            check_names("the board", query);
        }
    }
}

#[test]
fn rules_and_their_test_name_only_what_is_exported() {
    assert!(metrics_named(RULES).len() > 8);
    check_names("netto.rules.yml", RULES);
    check_names("netto.rules.test.yml", RULES_TEST);
    check_names("netto-fleet.rules.yml", FLEET_RULES);
    check_names("netto-fleet.rules.test.yml", FLEET_RULES_TEST);
}

#[test]
fn what_the_fleet_reads_of_rules_is_recorded() {
    let lines = RULES.lines().chain(FLEET_RULES.lines());
    let recorded: BTreeSet<&str> = lines
        .filter_map(|line| line.trim().strip_prefix("- record: "))
        .collect();
    let comments = |line: &&str| !line.trim_start().starts_with('#');
    let rules: Vec<&str> = FLEET_RULES.lines().filter(comments).collect();
    for text in [&rules.join("\n"), FLEET_RULES_TEST, FLEET_BOARD] {
        let named = recorded_named(text);
        assert!(named.len() > 10, "{named:?}");
        let unknown: Vec<_> = named.difference(&recorded).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}

#[test]
fn no_metric_is_left_out_of_the_board() {
    let board = board();
    let text = queries(&board).join("\n");
    let named: BTreeSet<&str> = metrics_named(&text).into_iter().map(histogram_of).collect();
    for name in all().map(|family| family.name) {
        assert!(named.contains(name), "no panel shows {name}");
    }
}

#[test]
fn components_come_from_labels_and_from_no_list() {
    for board in boards() {
        for query in queries(&board) {
            assert_eq!(values_of(query, "component"), [].into(), "{query}");
        }
    }
}

#[test]
fn rates_follow_the_scrape_interval_and_the_range_shown() {
    let boards = boards();
    for query in boards.iter().flat_map(queries) {
        for window in query.split('[').skip(1) {
            let window = window.split(']').next().unwrap_or_default();
            assert!(
                ["$__rate_interval", "$__range"].contains(&window),
                "{query}"
            );
        }
    }
}

#[test]
fn every_panel_says_what_it_shows_in_which_unit_from_the_chosen_source() {
    let boards = boards();
    let all = boards.iter().flat_map(panels);
    for panel in all.filter(|panel| panel["type"] != "row") {
        let title = &panel["title"];
        assert!(!title.as_str().unwrap().is_empty());
        assert!(
            !panel["description"].as_str().unwrap().is_empty(),
            "{title}"
        );
        let unit = panel["fieldConfig"]["defaults"]["unit"].as_str();
        assert!(unit.is_some_and(|unit| !unit.is_empty()), "{title}");
        let targets = panel["targets"].as_array().unwrap();
        let mut names: Vec<_> = targets
            .iter()
            .map(|t| t["refId"].as_str().unwrap())
            .collect();
        names.dedup();
        assert_eq!(names.len(), targets.len(), "{title}");
        for source in targets.iter().chain([panel]) {
            assert_eq!(source["datasource"]["uid"], "${datasource}", "{title}");
        }
    }
}

#[test]
fn panels_lie_side_by_side_and_have_numbers_of_their_own() {
    for board in boards() {
        let mut taken = BTreeSet::new();
        let mut ids = BTreeSet::new();
        for panel in panels(&board) {
            assert!(
                ids.insert(panel["id"].as_u64().unwrap()),
                "{}",
                panel["title"]
            );
            let of = |key: &str| panel["gridPos"][key].as_u64().unwrap();
            assert!(of("x") + of("w") <= 24, "{}", panel["title"]);
            for x in of("x")..of("x") + of("w") {
                for y in of("y")..of("y") + of("h") {
                    assert!(taken.insert((x, y)), "{} lies on another", panel["title"]);
                }
            }
        }
    }
}

#[test]
fn variables_are_those_that_are_declared() {
    let of_hosts = ["datasource", "cluster", "job", "instance", "host", "event"];
    for (board, expected) in boards().iter().zip([&of_hosts[..], &of_hosts[..3]]) {
        let list = board["templating"]["list"].as_array().unwrap();
        let declared: Vec<&str> = list.iter().map(|v| v["name"].as_str().unwrap()).collect();
        assert_eq!(declared, expected);
        let titles = panels(board).iter().map(|p| p["title"].as_str().unwrap());
        for text in queries(board).into_iter().chain(titles) {
            for word in text.split('$').skip(1) {
                let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let name = word.split(|c| !is_of_name(c)).next().unwrap_or_default();
                let is_known = declared.contains(&name)
                || ["__rate_interval", "__range"].contains(&name)
                // The group of a label_replace.
                || name == "1";
                assert!(is_known, "${name} in {text}");
            }
        }
    }
}
