//! Output for other programs: CSV, Parquet by DuckDB and Polars, JSON, a picture.

use std::collections::BTreeMap;
use std::process::Command;

use metrics_common::{COMPONENTS, Snapshot};
use serde_json::Value;

use super::files::*;
#[cfg(feature = "parquet")]
use super::python::python;

/// Sums by component: CPU time, samples and entries.
type Sums = BTreeMap<String, (u64, u64, u64)>;

fn expected(snapshots: &[Snapshot]) -> (u64, Sums) {
    let mut rows = 0;
    let mut sums = Sums::new();
    for snapshot in snapshots {
        let cost = snapshot.cost();
        for (row, component) in COMPONENTS.iter().enumerate() {
            let Some(ns) = cost.cpu_ns(row) else { continue };
            rows += ns.len() as u64;
            let sum = sums.entry(component.slug.to_owned()).or_default();
            sum.0 += ns.iter().sum::<u64>();
            sum.1 += cost
                .samples_of(row)
                .map_or(0, |row| row.iter().map(|n| u64::from(*n)).sum());
            sum.2 += cost.entries_of(row).map_or(0, |row| row.iter().sum());
        }
    }
    (rows, sums)
}

#[test]
fn text_with_commas_has_a_row_for_each_interval_cpu_and_component() {
    let (_folder, path, snapshots) = log(3, 20);
    let csv = stdout_of(&["report", text(&path), "--format", "csv"]);
    let (comments, rows): (Vec<&str>, Vec<&str>) =
        csv.lines().partition(|line| line.starts_with('#'));
    assert!(comments.contains(&"# host: demo-3"), "{comments:?}");
    assert!(comments.contains(&"# kernel: 6.18.0-demo"), "{comments:?}");
    assert_eq!(
        rows[0],
        "time,interval_ns,cpu,component,parent,cpu_ns,samples,entries"
    );
    assert!(
        rows[1].starts_with("2026-05-01T12:00:00.500000000Z,500000000,0,network,,"),
        "{}",
        rows[1]
    );
    let mut sums = Sums::new();
    for row in &rows[1..] {
        let fields: Vec<&str> = row.split(',').collect();
        let number = |field: &str| field.parse::<u64>().unwrap_or(0);
        let sum = sums.entry(fields[3].to_owned()).or_default();
        sum.0 += number(fields[5]);
        sum.1 += number(fields[6]);
        sum.2 += number(fields[7]);
    }
    assert_eq!((rows.len() as u64 - 1, sums), expected(&snapshots));
}

/// Asks both for the schema, the number of rows and the sums.
const ASK: &str = r#"
import json, sys
import duckdb, polars
path = sys.argv[1]
duck = duckdb.connect()
columns = duck.execute("select column_name, column_type from (describe select * from read_parquet(?))", [path]).fetchall()
sums = duck.execute("""select component, sum(cpu_ns)::ubigint, coalesce(sum(samples), 0)::ubigint,
    coalesce(sum(entries), 0)::ubigint from read_parquet(?) group by component""", [path]).fetchall()
rows, begin, end = duck.execute("select count(*), min(epoch_ns(time)), max(epoch_ns(time)) from read_parquet(?)", [path]).fetchone()
meta = {k.decode(): v.decode() for k, v in duck.execute("select key, value from parquet_kv_metadata(?)", [path]).fetchall()}
absent = duck.execute("select count(*) from read_parquet(?) where samples is null", [path]).fetchone()[0]
frame = polars.read_parquet(path)
grouped = frame.group_by("component").agg(polars.col("cpu_ns", "samples", "entries").sum())
print(json.dumps({
    "columns": columns, "rows": rows, "begin": begin, "end": end, "meta": meta, "absent": absent,
    "duckdb": {c: [a, b, d] for c, a, b, d in sums},
    "polars": {c: [a, b, d] for c, a, b, d in grouped.rows()},
    "polars_rows": frame.height,
    "polars_types": {name: str(kind) for name, kind in frame.schema.items()},
}))
"#;

