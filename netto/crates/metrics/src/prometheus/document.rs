//! docs/METRICS.md: its table is written from the families, and a test says when it is out of date.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::families;
use super::family::Family;

/// Set, the test (not `NETTO_…`, which only options are) writes the table instead of comparing it.
const VARIABLE: &str = "UPDATE_DOCS";
const BEGIN: &str = "<!-- the families -->\n";
const END: &str = "<!-- end -->";

/// The unit of a family's values, which its name has, for people.
fn unit(name: &str) -> &'static str {
    let name = name.strip_suffix("_total").unwrap_or(name);
    for (ending, unit) in [
        ("_timestamp_seconds", "seconds since 1970"),
        ("_seconds", "seconds"),
        ("_joules", "joules"),
        ("_bytes", "bytes"),
        ("_hertz", "hertz"),
        ("_ratio", "0 to 1"),
        ("_info", "1"),
        ("_attached", "0 or 1"),
    ] {
        if name.ends_with(ending) {
            return unit;
        }
    }
    "count"
}

fn row<S>(table: &mut String, family: &Family<S>) {
    let kind = family.kind();
    let labels: Vec<String> = family.labels.iter().map(|l| format!("`{l}`")).collect();
    let (name, help) = (family.name, family.help.replace('|', "\\|"));
    let (labels, unit) = (labels.join(", "), unit(name));
    // Formatting into a string cannot fail.
    let _ = writeln!(table, "| `{name}` | {kind} | {labels} | {unit} | {help} |");
}

fn table() -> String {
    let mut table =
        "\n| Metric | Type | Labels | Unit | Meaning |\n|---|---|---|---|---|\n".to_owned();
    families::of_sections().for_each(|family| row(&mut table, family));
    families::ABOUT
        .iter()
        .for_each(|family| row(&mut table, family));
    table.push('\n');
    table
}

#[test]
fn the_reference_of_the_metrics_is_up_to_date() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../docs/METRICS.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let start = text.find(BEGIN).expect("a mark before the table") + BEGIN.len();
    let length = text[start..].find(END).expect("a mark after the table");
    let (before, rest) = text.split_at(start);
    let (found, after) = rest.split_at(length);
    let expected = table();
    if std::env::var_os(VARIABLE).is_some() {
        std::fs::write(&path, format!("{before}{expected}{after}")).unwrap();
        return;
    }
    assert!(
        found == expected,
        "docs/METRICS.md is out of date; to write it anew: \
         {VARIABLE}=1 cargo test -p netto --lib the_reference_of_the_metrics"
    );
}

#[test]
fn units_are_those_of_the_names() {
    for (name, expected) in [
        ("netto_cpu_seconds_total", "seconds"),
        (
            "netto_last_snapshot_timestamp_seconds",
            "seconds since 1970",
        ),
        ("netto_samples_total", "count"),
        ("netto_sampling_hertz", "hertz"),
    ] {
        assert_eq!(unit(name), expected);
    }
}
