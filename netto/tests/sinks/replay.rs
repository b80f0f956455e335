//! A recording played by the daemon: every sink has the log's content, and clients who may read it
//! control its playback.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use metrics_common::codec::{self, ServerMessage};
use metrics_common::history::History;
use metrics_common::{Info, Snapshot};
use netto::config::Config;
use netto::features::FEATURES;
use netto::run;
use netto_log_format::LogBuilder;
use netto_pipeline::playback::Controls;
use netto_replay::player::{self, Player};
use netto_replay::recording::Recording;
use serde_json::Value;
use tungstenite::{Message, WebSocket};

use crate::support::{
    Answer, Daemon, LIMIT, config, connect, get, info, read_log, request, snapshot, until,
};

/// How many intervals of 50 ms were recorded: ten minutes.
const RECORDED: u64 = 12_000;

/// A log of the made-up host, which is made up once.
pub fn recorded(folder: &Path) -> PathBuf {
    static LOG: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut log = LogBuilder::default();
        let hello = ServerMessage::Hello(Box::new(info()));
        let snapshots = (1..=RECORDED).map(|n| ServerMessage::Snapshot(Box::new(snapshot(n))));
        for message in std::iter::once(hello).chain(snapshots) {
            log.push(&message).expect("it fits");
        }
        log.finish()
    });
    let path = folder.join("netto.log");
    std::fs::write(&path, &*LOG).expect("the log is written");
    path
}

fn played(path: &Path, playing: bool, speed: f64, config: &Config) -> Daemon {
    let recording = Recording::open(path, &mut |_, _| ()).expect("a recording");
    let controls = Controls::new(recording.facts().clone(), playing, speed);
    let mut player = Player::new(Arc::new(recording), controls.clone());
    let info = player.first_info().expect("a first interval");
    let config = Config {
        user_period: player::PERIOD,
        ..config.clone()
    };
    let prepared = run::bind(FEATURES, &config)
        .expect("it can be prepared")
        .with_replay(controls);
    Daemon::serving(prepared, info, player)
}

/// The replay of a log, standing still at its beginning.
pub fn of_log(path: &Path) -> Daemon {
    played(path, false, 1.0, &config())
}

fn post(daemon: &Daemon, query: &str) -> Answer {
    let path = format!("/api/v1/replay?{query}");
    request(connect(daemon.address), "POST", &path, &[])
}

fn playback(daemon: &Daemon) -> Value {
    get(daemon.address, "/api/v1/replay", &[]).json()
}

/// A dashboard with the past.
struct Viewer(WebSocket<std::net::TcpStream>);

impl Viewer {
    fn open(daemon: &Daemon) -> Viewer {
        let url = format!("ws://{}/ws?history", daemon.address);
        let (socket, _) = tungstenite::client(url, connect(daemon.address)).expect("a WebSocket");
        Viewer(socket)
    }

    fn next(&mut self) -> ServerMessage {
        loop {
            match self.0.read().expect("the daemon says something") {
                Message::Binary(bytes) => return codec::decode(&bytes).expect("a message"),
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("unexpected: {other:?}"),
            }
        }
    }

    fn snapshot(&mut self) -> Snapshot {
        loop {
            if let ServerMessage::Snapshot(snapshot) = self.next() {
                return *snapshot;
            }
        }
    }
}

#[test]
fn dashboard_and_api_add_up_to_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = recorded(folder.path());
    // Paused, so that the viewer is connected from the first interval on.
    let daemon = played(&path, false, 600.0, &config());
    daemon.ready();
    let mut viewer = Viewer::open(&daemon);
    let mut sum = viewer.snapshot();
    assert_eq!(post(&daemon, "playing=true").status, 200);
    let end_ns = snapshot(RECORDED).time_unix_ns;
    while sum.time_unix_ns < end_ns {
        sum.add(&viewer.snapshot());
    }
    let mut logged = read_log(&path)
        .0
        .into_iter()
        .filter_map(|message| match message {
            ServerMessage::Snapshot(snapshot) => Some(*snapshot),
            _ => None,
        });
    let mut expected = logged.next().expect("an interval");
    logged.for_each(|next| expected.add(&next));
    assert_eq!(sum.interval_ns, expected.interval_ns);
    assert_eq!(sum.sections.cost, expected.sections.cost);
    assert_eq!(sum.sections.modes, expected.sections.modes);
    assert_eq!(playback(&daemon)["state"], "ended");
}

