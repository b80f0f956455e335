//! The dashboard as a person meets it: a real browser on a real daemon.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::child;
use crate::daemon::Daemon;
use crate::lab::Network;
use crate::traffic;
use crate::trial::tests;
use crate::webdriver::{Browser, TALL_WINDOW};

tests! {
    browser::the_page_shows_what_the_api_says ["chromium", "chromedriver", "unshare", "ip"];
    browser::the_page_comes_back_after_a_restart_of_the_daemon ["chromium", "chromedriver", "unshare", "ip"]
        = reconnects;
}

/// How often the page is read.
const PAGES: usize = 4;

/// Everything in one script, so that all values are from one snapshot.
const READ_PAGE: &str = r#"
    const root = document.querySelector("[data-sequence]");
    const list = (query, read) => Array.from(document.querySelectorAll(query), read);
    return {
        state: root.dataset.state,
        first: Number(root.dataset.firstSequence),
        sequence: Number(root.dataset.sequence),
        cells: list("td[data-component]", (e) => [e.dataset.component, e.dataset.cpu, e.dataset.ns]),
        entries: list("[data-bar][data-key][data-ratio]", (e) => [e.dataset.key, e.dataset.ratio]),
        drawings: list("svg rect", () => 1).length,
    };
"#;

fn page(browser: &Browser) -> Result<Value> {
    browser.script(READ_PAGE)
}

/// The page once it is live and shows a snapshot of this number or a later one.
fn live_page(browser: &Browser, from: u64) -> Result<Value> {
    child::eventually(|| {
        let page = page(browser)?;
        ensure!(page["state"] == "live", "the page is {}", page["state"]);
        let sequence = page["sequence"].as_u64().unwrap_or_default();
        ensure!(sequence >= from, "the page shows snapshot {sequence}");
        Ok(page)
    })
}

fn the_page_shows_what_the_api_says() -> Result<()> {
    let network = Network::direct()?;
    let daemon = Daemon::start(&[])?;
    let _traffic = traffic::udp(&network.left, &network.right, network.right_v4)?;
    let browser = Browser::start(TALL_WINDOW)?;
    browser.open(&format!("http://{}/", daemon.at))?;
    live_page(&browser, 1)?;

    // Every snapshot of the API is kept by its number while the page is read.
    let kept = Mutex::new(BTreeMap::new());
    let done = AtomicBool::new(false);
    let pages = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if let Ok(snapshot) = daemon.snapshot()
                    && let Some(sequence) = snapshot["sequence"].as_u64()
                    && let Ok(mut kept) = kept.lock()
                {
                    kept.insert(sequence, snapshot);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        std::thread::sleep(Duration::from_millis(600));
        let pages: Result<Vec<Value>> = (0..PAGES)
            .map(|_| {
                std::thread::sleep(Duration::from_millis(700));
                page(&browser)
            })
            .collect();
        std::thread::sleep(Duration::from_millis(600));
        done.store(true, Ordering::Relaxed);
        pages
    })?;
    let kept = kept.into_inner().unwrap_or_default();
    let mut compared = 0;
    for page in &pages {
        let number = |name: &str| page[name].as_u64().context("no sequence");
        let (first, last) = (number("first")?, number("sequence")?);
        let shown: Option<Vec<&Value>> = (first..=last).map(|at| kept.get(&at)).collect();
        if let Some([first_of_all, later @ ..]) = shown.as_deref() {
            let mut sum = (*first_of_all).clone();
            later.iter().for_each(|snapshot| add(&mut sum, snapshot));
            compare(page, &sum).with_context(|| format!("snapshots {first} to {last}"))?;
            compared += 1;
        }
    }
    // Of any other page, the API had a snapshot that was missed.
    ensure!(compared > 0, "no page could be compared");
    let errors = browser.console_errors()?;
    ensure!(errors.is_empty(), "the console has errors: {errors:?}");
    Ok(())
}

