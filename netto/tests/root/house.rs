//! A netto with two more features, built by `cargo xtask house`: `ticks` counts its ticks and raised
//! softirqs, `faulty` fails at its third tick. The netto of this workspace, which knows neither, runs
//! beside it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use metrics_common::codec::ServerMessage;
use metrics_common::log::LogReader;
use metrics_common::{Availability, Info};

use crate::child;
use crate::daemon::Daemon;
use crate::http;
use crate::trial::Test;
use crate::webdriver::{Browser, TALL_WINDOW};

const VARIABLE: &str = "NETTO_HOUSE";
const LIMIT: Duration = Duration::from_secs(30);
const QUICK: &[&str] = &["--user-period", "100"];

const TESTS: &[Test] = &[
    Test {
        name: "house::an_added_instrument_is_in_check_and_api_and_one_that_fails_is_switched_off",
        tools: &[],
        body: check_and_api,
    },
    Test {
        name: "house::logs_are_read_by_who_knows_less_and_by_who_knows_more",
        tools: &[],
        body: logs,
    },
    Test {
        name: "house::an_added_view_is_on_the_page_where_its_section_is_and_nowhere_else",
        tools: &["chromium", "chromedriver"],
        body: pages,
    },
];

/// The tests, if the changed netto was built.
pub fn tests() -> &'static [Test] {
    match std::env::var_os(VARIABLE) {
        Some(_) => TESTS,
        None => &[],
    }
}

/// A file that xtask has built of the changed netto.
fn built(name: &str) -> Result<PathBuf> {
    let folder = std::env::var_os(VARIABLE).context("NETTO_HOUSE is not set")?;
    Ok(Path::new(&folder).join(name))
}

/// A netto that has both instruments.
fn changed(options: &[&str]) -> Result<Daemon> {
    Daemon::start_program(&built("netto")?, options)
}

/// The netto of this workspace.
fn unchanged(options: &[&str]) -> Result<Daemon> {
    Daemon::start_program(Path::new(env!("CARGO_BIN_EXE_netto")), options)
}

/// Waits until so many snapshots were made.
fn wait_for(daemon: &Daemon, snapshots: u64) -> Result<()> {
    child::eventually(LIMIT, || {
        let made = daemon.sequence()?;
        ensure!(made >= snapshots, "only {made} snapshots");
        Ok(())
    })
}

fn availability<'a>(info: &'a Info, name: &str) -> Option<&'a Availability> {
    let found = info.instruments.iter().find(|own| own.name == name);
    found.map(|instrument| &instrument.availability)
}

fn check_and_api() -> Result<()> {
    let report = child::run(Command::new(built("netto")?).arg("check"))?;
    let is_there = |line: &str| line.split_whitespace().eq(["ticks", "running"]);
    ensure!(report.lines().any(is_there), "check says:\n{report}");

    let mut daemon = changed(QUICK)?;
    wait_for(&daemon, 4)?;
    let info = daemon.info()?;
    let ticks = availability(&info, "ticks");
    ensure!(ticks == Some(&Availability::by("running")), "{ticks:?}");
    let faulty = availability(&info, "faulty");
    let cause = "its third tick was too much for it";
    let expected = Availability::missing(format!("switched off: {cause}"));
    ensure!(faulty == Some(&expected), "{faulty:?}");
    let note = format!("faulty is switched off: {cause}.");
    ensure!(info.notes.contains(&note), "the notes are {:?}", info.notes);

    let first = count(&daemon)?;
    wait_for(&daemon, daemon.sequence()? + 3)?;
    let second = count(&daemon)?;
    ensure!(second >= first + 3, "{first} ticks, and then {second}");
    let metrics = http::get_ok(daemon.at, "/metrics")?.body;
    let raised = metrics
        .lines()
        .find_map(|line| line.strip_prefix("netto_raised_softirqs_total{host=\"this\"} "));
    let raised: f64 = raised.context("/metrics has no softirqs")?.parse()?;
    ensure!(raised > 0.0, "/metrics has {raised} softirqs");
    let answer = http::get_ok(daemon.at, "/api/v1/ticks")?.body;
    let answer: serde_json::Value = serde_json::from_str(&answer)?;
    ensure!(answer["raised"].is_u64(), "/api/v1/ticks says {answer}");
    daemon.must_live()
}

/// Ticks of the newest snapshot, which are as many as there were snapshots.
fn count(daemon: &Daemon) -> Result<u64> {
    let snapshot = daemon.snapshot()?;
    let ticks = &snapshot["ticks"]["count"];
    ensure!(*ticks == snapshot["sequence"], "the snapshot says {ticks}");
    ticks.as_u64().context("ticks are no number")
}