#[cfg(feature = "parquet")]
#[test]
fn duckdb_and_polars_read_the_same_sums_from_a_parquet_file() {
    let Some(python) = python() else {
        return;
    };
    // More rows than a group of the file has.
    let (folder, path, snapshots) = log(8, 300);
    let parquet = folder.path().join("netto.parquet");
    stdout_of(&[
        "report",
        text(&path),
        "--format",
        "parquet",
        "--output",
        text(&parquet),
    ]);
    let output = Command::new(python)
        .args(["-c", ASK, text(&parquet)])
        .output()
        .expect("Python runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let (rows, sums) = expected(&snapshots);
    assert_eq!(
        (found["rows"].as_u64(), found["polars_rows"].as_u64()),
        (Some(rows), Some(rows))
    );
    for reader in ["duckdb", "polars"] {
        let read: Sums = serde_json::from_value(found[reader].clone()).expect("sums");
        assert_eq!(read, sums, "{reader}");
    }
    assert_eq!(found["begin"].as_u64(), Some(BEGIN_UNIX_NS + INTERVAL_NS));
    assert_eq!(
        found["end"].as_u64(),
        Some(BEGIN_UNIX_NS + 300 * INTERVAL_NS)
    );
    assert!(
        found["absent"].as_u64().expect("a number") > 0,
        "what is not split has no samples"
    );
    let types: BTreeMap<String, String> =
        serde_json::from_value::<Vec<(String, String)>>(found["columns"].clone())
            .expect("columns")
            .into_iter()
            .collect();
    for (column, kind) in [
        ("cpu", "UBIGINT"),
        ("component", "VARCHAR"),
        ("parent", "VARCHAR"),
        ("interval_ns", "UBIGINT"),
        ("cpu_ns", "UBIGINT"),
        ("samples", "UBIGINT"),
        ("entries", "UBIGINT"),
    ] {
        assert_eq!(types[column], kind, "{column}");
    }
    assert_eq!(types["time"], "TIMESTAMP WITH TIME ZONE");
    let time = found["polars_types"]["time"].as_str().expect("a type");
    assert!(time.contains("us") && time.contains("UTC"), "{time}");
    assert_eq!(found["meta"]["host"], "demo-8");
    assert_eq!(found["meta"]["kernel"], "6.18.0-demo");
    assert_eq!(found["meta"]["netto_version"], env!("CARGO_PKG_VERSION"));
    let components = found["meta"]["netto_components"].as_str().expect("JSON");
    assert!(components.contains("CONFIG_NETFILTER_INGRESS"));
}

/// Runs the queries of the docs in a folder with the files that they name, and says how many rows
/// each gives.
#[cfg(feature = "parquet")]
const RUN_DOCS: &str = r#"
import os, re, sys
import duckdb, pandas, polars
folder, docs = sys.argv[1], sys.argv[2]
os.chdir(folder)
blocks = re.findall(r"```(sql|python)\n(.*?)```", open(docs).read(), re.S)
for language, block in blocks:
    if language == "sql":
        block = re.sub("--.*", "", block)
        for query in filter(None, map(str.strip, block.split(";"))):
            print(len(duckdb.sql(query).fetchall()))
    else:
        for line in block.splitlines():
            print(len(eval(line)))
"#;

#[cfg(feature = "parquet")]
#[test]
fn the_queries_of_the_docs_give_rows() {
    let Some(python) = python() else {
        return;
    };
    let (folder, path, _) = log(2, 40);
    for format in ["csv", "parquet"] {
        let file = folder.path().join(format!("netto.{format}"));
        let (log, file) = (text(&path), text(&file));
        stdout_of(&["report", log, "--format", format, "--output", file]);
    }
    let fleet = folder.path().join("fleet");
    let (log, fleet) = (text(&path), text(&fleet));
    let partitioned = ["--format", "parquet", "--partitioned", "--output", fleet];
    stdout_of(&[&["report", log][..], &partitioned].concat());
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/ANALYSIS.md");
    let output = Command::new(python)
        .args(["-c", RUN_DOCS, text(folder.path()), text(&docs)])
        .output()
        .expect("Python runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let rows = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows: Vec<u64> = rows.lines().flat_map(str::parse).collect();
    assert_eq!(rows.len(), 6, "{rows:?}");
    assert!(rows.iter().all(|rows| *rows > 0), "{rows:?}");
}

/// Number of rows, and the sum of each column of numbers, of each file of a folder.
#[cfg(feature = "parquet")]
const SUM_ALL: &str = r#"
import glob, json, os, sys
import duckdb
found = {}
for path in glob.glob(os.path.join(sys.argv[1], "*.parquet")):
    table = os.path.basename(path).removesuffix(".parquet")
    columns = duckdb.execute("select column_name, column_type from (describe select * from read_parquet(?))", [path]).fetchall()
    sums = ["count(*)"] + [f"coalesce(sum({name}), 0)::ubigint" for name, kind in columns if kind == "UBIGINT"]
    values = duckdb.execute(f"select {', '.join(sums)} from read_parquet(?)", [path]).fetchone()
    names = ["rows"] + [name for name, kind in columns if kind == "UBIGINT"]
    found[table] = dict(zip(names, values))
print(json.dumps(found))
"#;

#[cfg(feature = "parquet")]
#[test]
fn every_table_has_a_file_and_steps_have_the_same_sums() {
    let Some(python) = python() else {
        return;
    };
    let (folder, path, snapshots) = full_log(4, 60);
    let all = |step: &[&str], name: &str| -> Value {
        let tables = folder.path().join(name);
        let mut arguments = vec!["report", text(&path), "--format", "parquet"];
        arguments.extend(["--table", "all", "--output", text(&tables)]);
        arguments.extend(step);
        stdout_of(&arguments);
        let output = Command::new(&python)
            .args(["-c", SUM_ALL, text(&tables)])
            .output()
            .expect("Python runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let (each, steps) = (all(&[], "each"), all(&["--step", "10s"], "steps"));
    let number = |found: &Value, table: &str, column: &str| {
        let number = found[table][column].as_u64();
        number.unwrap_or_else(|| panic!("{table} has no {column}: {found}"))
    };
    let (rows, sums) = expected(&snapshots);
    assert_eq!(number(&each, "components", "rows"), rows);
    // 60 intervals of half a second are 3 steps.
    assert_eq!(number(&steps, "components", "rows"), rows / 20);
    let cpu_ns: u64 = sums.values().map(|(ns, ..)| ns).sum();
    for (table, column) in [
        ("components", "cpu_ns"),
        ("modes", "idle_ns"),
        ("owners", "caused_ns"),
        ("owners", "others_took_ns"),
        ("owner_components", "cpu_ns"),
        ("owner_pairs", "softirq_ns"),
        ("softnet", "count"),
        ("interfaces", "rx_packets"),
        ("drops", "packets"),
        ("programs", "cpu_ns"),
        ("latency", "packets"),
        ("own", "cpu_ns"),
    ] {
        let (all, stepped) = (number(&each, table, column), number(&steps, table, column));
        assert!(all > 0, "{table}");
        assert_eq!(all, stepped, "{table}");
    }
    assert_eq!(number(&each, "components", "cpu_ns"), cpu_ns);
    assert_eq!(
        number(&each, "owners", "caused_ns"),
        number(&each, "owner_components", "cpu_ns")
    );
}

#[test]
fn a_table_by_itself_is_the_same_as_among_all() {
    let (folder, path, _) = full_log(2, 30);
    let tables = folder.path().join("tables");
    let report = ["report", text(&path), "--format", "csv", "--step", "4s"];
    stdout_of(&[&report[..], &["--table", "all", "--output", text(&tables)]].concat());
    let files = std::fs::read_dir(&tables).expect("a folder");
    let files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    assert!(files.len() > 10, "{files:?}");
    for file in files {
        let name = file.file_stem().and_then(|name| name.to_str());
        let name = name.expect("a name");
        let printed = stdout_of(&[&report[..], &["--table", name]].concat());
        assert_eq!(
            printed,
            std::fs::read_to_string(&file).expect("text"),
            "{name}"
        );
    }
}

/// Rows by host and day of the table `components` below a folder.
#[cfg(feature = "parquet")]
const BY_PARTITION: &str = r#"
import json, sys
import duckdb
path = sys.argv[1] + "/components/*/*/*.parquet"
rows = duckdb.sql(f"""select host, date::varchar, count(*) from read_parquet('{path}', hive_partitioning = true)
    group by all order by all""").fetchall()
print(json.dumps(rows))
"#;

#[cfg(feature = "parquet")]
#[test]
fn the_logs_of_many_hosts_are_one_table_by_host_and_day() {
    let Some(python) = python() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let fleet = folder.path().join("fleet");
    for (cpus, host) in [(1, "a/b"), (2, "web-1")] {
        let (mut info, mut snapshots) = snapshots(cpus, 4);
        host.clone_into(&mut info.hostname);
        // The last ends thirteen hours later, on the next day.
        snapshots[3].time_unix_ns += 13 * 3_600_000_000_000;
        let log = folder.path().join("host.log");
        write(&log, &info, &snapshots);
        let output = ["--partitioned", "--output", text(&fleet)];
        let report = ["report", text(&log), "--format", "parquet"];
        stdout_of(&[&report[..], &output, &["--component", "network"]].concat());
    }
    let output = Command::new(python)
        .args(["-c", BY_PARTITION, text(&fleet)])
        .output()
        .expect("Python runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let rows: Vec<(String, String, u64)> = serde_json::from_slice(&output.stdout).expect("JSON");
    let found: Vec<(&str, &str)> = rows
        .iter()
        .map(|(host, date, _)| (host.as_str(), date.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            ("a/b", "2026-05-01"),
            ("a/b", "2026-05-02"),
            ("web-1", "2026-05-01"),
            ("web-1", "2026-05-02")
        ]
    );
    let counts: Vec<u64> = rows.iter().map(|(.., count)| *count).collect();
    assert_eq!((counts[0], counts[2]), (3 * counts[1], 2 * counts[0]));
}

#[test]
fn a_table_that_cannot_be_written_is_refused_with_what_can() {
    let (_folder, path, _) = log(1, 2);
    for (arguments, expected) in [
        (vec!["--format", "csv", "--table", "tides"], "components"),
        (vec!["--format", "csv", "--table", "all"], "--output"),
        (
            vec!["--format", "csv", "--table", "modes", "--component", "gro"],
            "no components",
        ),
        (vec!["--table", "modes"], "--format csv"),
        (vec!["--format", "csv", "--partitioned"], "--output"),
        (vec!["--format", "csv", "--step", "0s"], "step"),
    ] {
        let mut all = vec!["report", text(&path)];
        all.extend(arguments);
        let output = netto(&all);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn one_component_brings_its_parts_and_nothing_else() {
    let (_folder, path, _) = log(2, 3);
    let csv = stdout_of(&[
        "report",
        text(&path),
        "--format",
        "csv",
        "--component",
        "tx_syscall",
        "--cpus",
        "1",
    ]);
    let rows: Vec<&str> = csv.lines().filter(|line| line.starts_with("20")).collect();
    assert!(rows.len() > 3);
    for row in rows {
        let fields: Vec<&str> = row.split(',').collect();
        assert_eq!(fields[2], "1");
        assert!(
            fields[3] == "tx_syscall" || fields[4] == "tx_syscall",
            "{row}"
        );
    }
}

#[test]
fn a_picture_shows_the_largest_parts_in_their_colours() {
    let (_folder, path, _) = log(4, 240);
    let svg = stdout_of(&["report", text(&path), "--format", "svg"]);
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("RX softirq") && svg.contains("demo-4") && svg.contains("made up"));
    let rx = COMPONENTS
        .iter()
        .find(|c| c.slug == "rx_softirq")
        .expect("it is there");
    let color = rx.color.to_uppercase();
    assert!(svg.contains(&color), "{color}");
    assert!(svg.matches("<polygon").count() >= 3);
}

#[test]
fn the_dashboard_in_a_file_needs_no_other_and_shows_every_component() {
    let (folder, path, _) = log(2, 40);
    let file = folder.path().join("report.html");
    stdout_of(&[
        "report",
        text(&path),
        "--format",
        "html",
        "--output",
        text(&file),
    ]);
    let html = std::fs::read_to_string(&file).expect("it was written");
    assert!(html.contains("data-standalone") && html.contains("nettoMessages"));
    assert!(!html.contains("boot.js") && !html.contains("href=\"style.css\""));
    let refused = netto(&[
        "report",
        text(&path),
        "--format",
        "html",
        "--component",
        "gro",
    ]);
    assert_eq!(refused.status.code(), Some(2));
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(
        stderr.contains("--component does not go with --format html"),
        "{stderr}"
    );
}
