//! Commands that draw on a terminal, follow or wait, when their terminal, their reader or their server
//! has gone, and when they are told to end.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use netto::cli;
use netto::features::FEATURES;

use crate::process::Process;
use crate::pty::{self, End, OnTerminal};
use crate::replay::recorded;
use crate::support::until;

const NETTO: &str = env!("CARGO_BIN_EXE_netto");
/// They promise 3 s, of a host that is not busy with tests.
const BOUND: Duration = Duration::from_secs(10);
/// One that spins takes half a CPU or more for as long as it runs; to read a log takes a debug build 1.5 s.
const MOST_CPU: Duration = Duration::from_secs(5);
/// What a view writes before anything is on it.
const MOST_BLANK_BYTES: usize = 100;

/// What views need, of a small host.
const MEASURED: &str = "--cpus 2 --latency --health";

/// What serves, and goes on without a terminal; endings.rs has its ends.
const SERVING: [&str; 2] = ["run", "demo"];
/// What needs root; root/gone.rs has it.
const WITH_INTERFACES: [&str; 2] = ["flows", "synth"];
/// What ends by itself when it has answered.
const ANSWERING: [&str; 6] = ["check", "config", "list", "report", "diff", "log"];
/// What is tested here, besides the commands of features.
const TESTED: [&str; 3] = ["top", "replay", "dump"];

fn views() -> Vec<&'static str> {
    let commands = FEATURES.iter().filter_map(|feature| feature.command);
    commands
        .map(|command| command.name)
        .chain(["top"])
        .collect()
}

#[test]
fn every_command_is_known_here() {
    let command = cli::command(FEATURES);
    let all: BTreeSet<_> = command
        .get_subcommands()
        .map(|command| command.get_name())
        .collect();
    let tested = [&SERVING[..], &WITH_INTERFACES, &ANSWERING, &TESTED];
    let tested: BTreeSet<_> = tested.concat().into_iter().chain(views()).collect();
    assert_eq!(all, tested);
}

/// A server that takes connections and never answers.
struct Silent {
    url: String,
    taken: Arc<AtomicUsize>,
}