fn logs() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("ticks.log");
    let text = path.to_string_lossy();
    let options = [QUICK, &["--log-file", &text]].concat();

    let daemon = changed(&options)?;
    wait_for(&daemon, 5)?;
    daemon.terminate()?;
    let mut reader = LogReader::new(File::open(&path)?)?;
    let mut snapshots = 0;
    for message in reader.by_ref() {
        if let ServerMessage::Snapshot(snapshot) = message? {
            snapshots += 1;
            let is_whole = snapshot.sequence == snapshots && snapshot.sections.has("cost");
            ensure!(is_whole, "snapshot {snapshots} is {snapshot:?}");
        }
    }
    ensure!(snapshots >= 5, "only {snapshots} snapshots");
    let lost = (reader.unknown_messages(), reader.damaged_stretches());
    ensure!(lost == (0, 0), "unknown and damaged messages: {lost:?}");
    let found = read_by_changed(&path)?;
    let all =
        format!("snapshots {snapshots} cost {snapshots} ticks {snapshots} unknown 0 damaged 0");
    ensure!(found == all, "who knows all of it says {found}");

    std::fs::remove_file(&path)?;
    let daemon = unchanged(&options)?;
    wait_for(&daemon, 5)?;
    daemon.terminate()?;
    let found = read_by_changed(&path)?;
    let words: Vec<&str> = found.split_whitespace().collect();
    let number = words.get(1).context("nothing was said")?;
    ensure!(number.parse::<u64>()? >= 5, "{found}");
    let all = format!("snapshots {number} cost {number} ticks 0 unknown 0 damaged 0");
    ensure!(found == all, "who knows more says {found}");
    Ok(())
}

/// The output of the changed reader for a log.
fn read_by_changed(path: &Path) -> Result<String> {
    let said = child::run(Command::new(built("read_log")?).arg(path))?;
    Ok(said.trim().to_owned())
}

/// The page's state, its views that are shown, and the ticks.
const READ: &str = "const views = Array.from(document.querySelectorAll('[data-view]')); \
    const ticks = document.getElementById('ticks-count'); \
    return { \
        state: document.getElementById('netto').dataset.state, \
        sequence: Number(document.getElementById('netto').dataset.sequence), \
        shown: views.filter((view) => !view.hidden).map((view) => view.dataset.view), \
        ticks: ticks && Number(ticks.textContent), \
    }";

/// The content of a page, once it is live and has drawn a few snapshots.
fn page(browser: &Browser, at: SocketAddr, fragment: &str) -> Result<serde_json::Value> {
    // Another fragment alone would not load the page anew.
    browser.open("about:blank")?;
    browser.open(&format!("http://{at}/{fragment}"))?;
    child::eventually(LIMIT, || {
        let page = browser.script(READ)?;
        let is_live = page["state"] == "live" && page["sequence"].as_u64() >= Some(2);
        ensure!(is_live, "the page shows {page}");
        Ok(page)
    })
}

fn shows(page: &serde_json::Value, view: &str) -> bool {
    page["shown"]
        .as_array()
        .is_some_and(|shown| shown.iter().any(|own| own == view))
}

fn pages() -> Result<()> {
    let with = changed(QUICK)?;
    let without = unchanged(QUICK)?;
    let browser = Browser::start(TALL_WINDOW)?;

    let seen = page(&browser, with.at, "")?;
    let has_ticks = shows(&seen, "ticks") && seen["ticks"] == seen["sequence"];
    ensure!(has_ticks && shows(&seen, "now"), "the page shows {seen}");
    let seen = page(&browser, with.at, "#hide=ticks")?;
    ensure!(!shows(&seen, "ticks"), "hidden by the reader: {seen}");
    ensure!(shows(&seen, "now"), "hidden with the ticks: {seen}");

    let newer_page = relay(with.at, without.at)?;
    let seen = page(&browser, newer_page, "")?;
    let is_absent = !shows(&seen, "ticks") && shows(&seen, "now");
    ensure!(is_absent, "without the section: {seen}");

    let older_page = relay(without.at, with.at)?;
    let seen = page(&browser, older_page, "")?;
    ensure!(seen["ticks"].is_null(), "this is the newer page: {seen}");
    ensure!(shows(&seen, "now"), "with a section unknown to it: {seen}");

    let errors = browser.console_errors()?;
    ensure!(errors.is_empty(), "the console has errors: {errors:?}");
    Ok(())
}

/// An address that serves the page of one daemon with the measurements of another.
fn relay(page: SocketAddr, measurements: SocketAddr) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port for a relay")?;
    let at = listener.local_addr()?;
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // A connection that breaks is the browser's to complain of.
            std::thread::spawn(move || pass_on(client, page, measurements));
        }
    });
    Ok(at)
}

fn pass_on(mut client: TcpStream, page: SocketAddr, measurements: SocketAddr) -> io::Result<()> {
    let mut begin = [0; 8];
    client.read_exact(&mut begin)?;
    let is_socket = begin.starts_with(b"GET /ws");
    let mut server = TcpStream::connect(if is_socket { measurements } else { page })?;
    server.write_all(&begin)?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
        to_server.shutdown(Shutdown::Write)
    });
    io::copy(&mut server, &mut client)?;
    client.shutdown(Shutdown::Write)
}
