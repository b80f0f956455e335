//! The commands of README.md and docs/: each is run, or is in the table of those that are not.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use metrics_common::codec::{ServerMessage, Stacks};
use netto::features::FEATURES;
use netto_log_format::LogBuilder;
use netto_pipeline::trace_analyzer::SnapshotSource as _;

use crate::process::Process;

/// Why packages are not installed here.
const INSTALLS: &str = "changes this machine: `cargo xtask dist --check` does it in a chroot";

/// Commands that are not run here, by how they begin, and why.
const NOT_RUN: &[(&str, &str)] = &[
    ("cargo xtask", "builds, measures or tests: minutes"),
    ("apt install", INSTALLS),
    ("dnf install", INSTALLS),
    ("systemctl ", INSTALLS),
    ("install -m", INSTALLS),
    (
        "podman ",
        "starts a container: `cargo xtask dist --check` has its root",
    ),
    (
        "helm install",
        "needs a cluster: `cargo xtask dist --check` has what it installs",
    ),
    ("sha256sum --check", "reads what `cargo xtask dist` makes"),
    (
        "ip ",
        "makes network namespaces: root; so do the root tests",
    ),
    (
        "iperf3 ",
        "talks to the namespace that the lines before it make: root",
    ),
    ("go tool pprof", "needs Go: run by root::flame"),
    (
        "nfcapd ",
        "a daemon on a fixed port: run by root::flow_export",
    ),
    (
        "nfdump ",
        "reads what nfcapd wrote: run by root::flow_export",
    ),
    (
        "netto --",
        "measures this host: root; run by the root tests",
    ),
    (
        "netto flows eth0",
        "counts the packets of an interface: root",
    ),
    (
        "netto score db-1",
        "other hosts; the crate has its comparison",
    ),
    (
        "echo reads | nc",
        "asks another host's agent; run by root::health",
    ),
    (
        "curl -sN ",
        "goes on without end; followed by sinks::listeners",
    ),
    (
        "netto dump --connect https://",
        "another host; run by the tests of passwords",
    ),
    (
        "netto top",
        "asks for a terminal; run by the tests of netto-tui",
    ),
    (
        "netto replay",
        "serves until it is ended; run by sinks::replay",
    ),
];

/// What the texts call by the names that their readers give, and what it is here.
const HERE: [(&str, &str); 5] = [
    ("seconds=10", "seconds=1"),
    ("--seconds 10", "--seconds 1"),
    ("--seconds 60", "--seconds 1"),
    ("| inferno-flamegraph", "| cat"),
    ("| ssh elsewhere", "| sh -c"),
];

/// Two flows, as docs/SYNTH.md describes them.
const RECORDS: &str = "\
1800000000.0,1800000001.5,192.0.2.1,192.0.2.2,40000,443,6,0,24,20,9000
1800000000.2,1800000001.0,192.0.2.2,192.0.2.1,53,40001,17,0,0,4,800
";

/// The commands of the blocks of a page: `sh`, and what follows a prompt in others.
fn commands(page: &str) -> Vec<String> {
    let (mut found, mut fence) = (Vec::<String>::new(), None);
    let mut goes_on = false;
    for line in page.lines() {
        if let Some(language) = line.strip_prefix("```") {
            fence = match fence {
                None => Some(language.to_owned()),
                Some(_) => None,
            };
            continue;
        }
        let line = match fence.as_deref() {
            Some("sh") => Some(line),
            Some(_) => line.strip_prefix("$ "),
            None => None,
        };
        let line = line.map(|line| match line.split_once("  #") {
            Some((command, _)) => command.trim(),
            None => line.trim(),
        });
        let Some(line) = line.filter(|line| !line.is_empty() && !line.starts_with('#')) else {
            continue;
        };
        match found.last_mut().filter(|_| goes_on) {
            Some(last) => *last = format!("{} {line}", last.trim_end_matches('\\')),
            None => found.push(line.to_owned()),
        }
        goes_on = line.ends_with(['|', '\\']);
    }
    found
}

fn pages() -> Vec<(String, String)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let docs = fs::read_dir(root.join("docs")).expect("the folder");
    let docs = docs.map(|entry| entry.expect("an entry").path());
    let pages = docs.chain([root.join("README.md")]);
    let pages = pages.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    let mut pages: Vec<_> = pages
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy();
            (
                name.into_owned(),
                fs::read_to_string(&path).expect("a page"),
            )
        })
        .collect();
    pages.sort();
    pages
}

