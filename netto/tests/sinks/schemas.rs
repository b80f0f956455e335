//! The reference of the JSON: every answer is as its schema says, and nothing in it is left
//! unsaid.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use jsonschema::Validator;
use metrics_common::codec::ServerMessage;
use metrics_common::component::index_of;
use metrics_common::{Info, Missable, Snapshot, SplitBasis};
use netto::features::FEATURES;
use netto::run;
use netto_judges::anomalies::fixture::Host;
use netto_log_format::LogBuilder;
use netto_pipeline::trace_analyzer::{SnapshotSource, StackSource};
use serde_json::Value;

use crate::process::Process;
use crate::support::*;

/// Fields of events that do not occur on the hosts of these tests.
const RARE: &[&str] = &[
    // A disk that was full.
    "first_time_unix_ns",
    "last_time_unix_ns",
    // An anomaly of ten minutes.
    "usual_now",
];

/// The made-up measurement on a kernel that tells more.
struct Talkative(Source);

impl SnapshotSource for Talkative {
    fn next_snapshot(&mut self) -> anyhow::Result<Snapshot> {
        let mut snapshot = self.0.next_snapshot()?;
        let cost = snapshot.sections.cost.get_or_insert_default();
        cost.ksoftirqd_rx_ns = Some(vec![7, 8]);
        cost.probe_missed = vec![1_000_000];
        cost.split_basis = vec![SplitBasis {
            component: index_of("rx_softirq").expect("a component") as u32,
            stacks_ns: 1,
            ..SplitBasis::default()
        }];
        Ok(snapshot)
    }

    fn stacks(&self) -> Arc<dyn StackSource> {
        self.0.stacks()
    }
}

fn talkative() -> Info {
    let way = Missable {
        probe: "inet_sendmsg".to_owned(),
        reason: "recursion".to_owned(),
        component: "tx_syscall".to_owned(),
    };
    Info {
        missable: vec![way],
        ..info()
    }
}

fn docs() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn schema(name: &str) -> Value {
    let text = read(&docs().join(format!("schema/{name}.json")));
    serde_json::from_str(&text).expect("a schema is JSON")
}

fn validator(name: &str) -> Validator {
    jsonschema::draft202012::new(&schema(name)).expect("it is a schema")
}

