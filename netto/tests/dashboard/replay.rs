//! The dashboard of a log: its playback works by button, keyboard and slider, and it shows the
//! recorded values.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use metrics_common::Snapshot;
use metrics_common::codec::ServerMessage;
use netto_demo::Demo;
use netto_log_format::LogBuilder;
use netto_pipeline::trace_analyzer::SnapshotSource;
use netto_report::standalone::Standalone;
use serde_json::json;

use crate::browser::Browser;
use crate::child::{self, Owned};
use crate::http;
use crate::trial::tests;

tests! {
    page;
    replay::the_page_of_a_log_is_labelled_and_shows_what_was_recorded = labelled;
    replay::the_deck_is_worked_by_buttons_keys_and_slider = playback;
    replay::it_fits_into_windows_of_any_kind = fits;
    replay::one_file_shows_a_recording_without_a_daemon = standalone;
}

/// Twenty minutes of half seconds, with a gap of five.
const RECORDED: u64 = 2_400;
const BEGIN_NS: u64 = 1_700_000_000_000_000_000;
const INTERVAL_NS: u64 = 500_000_000;

/// What was recorded, made up once.
static SNAPSHOTS: LazyLock<Vec<Snapshot>> = LazyLock::new(|| {
    let Demo { mut source, .. } = netto_demo::demo(settings());
    let snapshots = (1..=RECORDED).map_while(move |number| {
        let snapshot = source.next_snapshot().ok()?;
        let pause = if number > 1_000 { 600 } else { 0 };
        Some(Snapshot {
            time_unix_ns: BEGIN_NS + (number + pause) * INTERVAL_NS,
            ..snapshot
        })
    });
    snapshots.collect()
});

fn settings() -> netto_demo::Settings {
    netto_demo::Settings {
        cpus: 4,
        seed: 7,
        period: Duration::from_nanos(INTERVAL_NS),
        frequency_hz: 1000,
        features: netto::features::FEATURES,
        without: &["owners", "latency"],
    }
}

/// Writes a log of a made-up host that is not labelled as one.
fn record(path: &Path) -> Result<()> {
    let Demo { mut info, .. } = netto_demo::demo(settings());
    info.notes.clear();
    info.hostname = "web-1".to_owned();
    let mut log = LogBuilder::default();
    let hello = std::iter::once(ServerMessage::Hello(Box::new(info)));
    let all = SNAPSHOTS.iter().cloned();
    let all = all.map(|snapshot| ServerMessage::Snapshot(Box::new(snapshot)));
    for message in hello.chain(all) {
        log.push(&message)?;
    }
    std::fs::write(path, log.finish()).context("cannot write the log")
}

/// `netto replay` as a process, and its log.
struct Replay {
    _process: Owned,
    at: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Replay {
    fn start(options: &[&str]) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("netto.log");
        record(&path)?;
        let port = child::free_port()?;
        let mut command = child::mortal(env!("CARGO_BIN_EXE_netto"));
        command
            .args(["replay", "--address=127.0.0.1", "--log-level=warn"])
            .arg(format!("--port={port}"))
            .args(options)
            .arg(&path);
        let mut process = Owned::start(&mut command)?;
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        child::eventually(|| match process.try_wait()? {
            Some(status) => bail!("netto replay ended ({status}): {}", process.stderr()),
            None => http::get_ok(at, "/readyz").map(drop),
        })?;
        Ok(Replay {
            _process: process,
            at,
            _folder: folder,
        })
    }

    fn page(&self) -> String {
        format!("http://{}/", self.at)
    }

    fn playback(&self) -> Result<serde_json::Value> {
        http::get_ok(self.at, "/api/v1/replay")?.json()
    }

    fn wait_for_state(&self, state: &str) -> Result<()> {
        child::eventually(|| {
            let playback = self.playback()?;
            ensure!(playback["state"] == state, "not {state}: {playback}");
            Ok(())
        })
    }
}

/// Waits until the page's table has the value of this interval.
fn shows(browser: &Browser, snapshot: &Snapshot) -> Result<()> {
    let ns = snapshot.total_ns(0).context("networking is measured")?;
    browser.wait_until(
        &format!("the table has networking's {ns} ns"),
        &format!(
            "return document.querySelector('td[data-component=network][data-cpu=all]')?.dataset.ns === '{ns}'"
        ),
    )
}

fn labelled() -> Result<()> {
    let replay = Replay::start(&["--paused"])?;
    let browser = Browser::tall()?;
    browser.open(&replay.page())?;
    browser.wait_until(
        "the course is drawn",
        "return document.querySelector('#replay-course .mean')?.getAttribute('d').length > 1000",
    )?;
    ensure!(browser.text("#replay-title")?.contains("RECORDING"));
    ensure!(browser.text("#replay-what")? == "of web-1");
    ensure!(browser.text("#link")? == "recording");
    ensure!(browser.text("[data-act=live]")? == "Follow");
    ensure!(
        browser
            .text("#notes")?
            .contains("from 2023-11-14 22:13:20 UTC")
    );
    ensure!(browser.text("#banner")?.is_empty());
    let first = SNAPSHOTS.first().context("an interval")?;
    shows(&browser, first)?;
    // It stands still, which is no reason to think that the daemon is gone.
    browser.let_a_minute_pass()?;
    ensure!(browser.script("return document.getElementById('netto').dataset.state")? == "live");
    shows(&browser, first)?;
    // A request of another viewer is visible here.
    let middle = SNAPSHOTS.get(1_800).context("an interval")?;
    let to_ms = middle.time_unix_ns / 1_000_000;
    let path = format!("/api/v1/replay?seek_unix_ms={to_ms}");
    ensure!(http::request(replay.at, "POST", &path, None)?.status == 200);
    shows(&browser, middle)?;
    browser.wait_until(
        "the slider is there too",
        &format!("return document.getElementById('replay-slider').valueAsNumber === {to_ms}"),
    )?;
    browser.must_be_content()
}

