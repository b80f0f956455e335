//! The catalogue as a whole: names, docs/METRICS.md, and what is shipped in `dist/`.

use std::fmt::Write as _;
use std::path::PathBuf;

use netto_metrics::catalogue::{Family, Kind, Unit};
use netto_metrics::families::families;

use super::{FEATURES, metrics};

mod shipped;

/// Set, the test (not `NETTO_…`, which only options are) writes the table instead of comparing it.
const VARIABLE: &str = "UPDATE_DOCS";
const BEGIN: &str = "<!-- the families -->\n";
const END: &str = "<!-- end -->";

/// Every family that is there without further options.
fn all() -> impl Iterator<Item = &'static Family> {
    families(&metrics(FEATURES), false)
        .collect::<Vec<_>>()
        .into_iter()
}

fn row(family: &Family) -> String {
    let labels: Vec<String> = family.labels.iter().map(|l| format!("`{l}`")).collect();
    let otlp = family.otlp_name().map_or_else(String::new, |name| {
        format!("`{name}` ({})", family.unit.ucum())
    });
    let (name, help) = (family.name, family.help.replace('|', "\\|"));
    let (kind, unit, labels) = (family.kind.slug(), family.unit.words(), labels.join(", "));
    format!("| `{name}` | {kind} | {labels} | {unit} | {otlp} | {help} |")
}

fn table() -> String {
    let mut table =
        "\n| Metric | Type | Labels | Unit | In OTLP | Meaning |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for family in all() {
        // Formatting into a string cannot fail.
        let _ = writeln!(table, "{}", row(family));
    }
    table.push('\n');
    table
}

#[test]
fn the_reference_of_the_metrics_is_up_to_date() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/METRICS.md");
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
fn names_are_well_formed_and_end_in_their_unit() {
    let is_name = |name: &str| {
        let mut bytes = name.bytes();
        bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    for family in all() {
        let name = family.name;
        assert!(name.starts_with("netto_") && is_name(name), "{name}");
        assert!(family.labels.iter().all(|label| is_name(label)), "{name}");
        let is_counter = family.kind == Kind::Counter;
        assert_eq!(is_counter, name.ends_with("_total"), "{name}");
        let stem = name.strip_suffix("_total").unwrap_or(name);
        assert!(stem.ends_with(family.unit.suffix()), "{name}");
        let units = [
            Unit::Seconds,
            Unit::Joules,
            Unit::Bytes,
            Unit::Hertz,
            Unit::Ratio,
            Unit::Info,
        ];
        let of_name = units.into_iter().find(|unit| stem.ends_with(unit.suffix()));
        assert!(
            of_name.is_none() == family.unit.suffix().is_empty(),
            "{name}"
        );
        assert!(family.help.ends_with('.'), "{name}");
        assert!(!family.help.contains(['\\', '\n']), "{name}");
    }
}

#[test]
fn every_name_stands_for_one_family() {
    let otlp = all().filter_map(Family::otlp_name).collect::<Vec<_>>();
    let catalogues = metrics(FEATURES);
    let prometheus = families(&catalogues, true).map(|family| family.name.to_owned());
    for mut names in [prometheus.collect(), otlp] {
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert!(all > 40, "{all}");
    }
}