/// A log of a made-up host with stacks.
fn log(path: &Path) {
    let demo = netto_demo::demo(netto_demo::Settings {
        cpus: 2,
        seed: 1,
        period: Duration::from_millis(500),
        frequency_hz: 1000,
        features: FEATURES,
        without: &[],
    });
    let (info, mut source) = (demo.info, demo.source);
    let begin_ns = info.started_unix_ns;
    let mut log = LogBuilder::default();
    let mut push = |message| log.push(&message).expect("it fits");
    push(ServerMessage::Hello(Box::new(info)));
    for sequence in 1..=64 {
        let mut snapshot = source.next_snapshot().expect("it makes one up");
        snapshot.sequence = sequence;
        snapshot.time_unix_ns = begin_ns + sequence * snapshot.interval_ns;
        push(ServerMessage::Snapshot(Box::new(snapshot)));
    }
    push(ServerMessage::Stacks(Box::new(Stacks {
        time_unix_ns: begin_ns + 31_000_000_000,
        window_ns: 30_000_000_000,
        samples: 7,
        left_out: 0,
        folded: "rx_softirq;net_rx_action;gro 7\n".to_owned(),
    })));
    fs::write(path, log.finish()).expect("written");
}

/// Where the commands run: `netto` is the one that was built, and files have the names of the texts.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("bin")).expect("a folder");
    let netto = env!("CARGO_BIN_EXE_netto");
    std::os::unix::fs::symlink(netto, at("bin/netto")).expect("a link");
    log(&at("netto.log"));
    for name in ["before.log", "after.log", "web-1.log"] {
        fs::copy(at("netto.log"), at(name)).expect("a copy");
    }
    fs::write(at("yesterday.csv.zst"), RECORDS).expect("written");
    let made = Command::new(netto)
        .args(["synth", "yesterday.csv.zst", "--pcap", "capture.pcap"])
        .current_dir(folder.path())
        .output();
    assert!(made.expect("it runs").status.success());
    folder
}

/// Runs a command line of a page; what went wrong, if anything.
fn run(line: &str, folder: &Path, daemon: &Process) -> Result<(), String> {
    let address = daemon.address.to_string();
    let mut line = line.replace("127.0.0.1:10880", &address);
    for (in_docs, here) in HERE {
        line = line.replace(in_docs, here);
    }
    let line = line.replace("curl -s", "curl -sf --max-time 20");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("bash");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("NETTO_")) {
        command.env_remove(name);
    }
    let output = command
        .args(["-o", "pipefail", "-c", &format!("exec 2>&1; {line}")])
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", folder.join("bin").display()))
        .env("NETTO_CONNECT", format!("http://{address}"))
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Whether a program of a command line is not there. On machines of continuous integration all are.
fn is_missing(line: &str) -> bool {
    let programs = line
        .split('|')
        .filter_map(|part| part.split_whitespace().next());
    let programs = programs.filter(|program| ["curl", "jq", "tshark"].contains(program));
    let missing = programs.filter(|program| {
        let found = Command::new("sh")
            .args(["-c", &format!("command -v {program}")])
            .output();
        !found.is_ok_and(|output| output.status.success())
    });
    let missing: Vec<&str> = missing.collect();
    let is_ci = std::env::var("CI").is_ok_and(|ci| ci == "true" || ci == "1");
    assert!(missing.is_empty() || !is_ci, "{missing:?} is not installed");
    if !missing.is_empty() {
        eprintln!("SKIPPED: {missing:?} is not installed: {line}");
    }
    !missing.is_empty()
}

#[test]
fn every_command_of_the_pages_runs() {
    let folder = folder();
    let daemon = Process::start(
        "",
        "--cpus 2 --user-period 100 --flows eth0 --latency --health",
    );
    daemon.warm_up();
    let (mut wrong, mut used, mut count) = (String::new(), BTreeSet::new(), 0);
    for (page, text) in pages() {
        for line in commands(&text) {
            if let Some((begin, _)) = NOT_RUN.iter().find(|(begin, _)| line.starts_with(begin)) {
                used.insert(*begin);
                continue;
            }
            if is_missing(&line) {
                continue;
            }
            count += 1;
            if let Err(error) = run(&line, folder.path(), &daemon) {
                let _ = writeln!(wrong, "{page}: {line}\n{error}");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    println!("{count} commands");
    for (begin, why) in NOT_RUN {
        assert!(used.contains(begin), "no page has {begin} any more ({why})");
    }
}

#[test]
fn commands_are_found_in_their_blocks() {
    let page = "```sh\n# first\nnetto a |\n  jq .  # why\n\nnetto b\n```\nnetto c\n```text\n$ netto d\ne\n```\n";
    assert_eq!(commands(page), ["netto a | jq .", "netto b", "netto d"]);
}