fn playback() -> Result<()> {
    let replay = Replay::start(&[])?;
    let browser = Browser::tall()?;
    browser.open(&replay.page())?;
    browser.wait_until(
        "it plays",
        "return document.getElementById('replay-play').textContent === 'Pause'",
    )?;
    browser.key(" ")?;
    replay.wait_for_state("paused")?;
    browser.wait_until(
        "the page says so",
        "return document.getElementById('replay-state').textContent === 'paused'",
    )?;
    browser.click("speed:60")?;
    child::eventually(|| {
        ensure!(replay.playback()?["speed"] == 60.0);
        Ok(())
    })?;
    browser.wait_until(
        "the speed is marked",
        "return document.querySelector('[data-act=\"speed:60\"]').ariaPressed === 'true'",
    )?;
    // By keyboard to the end: the last interval, and the past before it.
    browser.script("document.getElementById('replay-slider').focus()")?;
    browser.cdp(
        "Input.dispatchKeyEvent",
        json!({ "type": "keyDown", "key": "End", "code": "End", "windowsVirtualKeyCode": 35 }),
    )?;
    let last = SNAPSHOTS.last().context("an interval")?;
    shows(&browser, last)?;
    replay.wait_for_state("ended")?;
    browser.wait_until(
        "the page says that it is over",
        "return document.getElementById('replay-state').textContent === 'the recording ends here' \
         && document.getElementById('replay-play').textContent === 'Play again'",
    )?;
    let begins = browser.script(
        "return document.querySelector('#events polygon').getAttribute('points').split(' ')[0].split(',')[0]",
    )?;
    ensure!(begins == "44", "the chart begins at pixel {begins}");
    browser.click("play")?;
    replay.wait_for_state("playing")?;
    browser.must_be_content()
}

fn fits() -> Result<()> {
    let folder = std::env::var_os("NETTO_SCREENSHOTS").map(std::path::PathBuf::from);
    let replay = Replay::start(&["--paused"])?;
    let end = replay.playback()?["end_unix_ms"]
        .as_u64()
        .context("an end")?;
    let path = format!("/api/v1/replay?seek_unix_ms={}", end - 60_000);
    http::request(replay.at, "POST", &path, None)?;
    let browser = Browser::start(1280, 900)?;
    for (name, width, height, scheme) in [
        ("replay-light", 1280, 900, "light"),
        ("replay-dark", 1280, 900, "dark"),
        ("replay-narrow", 360, 800, "light"),
    ] {
        browser.resize(width, height)?;
        browser.prefer(scheme)?;
        browser.open(&replay.page())?;
        browser.wait_until(
            "the playback is there",
            "return document.querySelector('#replay-course .mean') !== null \
             && document.getElementById('replay-time').textContent !== ''",
        )?;
        let wide = browser.script("return document.documentElement.scrollWidth")?;
        ensure!(wide == json!(width), "{name} is {wide} pixels wide");
        if let Some(folder) = &folder {
            let picture = browser.cdp("Page.captureScreenshot", json!({}))?;
            let encoded = picture["data"].as_str().context("no picture")?;
            let bytes = base64::engine::general_purpose::STANDARD.decode(encoded)?;
            std::fs::create_dir_all(folder)?;
            std::fs::write(folder.join(format!("{name}.png")), bytes)?;
        }
    }
    browser.must_be_content()
}

fn standalone() -> Result<()> {
    let Demo { info, .. } = netto_demo::demo(settings());
    let all = &*SNAPSHOTS;
    let end_ns = all.last().context("an interval")?.time_unix_ns;
    let mut report = Standalone::new(&info, BEGIN_NS, end_ns);
    all.iter().for_each(|snapshot| report.add(snapshot));
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("report.html");
    std::fs::write(&path, report.html()?)?;
    let browser = Browser::tall()?;
    browser.open(&format!("file://{}", path.display()))?;
    let network_ns: u64 = all.iter().filter_map(|one| one.total_ns(0)).sum();
    let has_sum = format!(
        "return document.querySelector('td[data-component=network][data-cpu=all]')?.dataset.ns === '{network_ns}'"
    );
    browser.wait_until("the table has the sum of all intervals", &has_sum)?;
    browser.wait_until(
        "the chart begins with the recording",
        "return document.querySelector('#events polygon')?.getAttribute('points').split(' ')[0].split(',')[0] < 60",
    )?;
    ensure!(browser.text("#link")?.contains("a report"));
    ensure!(browser.script("return document.getElementById('replay').hidden")? == true);
    // The daemon is gone, as intended.
    browser.let_a_minute_pass()?;
    ensure!(browser.script("return document.getElementById('netto').dataset.state")? == "live");
    browser.must_be_content()
}