/// Names of all schemas.
fn schemas() -> Vec<String> {
    let folder = std::fs::read_dir(docs().join("schema")).expect("the folder of schemas");
    let mut names: Vec<String> = folder
        .map(|entry| entry.expect("an entry").path())
        .map(|path| {
            path.file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

/// An answer, and the name of the schema that it must be like.
type NamedAnswer = (&'static str, Value);

fn asked(address: std::net::SocketAddr, path: &str) -> Value {
    let answer = get(address, path, &[]);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

/// The answers of a measuring daemon.
fn of_daemon(address: std::net::SocketAddr) -> Vec<NamedAnswer> {
    let history = "/api/v1/history?component=rx_softirq,xdp_generic,modes/idle,\
                   power/network,traffic/packets,traffic/wire_rx,drops/packets,latency/tcp-start/p99";
    vec![
        ("info", asked(address, "/api/v1/info")),
        ("snapshot", asked(address, "/api/v1/snapshot")),
        ("history", asked(address, history)),
        ("history", asked(address, &format!("{history}&cpu=0"))),
    ]
}

/// The output of commands for a log.
fn of_log(log: &str) -> Vec<NamedAnswer> {
    let said = |arguments: &[&str]| -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_netto"));
        let output = command.args(arguments).output().expect("the program runs");
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    vec![
        ("report", said(&["report", "--format", "json", log])),
        ("diff", said(&["diff", "--format", "json", log, log])),
        ("anomalies", said(&["anomalies", "--json", log])),
    ]
}

/// A log of two minutes with an anomaly, and what follows it.
fn unusual() -> Vec<u8> {
    let mut host = Host::new(1);
    let mut log = LogBuilder::default();
    let mut push = |message: ServerMessage| log.push(&message).expect("it fits");
    push(ServerMessage::Hello(Box::new(info())));
    for second in 0..120 {
        (host.load, host.overflows) = match second {
            80..90 => (10.0, 10),
            _ => (0.5, 0),
        };
        for _ in 0..2 {
            let mut snapshot = host.next_interval();
            let none = vec![0; snapshot.cpus.len()];
            let cost = snapshot.sections.cost.get_or_insert_default();
            (cost.stacks_taken, cost.stacks_lost) = (none.clone(), none);
            push(ServerMessage::Snapshot(Box::new(snapshot)));
        }
    }
    log.finish()
}

/// The answers of all kinds of netto.
fn everything() -> Vec<NamedAnswer> {
    let mut given = Vec::new();
    let prepared = run::bind(FEATURES, &config()).expect("it can be prepared");
    let daemon = Daemon::serving(prepared, talkative(), Talkative(endless()));
    daemon.wait_for("/api/v1/snapshot", |answer| {
        answer.status == 200 && answer.json()["sequence"].as_u64() >= Some(25)
    });
    given.extend(of_daemon(daemon.address));
    given.push(("owners", asked(daemon.address, "/api/v1/owners")));
    given.push(("programs", asked(daemon.address, "/api/v1/programs")));
    given.push(("slowest", asked(daemon.address, "/api/v1/slowest")));
    given.push(("latency", asked(daemon.address, "/api/v1/latency")));
    given.push(("flows", asked(daemon.address, "/api/v1/flows?sort=packets")));
    given.push(("advice", asked(daemon.address, "/api/v1/advice")));
    given.push(("anomalies", asked(daemon.address, "/api/v1/anomalies")));
    given.push(("score", asked(daemon.address, "/api/v1/score")));
    given.push(("orca", asked(daemon.address, "/api/v1/orca")));
    let folder = tempfile::tempdir().expect("a folder");
    let log = |name: &str, bytes: Vec<u8>| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        path.to_string_lossy().into_owned()
    };
    let dump = get(daemon.address, "/api/v1/dump", &[("Connection", "close")]);
    given.extend(of_log(&log("unusual.log", unusual())));
    given.extend(of_log(&log("made-up.log", unchunked(&dump.body))));
    drop(daemon);

    let demo = Process::start(
        "",
        "--cpus 4 --user-period 50 --latency --flows eth0 --health",
    );
    std::thread::sleep(std::time::Duration::from_secs(2));
    given.extend(of_daemon(demo.address));
    given.push(("owners", asked(demo.address, "/api/v1/owners?limit=3")));
    given.push(("programs", asked(demo.address, "/api/v1/programs?last=1s")));
    given.push(("slowest", asked(demo.address, "/api/v1/slowest?last=1s")));
    given.push(("latency", asked(demo.address, "/api/v1/latency?last=1s")));
    given.push(("flows", asked(demo.address, "/api/v1/flows?last=1s")));
    given.push(("advice", asked(demo.address, "/api/v1/advice?last=1s")));
    given.push(("score", asked(demo.address, "/api/v1/score?last=1s")));
    given.push(("orca", asked(demo.address, "/api/v1/orca?last=1s")));
    let dump = get(demo.address, "/api/v1/dump", &[]);
    let path = log("demo.log", unchunked(&dump.body));
    given.extend(of_log(&path));
    drop(demo);

    let replay = crate::replay::of_log(Path::new(&path));
    replay.ready();
    given.extend(of_daemon(replay.address));
    given.push(("replay", asked(replay.address, "/api/v1/replay")));
    given.push((
        "replay-course",
        asked(replay.address, "/api/v1/replay/course"),
    ));
    given
}

/// A body that came in chunks.
fn unchunked(mut body: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let end = body
            .windows(2)
            .position(|two| two == b"\r\n")
            .expect("a length");
        let length = std::str::from_utf8(&body[..end]).expect("text");
        let length = usize::from_str_radix(length, 16).expect("a length");
        if length == 0 {
            return whole;
        }
        whole.extend_from_slice(&body[end + 2..][..length]);
        body = &body[end + 2 + length + 2..];
    }
}

/// Every object in a value, by its path.
fn objects(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.push(path.to_owned());
            for (name, value) in fields {
                objects(value, &format!("{path}/{}", name.replace('/', "~1")), found);
            }
        }
        // The others are like the first few.
        Value::Array(values) => {
            for (at, value) in values.iter().enumerate().take(3) {
                objects(value, &format!("{path}/{at}"), found);
            }
        }
        _ => {}
    }
}

fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                found.insert(name.clone());
                keys(value, found);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

/// Does something with every part of a schema that describes an object.
fn described(schema: &Value, each: &mut impl FnMut(&Value)) {
    match schema {
        Value::Object(fields) => {
            if fields.contains_key("properties") {
                each(schema);
            }
            fields.values().for_each(|value| described(value, each));
        }
        Value::Array(values) => values.iter().for_each(|value| described(value, each)),
        _ => {}
    }
}

#[test]
fn every_answer_is_as_its_schema_says_and_every_schema_is_needed() {
    let given = everything();
    let mut seen = BTreeSet::new();
    for (name, answer) in &given {
        let errors: Vec<String> = validator(name)
            .iter_errors(answer)
            .map(|error| format!("{}: {error}", error.instance_path))
            .collect();
        assert!(errors.is_empty(), "{name}: {errors:#?}");
        keys(answer, &mut seen);
    }
    let used: BTreeSet<&str> = given.iter().map(|(name, _)| *name).collect();
    assert!(used.into_iter().eq(schemas().iter().map(String::as_str)));
    let mut unseen = Vec::new();
    for name in schemas() {
        described(&schema(&name), &mut |part| {
            let fields = part["properties"].as_object().expect("fields");
            let rare = |field: &&String| RARE.contains(&field.as_str());
            let never = fields
                .keys()
                .filter(|field| !seen.contains(*field) && !rare(field));
            unseen.extend(never.map(|field| format!("{name}: {field}")));
        });
    }
    assert!(unseen.is_empty(), "nothing has these fields: {unseen:?}");
    // A field that no schema knows is refused wherever it is.
    let mut tried = BTreeSet::new();
    for (name, answer) in given {
        if !tried.insert(name) {
            continue;
        }
        let (validator, mut places) = (validator(name), Vec::new());
        objects(&answer, "", &mut places);
        for place in places {
            let mut other = answer.clone();
            let object = other.pointer_mut(&place).and_then(Value::as_object_mut);
            let object = object.expect("an object");
            object.insert("something_else".to_owned(), 1.into());
            assert!(
                !validator.is_valid(&other),
                "{name}: anything goes in {place:?}"
            );
        }
    }
}

#[test]
fn schemas_say_of_every_field_what_it_is() {
    for name in schemas() {
        let schema = schema(&name);
        jsonschema::draft202012::meta::validate(&schema).expect("a schema as the standard has it");
        described(&schema, &mut |part| {
            assert_eq!(part["additionalProperties"], false, "{name}: {part}");
            for (field, meaning) in part["properties"].as_object().expect("fields") {
                let is_described = ["description", "$ref"]
                    .iter()
                    .any(|key| meaning[*key].as_str().is_some_and(|text| !text.is_empty()));
                assert!(is_described, "{name}: what is {field}?");
            }
        });
    }
}

#[test]
fn the_reference_has_every_path_and_every_schema() {
    let reference = read(&docs().join("JSON.md"));
    let daemon = Daemon::start(&config(), endless());
    let paths = get(daemon.address, "/nothing", &[]).text();
    let paths: Vec<&str> = paths
        .split(|c: char| c.is_whitespace() || c == ',')
        .filter(|word| word.starts_with('/') && word.len() > 1)
        .collect();
    assert!(paths.len() > 5, "{paths:?}");
    for path in paths {
        assert!(
            reference.contains(&format!("`{path}")),
            "docs/JSON.md lacks {path}"
        );
    }
    for name in schemas() {
        let link = format!("(schema/{name}.json)");
        assert!(
            reference.contains(&link),
            "docs/JSON.md does not link {link}"
        );
    }
}