#[test]
fn a_place_is_shown_by_the_api_and_its_past_by_the_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = played(&recorded(folder.path()), false, 1.0, &config());
    daemon.ready();
    let mut viewer = Viewer::open(&daemon);
    viewer.snapshot();
    for number in [9_000, 200, 11_999] {
        let recorded = snapshot(number);
        let at_ms = recorded.time_unix_ns / 1_000_000;
        let answer = post(&daemon, &format!("seek_unix_ms={at_ms}"));
        assert_eq!(answer.json()["position_unix_ms"], at_ms);
        let page = daemon.wait_for("/api/v1/snapshot", |answer| {
            answer.json()["time_unix_ns"] == recorded.time_unix_ns
        });
        let row = |slug: &str| page.json()["components"][slug]["cpu_ns"].clone();
        let network = recorded.cost().cpu_ns(0).expect("a row");
        assert_eq!(row("network"), serde_json::json!(network), "{number}");
        // The past comes first, and ends where the interval begins.
        let mut newest = viewer.next();
        while !matches!(newest, ServerMessage::History(_)) {
            newest = viewer.next();
        }
        let ServerMessage::History(message) = newest else {
            panic!("no past");
        };
        let past = History::from_message(&info(), &message).expect("a history");
        let end_ms = past.point_ms(past.points() - 1).1;
        assert!(
            end_ms < at_ms as f64 && end_ms > at_ms as f64 - 1_000.0,
            "{number}"
        );
        assert_eq!(viewer.snapshot().time_unix_ns, recorded.time_unix_ns);
        let state = playback(&daemon);
        assert_eq!(
            (&state["state"], &state["time_unix_ms"]),
            (&"paused".into(), &at_ms.into())
        );
    }
}

#[test]
fn a_pause_holds_for_every_viewer() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = played(&recorded(folder.path()), true, 10.0, &config());
    daemon.ready();
    let before = playback(&daemon)["position_unix_ms"].clone();
    daemon.wait_for("/api/v1/replay", |answer| {
        answer.json()["position_unix_ms"].as_u64() > before.as_u64()
    });
    post(&daemon, "playing=false");
    // Lets a pending interval through.
    std::thread::sleep(3 * player::PERIOD);
    let (state, page) = (
        playback(&daemon),
        get(daemon.address, "/api/v1/snapshot", &[]).body,
    );
    assert_eq!(state["state"], "paused");
    std::thread::sleep(6 * player::PERIOD);
    assert_eq!(playback(&daemon), state);
    assert_eq!(get(daemon.address, "/api/v1/snapshot", &[]).body, page);
}

#[test]
fn its_description_says_that_it_is_a_recording_and_of_what() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = played(&recorded(folder.path()), true, 1.0, &config());
    daemon.ready();
    let page = get(daemon.address, "/api/v1/info", &[]);
    let info: Info = serde_json::from_value(page.json()).expect("an Info");
    assert!(info.is_recording() && !info.is_demonstration());
    assert!(
        info.notes[0].contains("host testhost, from 2023-11-14 22:13:20 UTC"),
        "{info:?}"
    );
    let course = get(daemon.address, "/api/v1/replay/course", &[]).json();
    assert_eq!(course["mean_ratio"].as_array().map(Vec::len), Some(600));
    let flames = get(daemon.address, "/api/v1/flamegraph", &[]);
    assert_eq!(flames.status, 503);
    assert!(
        flames.text().contains("stacks are not played"),
        "{}",
        flames.text()
    );
}