impl Silent {
    fn start() -> Silent {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let taken = Arc::new(AtomicUsize::new(0));
        let counted = taken.clone();
        std::thread::spawn(move || {
            let mut all = Vec::new();
            for stream in listener.incoming() {
                all.push(stream);
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Silent { url, taken }
    }

    fn wait_for_clients(&self, count: usize) {
        until("all are connected", || {
            self.taken.load(Ordering::Relaxed) >= count
        });
    }
}

/// A command on its terminal.
struct Trial {
    line: String,
    process: OnTerminal,
}

impl Trial {
    fn start(line: String, is_controlled: bool) -> Trial {
        let mut command = Command::new(NETTO);
        command.args(line.split(' '));
        let process = OnTerminal::start(&command, is_controlled).expect("it starts");
        Trial { line, process }
    }

    fn ends_with(mut self, code: i32) {
        let end = pty::end(self.process.child(), BOUND).expect("its state");
        let screen = self.process.screen();
        check(&format!("{}: {screen:?}", self.line), end, code);
    }
}

fn check(line: &str, end: Option<End>, code: i32) {
    let end = end.unwrap_or_else(|| panic!("it goes on: {line}"));
    assert_eq!(end.code, code, "{end:?}: {line}");
    assert!(end.cpu < MOST_CPU, "{end:?}: {line}");
}

/// Views of a daemon, each on its terminal, when they have drawn. Each second one learns of its terminal's
/// end by SIGHUP; the last, which is `top`, does not.
fn drawn(url: &str) -> Vec<Trial> {
    let views = views();
    let start = |(at, name): (usize, &&str)| {
        let is_controlled = (views.len() - at).is_multiple_of(2);
        Trial::start(format!("{name} --connect {url}"), is_controlled)
    };
    shown(views.iter().enumerate().map(start).collect())
}

fn shown(trials: Vec<Trial>) -> Vec<Trial> {
    for trial in &trials {
        until(&trial.line, || {
            trial.process.screen().len() > MOST_BLANK_BYTES
        });
    }
    trials
}

/// What plays a log, as a page and on the terminal, when they have drawn.
fn playing(log: &Path) -> [Trial; 2] {
    let log = log.display();
    let [page, top] = [
        format!("replay {log} --port 0"),
        format!("top --replay {log}"),
    ]
    .map(|line| Trial::start(line, true));
    until("it serves", || {
        page.process.screen().contains("dashboard at")
    });
    until("it draws", || top.process.screen().len() > MOST_BLANK_BYTES);
    [page, top]
}

/// Whatever waits for an answer, when its request has been taken.
fn waiting(silent: &Silent, folder: &Path) -> Vec<Trial> {
    let file = folder.join("dumped.log");
    let dump = format!("dump --output {} --connect", file.display());
    let starts = views().into_iter().map(|name| format!("{name} --connect"));
    let lines = starts.chain([dump]);
    let trials: Vec<_> = lines
        .map(|line| Trial::start(format!("{line} {}", silent.url), false))
        .collect();
    silent.wait_for_clients(trials.len());
    trials
}

#[test]
fn whoever_loses_the_terminal_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = recorded(folder.path());
    let daemon = Process::start("", MEASURED);
    let url = format!("http://{}", daemon.address);
    let mut trials = drawn(&url);
    let [mut page, top] = playing(&log);
    trials.push(top);
    trials.iter_mut().for_each(|trial| trial.process.close());
    page.process.close();
    trials.into_iter().for_each(|trial| trial.ends_with(129));
    // It tells its viewers first.
    page.ends_with(0);
    let mut trials = waiting(&Silent::start(), folder.path());
    trials.iter_mut().for_each(|trial| trial.process.close());
    trials.into_iter().for_each(|trial| trial.ends_with(129));
}

#[test]
fn whoever_is_told_to_end_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = recorded(folder.path());
    let daemon = Process::start("", MEASURED);
    let url = format!("http://{}", daemon.address);
    for (name, code) in [("TERM", 143), ("HUP", 129)] {
        let mut trials = drawn(&url);
        let [mut page, top] = playing(&log);
        trials.push(top);
        for trial in &mut trials {
            send(trial.process.child(), name);
        }
        send(page.process.child(), name);
        trials.into_iter().for_each(|trial| trial.ends_with(code));
        page.ends_with(0);
    }
    let mut trials = waiting(&Silent::start(), folder.path());
    for trial in &mut trials {
        send(trial.process.child(), "TERM");
    }
    trials.into_iter().for_each(|trial| trial.ends_with(143));
}

fn send(child: &Child, name: &str) {
    let mut kill = Command::new("kill");
    kill.args(["-s", name, &child.id().to_string()]);
    assert!(kill.status().expect("kill runs").success());
}

#[test]
fn a_daemon_that_is_told_to_end_while_it_starts_ends_cleanly() {
    let line = "demo --port 0 --cpus 64";
    let mut command = Command::new(NETTO);
    command.args(line.split(' ')).stdin(Stdio::null());
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    let folder = format!("/proc/{}/fd", child.id());
    // The socket is the first that it opens; the host is made up after that.
    until("it has a socket", || {
        let open = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut places = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        places.any(|place| place.to_string_lossy().starts_with("socket:"))
    });
    send(&child, "TERM");
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(0), "{status}");
}

#[test]
fn whoever_loses_the_daemon_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    // Killed; stopped, so that its kernel answers and it does not; and silent from the begin.
    let killed = Process::start("", MEASURED);
    let stopped = Process::start("", MEASURED);
    let of_killed = drawn(&format!("http://{}", killed.address));
    let of_stopped = drawn(&format!("http://{}", stopped.address));
    drop(killed);
    stopped.signal("STOP");
    let of_silent = waiting(&Silent::start(), folder.path());
    for trial in of_killed.into_iter().chain(of_stopped).chain(of_silent) {
        trial.ends_with(1);
    }
}

#[test]
fn whoever_loses_the_reader_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = recorded(folder.path());
    let daemon = Process::start("", MEASURED);
    let url = format!("http://{}", daemon.address);
    let silent = Silent::start().url;
    let of_views = views().into_iter().filter(|name| *name != "top");
    let of_views = of_views.map(|name| format!("{name} --once --seconds 60 --connect {url}"));
    let others = [
        format!("dump --connect {silent}"),
        format!("replay {} --port 0", log.display()),
    ];
    let lines: Vec<_> = of_views.chain(others).collect();
    let children: Vec<_> = lines.iter().map(|line| without_reader(line)).collect();
    let ends = children.into_iter().map(|mut child| {
        let end = pty::end(&mut child, BOUND).expect("its state");
        // It has ended, if all is well.
        let _ = child.kill();
        end
    });
    for (line, end) in lines.iter().zip(ends.collect::<Vec<_>>()) {
        check(line, end, 0);
    }
}

/// The command, the reader of whose standard output has gone.
fn without_reader(line: &str) -> Child {
    let mut command = Command::new(NETTO);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("NETTO_")) {
        command.env_remove(name);
    }
    let command = command.args(line.split(' ')).stdin(Stdio::null());
    let command = command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    drop(child.stdout.take());
    child
}
