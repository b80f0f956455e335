//! The logs of several hosts as one table, which engines for many machines query by the same SQL as
//! DuckDB: the text of docs/FLEET.md.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::files::*;
use super::python::python;

/// What the two engines are installed from.
const ENGINES: [&str; 2] = ["chdb==4.*", "pyspark==4.*"];

/// Runs the SQL of a document, as this engine spells the beginning of it, and prints the rows of
/// each question as JSON.
const RUN: &str = r##"
import json, os, re, sys
engine, folder, docs = sys.argv[1:]
os.chdir(folder)
blocks = re.findall(r"```sql\n-- (.*?)\n(.*?)```", open(docs).read(), re.S)
views = {title: block for title, block in blocks if " view " in block}
questions = [block for title, block in blocks if title not in views]
texts = lambda block: [text.strip() for text in re.sub("--.*", "", block).split(";") if text.strip()]

if engine == "DuckDB":
    import duckdb
    for text in texts(views["DuckDB"]):
        duckdb.sql(text)
    ask = lambda text: duckdb.sql(text).fetchall()
elif engine == "ClickHouse":
    from chdb import session
    server = session.Session()
    for text in texts(views["ClickHouse"]):
        server.query(text)
    ask = lambda text: json.loads(str(server.query(text, "JSONCompact")))["data"]
else:
    import glob, platform, pyspark, zipfile
    from pyspark.sql import SparkSession
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    # Spark's snappy takes a host that has musl, too, for one that has no other C library.
    jar = zipfile.ZipFile(glob.glob(os.path.dirname(pyspark.__file__) + "/jars/snappy-java-*.jar")[0])
    library = jar.extract(f"org/xerial/snappy/native/Linux/{platform.machine()}/libsnappyjava.so", folder)
    library = f"-Dorg.xerial.snappy.lib.path={os.path.dirname(library)} -Dorg.xerial.snappy.lib.name=libsnappyjava.so"
    spark = spark.config("spark.driver.extraJavaOptions", library)
    spark = spark.config("spark.driver.host", "127.0.0.1").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    for text in texts(views["Spark"]):
        spark.sql(text)
    ask = lambda text: [tuple(row) for row in spark.sql(text).collect()]

def plain(value):
    try:
        return round(float(value), 6)
    except (TypeError, ValueError):
        return str(value)

answers = [[[plain(value) for value in row] for row in ask(text)] for block in questions for text in texts(block)]
print(json.dumps(answers))
"##;

fn answers(python: &Path, engine: &str, folder: &Path) -> Vec<Vec<Value>> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/FLEET.md");
    let output = Command::new(python)
        .args(["-c", RUN, engine, text(folder), text(&docs)])
        // Hours of the day are the session's.
        .env("TZ", "UTC")
        .output()
        .expect("Python runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{engine}: {error}");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let last = stdout.lines().next_back().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{engine}: {error}: {stdout}"))
}

/// Logs of three hosts as Parquet, below `fleet` in a folder.
fn exported() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let fleet = folder.path().join("fleet");
    for cpus in 1..=3 {
        let (mut info, snapshots) = full_snapshots(cpus, 30);
        info.hostname = format!("web-{cpus}");
        let log = folder.path().join("host.log");
        write(&log, &info, &snapshots);
        stdout_of(&[
            "report",
            text(&log),
            "--format",
            "parquet",
            "--table",
            "all",
            "--step",
            "10s",
            "--partitioned",
            "--output",
            text(&fleet),
        ]);
    }
    folder
}

#[test]
fn duckdb_answers_the_questions_about_a_fleet() {
    let Some(python) = python() else {
        return;
    };
    let folder = exported();
    let answers = answers(&python, "DuckDB", folder.path());
    assert_eq!(answers.len(), 3, "{answers:?}");
    assert!(answers.iter().all(|rows| !rows.is_empty()), "{answers:?}");
    // The hosts, the one with the most CPUs first.
    let hosts: Vec<_> = answers[0].iter().map(|row| row[0].as_str()).collect();
    assert_eq!(hosts, [Some("web-3"), Some("web-2"), Some("web-1")]);
}

#[test]
#[ignore = "downloads 750 MB and needs Java; `cargo xtask test -- engines::clickhouse`"]
fn clickhouse_and_spark_answer_them_as_duckdb_does() {
    let Some(python) = python() else {
        return;
    };
    let folder = exported();
    let expected = answers(&python, "DuckDB", folder.path());
    let engines = engines();
    for engine in ["ClickHouse", "Spark"] {
        let found = answers(&engines, engine, folder.path());
        assert_eq!(found, expected, "{engine}");
        println!("{engine}: the same {} answers", found.len());
    }
}

/// The Python that has them, in an environment of their own.
fn engines() -> PathBuf {
    let environment = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/engines");
    let python = environment.join("bin/python3");
    let run = |command: &mut Command| {
        let status = command.status();
        assert!(status.is_ok_and(|status| status.success()), "{command:?}");
    };
    if !python.exists() {
        run(Command::new("python3").args(["-m", "venv", text(&environment)]));
    }
    run(Command::new(&python)
        .args(["-m", "pip", "install", "--quiet"])
        .args(ENGINES));
    python
}