#[test]
fn a_hostile_request_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let daemon = played(&recorded(folder.path()), false, 1.0, &config());
    daemon.ready();
    daemon.wait_for("/api/v1/replay", |answer| {
        answer.json()["time_unix_ms"] != 0
    });
    let before = playback(&daemon);
    let ask = |method: &str, path: &str, headers: &[(&str, &str)]| {
        request(connect(daemon.address), method, path, headers).status
    };
    let playback_path = "/api/v1/replay?playing=true";
    assert_eq!(
        ask("POST", playback_path, &[("Origin", "http://evil.example")]),
        403
    );
    assert_eq!(ask("POST", playback_path, &[("Origin", "null")]), 403);
    assert_eq!(ask("POST", playback_path, &[("Host", "evil.example")]), 421);
    // A log may claim any name for its host, and that name opens nothing.
    assert_eq!(ask("POST", playback_path, &[("Host", "testhost")]), 421);
    for method in ["PUT", "DELETE", "PATCH"] {
        assert_eq!(ask(method, playback_path, &[]), 405);
    }
    assert_eq!(ask("POST", "/api/v1/replay/course", &[]), 405);
    for query in [
        "",
        "speed=nan",
        "speed=1e300",
        "playing=maybe",
        "seek_unix_ms=-1",
        "x=1",
        "%ff",
    ] {
        assert_eq!(post(&daemon, query).status, 400, "{query}");
    }
    assert_eq!(playback(&daemon), before);
    assert_eq!(
        post(&daemon, "seek_unix_ms=18446744073709551615").status,
        200
    );
    let end = before["end_unix_ms"].clone();
    daemon.wait_for("/api/v1/replay", |answer| {
        answer.json()["time_unix_ms"] == end
    });
}

#[test]
fn a_measurement_has_no_deck() {
    let daemon = Daemon::start(&config(), crate::support::endless());
    daemon.ready();
    for path in ["/api/v1/replay", "/api/v1/replay/course"] {
        assert_eq!(get(daemon.address, path, &[]).status, 404);
    }
    assert_eq!(post(&daemon, "playing=true").status, 404);
}

#[test]
fn the_program_plays_a_log_and_refuses_other_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = recorded(folder.path());
    let netto = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_netto"));
        command.arg("replay").args(arguments);
        command
    };
    let foreign = folder.path().join("foreign");
    std::fs::write(&foreign, "GIF89a").expect("a file");
    for (arguments, code, expected) in [
        (
            vec![foreign.to_str().expect("a path"), "--port=0"],
            1,
            "not a netto log",
        ),
        (
            vec!["/nonexistent.log", "--port=0"],
            1,
            "cannot open the log /nonexistent.log",
        ),
        (
            vec!["x.log", "--speed=0"],
            2,
            "--speed must be 0.1 to 1000 times, not 0",
        ),
        (vec![], 2, "LOG"),
    ] {
        let output = netto(&arguments).output().expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
    let mut child = netto(&[path.to_str().expect("a path"), "--port=0", "--paused"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    let stderr = child.stderr.take().expect("its standard error");
    let lines = std::io::BufRead::lines(std::io::BufReader::new(stderr));
    let begun = Instant::now();
    let mut address = None;
    for line in lines.map_while(Result::ok) {
        if let Some((_, rest)) = line.split_once("dashboard at http://") {
            address = rest.trim_end_matches('/').parse().ok();
            break;
        }
        assert!(begun.elapsed() < LIMIT, "it never serves");
    }
    let address = address.expect("an address");
    until("it shows something", || {
        get(address, "/readyz", &[]).status == 200
    });
    let shown = get(address, "/api/v1/snapshot", &[]).json();
    child.kill().expect("it can be ended");
    child.wait().expect("it ends");
    assert_eq!(shown["time_unix_ns"], snapshot(1).time_unix_ns);
}