/// Adds a later interval: a number on both sides is a time or a count here.
fn add(sum: &mut Value, later: &Value) {
    match (sum, later) {
        (Value::Object(sum), Value::Object(later)) => {
            for (key, value) in sum.iter_mut().filter(|(key, _)| *key != "cpus") {
                // Some keys are there in some intervals only.
                add(value, later.get(key).unwrap_or(&Value::Null));
            }
        }
        (Value::Array(sum), Value::Array(later)) => {
            for (value, later) in sum.iter_mut().zip(later) {
                add(value, later);
            }
        }
        (sum, later) => {
            if let (Some(before), Some(more)) = (sum.as_u64(), later.as_u64()) {
                *sum = Value::from(before.saturating_add(more));
            }
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn compare(page: &Value, snapshot: &Value) -> Result<()> {
    let cpus: Vec<String> = snapshot["cpus"]
        .as_array()
        .context("no CPUs")?
        .iter()
        .map(ToString::to_string)
        .collect();
    let mut right = 0;
    for cell in page["cells"].as_array().context("no cells")? {
        let (slug, cpu, shown) = (text(&cell[0]), text(&cell[1]), text(&cell[2]));
        let row = &snapshot["components"][slug];
        let expected = match cpus.iter().position(|name| name == cpu) {
            Some(column) => &row["cpu_ns"][column],
            None if cpu == "all" => &row["total_ns"],
            // Other columns, such as sums since the page was opened.
            None => continue,
        };
        match expected.as_u64() {
            Some(ns) => ensure!(
                shown == ns.to_string(),
                "{slug} on CPU {cpu} shows {shown}, the API says {ns}"
            ),
            None => ensure!(shown.is_empty(), "{slug} on CPU {cpu} shows {shown}: {row}"),
        }
        right += usize::from(expected.is_u64());
    }
    // At least the timed events and the parts of one of them.
    ensure!(right >= 20, "only {right} cells with a value");
    compare_bars(page, snapshot)?;
    ensure!(
        page["drawings"].as_u64().unwrap_or_default() >= 3,
        "the chart is not drawn"
    );
    Ok(())
}

/// The parts of the RX softirq, and the modes of the CPUs, as ratios of their bar.
fn compare_bars(page: &Value, snapshot: &Value) -> Result<()> {
    let entries: BTreeMap<&str, f64> = page["entries"]
        .as_array()
        .context("no entries")?
        .iter()
        .filter_map(|entry| Some((text(&entry[0]), text(&entry[1]).parse().ok()?)))
        .collect();
    let whole_ns = snapshot["components"]["rx_softirq"]["total_ns"]
        .as_f64()
        .context("no RX softirq")?;
    ensure!(whole_ns > 0.0, "no RX softirq under traffic");
    for slug in ["local_delivery_v4", "backlog", "rx_unattributed"] {
        let part_ns = snapshot["components"][slug]["total_ns"]
            .as_f64()
            .with_context(|| format!("{slug} is not measured"))?;
        let shown = entries
            .get(slug)
            .with_context(|| format!("no entry {slug} in {entries:?}"))?;
        close(slug, *shown, part_ns / whole_ns)?;
    }
    let modes = snapshot["cpu_modes"]["host"]
        .as_object()
        .context("no modes")?;
    let all_ns: f64 = modes.values().filter_map(Value::as_f64).sum();
    for mode in ["user", "idle"] {
        let own_ns = modes[&format!("{mode}_ns")].as_f64().context("no number")?;
        let shown = entries
            .get(mode)
            .with_context(|| format!("no entry {mode} in {entries:?}"))?;
        close(mode, *shown, own_ns / all_ns)?;
    }
    Ok(())
}

/// Equal but for the rounding of a page.
fn close(what: &str, shown: f64, expected: f64) -> Result<()> {
    ensure!(
        (shown - expected).abs() < 1e-4,
        "the entry {what} has the ratio {shown}, the API says {expected}"
    );
    Ok(())
}

fn reconnects() -> Result<()> {
    let first = Daemon::start(&["--user-period", "200"])?;
    let port = first.at.port();
    let browser = Browser::start(TALL_WINDOW)?;
    browser.open(&format!("http://{}/", first.at))?;
    live_page(&browser, 3)?;
    browser.console_errors()?;
    first.terminate()?;
    child::eventually(|| {
        let page = page(&browser)?;
        ensure!(
            page["state"] != "live",
            "the page still says that it is live"
        );
        Ok(())
    })?;
    let second = Daemon::start_on(port, &["--user-period", "200"])?;
    let again = live_page(&browser, 1)?;
    let (shown, made) = (
        again["sequence"].as_u64().unwrap_or_default(),
        second.sequence()?,
    );
    ensure!(
        shown <= made,
        "the page shows snapshot {shown}, the new daemon has made {made}"
    );
    live_page(&browser, made + 2)?;
    // That the old connection broke, and attempts were refused meanwhile, is no fault of the page.
    let errors: Vec<String> = browser
        .console_errors()?
        .into_iter()
        .filter(|error| !error.contains("WebSocket connection"))
        .collect();
    ensure!(errors.is_empty(), "the console has errors: {errors:?}");
    Ok(())
}
