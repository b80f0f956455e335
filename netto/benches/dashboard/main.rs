//! What the dashboard costs its reader: a real browser that watches a made-up
//! host of 128 CPUs at the usual pace. Needs no root, but Chromium and its driver.
//!
//! Prints one line per figure: name, median, and the bounds of the middle half.
//! `--minutes N` is how long the page with everything in sight is watched.
//! The course of its memory, a line a minute, goes to standard error.

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../../tests/dashboard/browser.rs"]
mod browser;
#[allow(dead_code, reason = "the root tests use more of it")]
#[path = "../../tests/common/mod.rs"]
mod common;
#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../../tests/dashboard/demo.rs"]
mod demo;
mod processes;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use browser::Browser;
use common::{child, http, webdriver};
use demo::Demo;
use metrics_common::codec::{self, ServerMessage};
use serde_json::{Value, json};
use tungstenite::Message;

const CPUS: u32 = 128;
const PERIOD_MS: u32 = 500;
/// Tall enough that no view is out of sight, and what a reader usually has.
const TALL: (u32, u32) = (1400, 3200);
const USUAL: (u32, u32) = (1400, 900);
/// What is drawn first, and the compiler's second look at the code, are over by then.
const SETTLE: Duration = Duration::from_secs(15);
/// A CPU share is taken over this long.
const STRETCH: Duration = Duration::from_secs(10);
/// How often a page is opened to see how soon it shows something.
const OPENINGS: usize = 7;
/// Snapshots whose size is looked at.
const FRAMES: usize = 40;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let minutes = words
        .iter()
        .position(|word| word == "--minutes")
        .and_then(|at| words.get(at + 1)?.parse::<u64>().ok())
        .unwrap_or(1)
        .max(1);
    let demo = Demo::start(CPUS, PERIOD_MS)?;
    print("frame_bytes", frames(&demo)?);
    print("wasm_compressed_bytes", [compressed_program(&demo)?]);
    openings(&demo)?;

    let browser = Browser::start(USUAL.0, USUAL.1)?;
    browser.open(&demo.page(""))?;
    std::thread::sleep(SETTLE);
    let usual = stretches(&browser, Duration::from_secs(60), |_| Ok(()))?;
    print_cpu("usual", &usual);
    drop(browser);

    let browser = Browser::start(TALL.0, TALL.1)?;
    browser.open(&demo.page(""))?;
    std::thread::sleep(SETTLE);
    let mut course: Vec<Memory> = Vec::new();
    let mut next = Instant::now();
    let tall = stretches(&browser, Duration::from_secs(60 * minutes), |browser| {
        // A collection costs CPU time: once a minute is seldom enough.
        if Instant::now() >= next {
            next += Duration::from_secs(60);
            let memory = memory(browser)?;
            eprintln!("minute {}: {memory:?}", course.len());
            course.push(memory);
        }
        Ok(())
    })?;
    let last = memory(&browser)?;
    eprintln!("at the end: {last:?}");
    course.push(last);
    print_cpu("tall", &tall);
    // The first minute is still filling what is bounded.
    let first = course.get(1).or(course.first()).context("no memory seen")?;
    for (name, of) in Memory::FIGURES {
        print(&format!("{name}_begin"), [of(first)]);
        print(&format!("{name}_end"), [of(&last)]);
    }
    browser.must_be_content()
}

/// Bytes of snapshots on the wire.
fn frames(demo: &Demo) -> Result<Vec<f64>> {
    let stream = http::connect(demo.at)?;
    let (mut socket, _) =
        tungstenite::client(format!("ws://{}/ws", demo.at), stream).context("no WebSocket")?;
    let mut sizes = Vec::new();
    while sizes.len() < FRAMES {
        if let Message::Binary(bytes) = socket.read()?
            && let ServerMessage::Snapshot(_) = codec::decode(&bytes)?
        {
            sizes.push(bytes.len() as f64);
        }
    }
    Ok(sizes)
}

/// Bytes of the page's program as it goes over the wire.
fn compressed_program(demo: &Demo) -> Result<f64> {
    let request = format!(
        "GET /netto_dashboard_bg.wasm HTTP/1.1\r\nHost: {}\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n",
        demo.at
    );
    let answer = http::raw(demo.at, request.as_bytes())?;
    answer
        .head
        .to_ascii_lowercase()
        .lines()
        .find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok())
        .context("the program's length is not told")
}

/// Runs before the page's own scripts: notes when the first values are there.
const WATCH_FOR_VALUES: &str = r#"
    new MutationObserver((_, watcher) => {
        const root = document.getElementById("netto");
        if (root && root.dataset.sequence) {
            window.valuesAt = performance.now();
            watcher.disconnect();
        }
    }).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-sequence"] });
"#;

/// How soon after its address is entered a page shows something, and values.
fn openings(demo: &Demo) -> Result<()> {
    let browser = Browser::start(USUAL.0, USUAL.1)?;
    browser.cdp("Network.enable", json!({}))?;
    browser.cdp("Network.setCacheDisabled", json!({ "cacheDisabled": true }))?;
    browser.cdp(
        "Page.addScriptToEvaluateOnNewDocument",
        json!({ "source": WATCH_FOR_VALUES }),
    )?;
    let (mut paints, mut values) = (Vec::new(), Vec::new());
    for _ in 0..OPENINGS {
        browser.open(&demo.page(""))?;
        browser.wait_until("values are shown", "return window.valuesAt > 0")?;
        let found = browser.script(
            "return [performance.getEntriesByName('first-contentful-paint')[0].startTime, window.valuesAt]",
        )?;
        paints.push(number(&found[0])?);
        values.push(number(&found[1])?);
    }
    print("first_paint_ms", paints);
    print("first_values_ms", values);
    Ok(())
}

/// One figure of a page's memory.
type Read = fn(&Memory) -> f64;

/// What a page holds after a collection.
#[derive(Debug, Clone, Copy)]
struct Memory {
    wasm_bytes: f64,
    heap_bytes: f64,
    nodes: f64,
    renderer_bytes: f64,
}

impl Memory {
    const FIGURES: [(&'static str, Read); 4] = [
        ("wasm_bytes", |memory| memory.wasm_bytes),
        ("heap_bytes", |memory| memory.heap_bytes),
        ("nodes", |memory| memory.nodes),
        ("renderer_bytes", |memory| memory.renderer_bytes),
    ];
}

fn memory(browser: &Browser) -> Result<Memory> {
    // What one collection only lets go of, the next one frees.
    for _ in 0..2 {
        browser.cdp("HeapProfiler.collectGarbage", json!({}))?;
    }
    let heap = browser.cdp("Runtime.getHeapUsage", json!({}))?;
    let counters = browser.cdp("Memory.getDOMCounters", json!({}))?;
    // A module that is loaded again is the one that runs already.
    let wasm = browser.promise(
        "import('/netto_dashboard.js').then((m) => m.default()).then((w) => w.memory.buffer.byteLength)",
    )?;
    Ok(Memory {
        wasm_bytes: number(&wasm)?,
        heap_bytes: number(&heap["usedSize"])?,
        nodes: number(&counters["nodes"])?,
        renderer_bytes: processes::used_below(browser.driver_pid())?.renderer_bytes,
    })
}

/// Shares of a CPU in one stretch of time.
struct Share {
    renderer: f64,
    other: f64,
}

/// CPU shares of stretch after stretch; `between` is not part of any.
fn stretches(
    browser: &Browser,
    length: Duration,
    mut between: impl FnMut(&Browser) -> Result<()>,
) -> Result<Vec<Share>> {
    let begun = Instant::now();
    let mut shares = Vec::new();
    while begun.elapsed() < length {
        between(browser)?;
        let (before, from) = (processes::used_below(browser.driver_pid())?, Instant::now());
        std::thread::sleep(STRETCH);
        let after = processes::used_below(browser.driver_pid())?;
        let seconds = from.elapsed().as_secs_f64();
        shares.push(Share {
            renderer: (after.renderer_seconds - before.renderer_seconds) / seconds,
            other: (after.other_seconds - before.other_seconds) / seconds,
        });
    }
    Ok(shares)
}

fn print_cpu(window: &str, shares: &[Share]) {
    let percent = |of: fn(&Share) -> f64| shares.iter().map(move |share| 100.0 * of(share));
    print(
        &format!("{window}_renderer_percent"),
        percent(|share| share.renderer),
    );
    print(
        &format!("{window}_other_percent"),
        percent(|share| share.other),
    );
}

fn number(value: &Value) -> Result<f64> {
    value.as_f64().context("no number")
}

/// A figure's line: its name, the median, and where the middle half lies.
fn print(name: &str, values: impl IntoIterator<Item = f64>) {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    if let Some(last) = values.len().checked_sub(1) {
        let median = (values[last / 2] + values[last.div_ceil(2)]) / 2.0;
        println!(
            "{name} {median} {} {}",
            values[last / 4],
            values[last - last / 4]
        );
    }
}
