//! The cost of the page: its download, the past that it is given, and memory over time. The size
//! of messages, which varies, is held by seeds (`offline/log_size.rs`).

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use metrics_common::codec::{self, ServerMessage};
use metrics_common::history::History;
use serde_json::json;
use tungstenite::Message;

use crate::browser::Browser;
use crate::child;
use crate::demo::{self, Demo};
use crate::http;
use crate::trial::tests;

tests! {
    page;
    endurance::who_wants_the_past_gets_it_before_the_first_snapshot;
    endurance::the_program_is_at_most_600_kilobytes_compressed = program;
    endurance::a_page_left_open_does_not_grow = memory;
}

const KILOBYTE: usize = 1_000;

fn who_wants_the_past_gets_it_before_the_first_snapshot() -> Result<()> {
    let demo = demo::wide()?;
    for (path, wants_past) in [("ws", false), ("ws?history", true)] {
        let stream = http::connect(demo.at)?;
        let (mut socket, _) = tungstenite::client(format!("ws://{}/{path}", demo.at), stream)
            .context("no WebSocket")?;
        let mut snapshots = 0;
        let (mut host, mut past) = (None, None);
        while snapshots < 2 {
            let Message::Binary(bytes) = socket.read()? else {
                continue;
            };
            match codec::decode(&bytes)? {
                ServerMessage::Snapshot(snapshot) => {
                    ensure!(snapshot.cpus.len() == 128);
                    snapshots += 1;
                }
                ServerMessage::History(message) => {
                    ensure!(snapshots == 0, "the past comes first");
                    let info = host
                        .as_deref()
                        .context("the daemon introduces itself first")?;
                    past = Some(History::from_message(info, &message)?);
                }
                ServerMessage::Hello(info) => host = Some(info),
                ServerMessage::Bye(_) | ServerMessage::Gap(_) | ServerMessage::Stacks(_) => {}
            }
        }
        ensure!(past.is_some() == wants_past, "{path}");
        if let Some(past) = past {
            let (from, to) = (past.point_ms(0).0, past.point_ms(past.points() - 1).1);
            ensure!(to - from >= 15.0 * 60_000.0, "{} ms of past", to - from);
        }
    }
    Ok(())
}

fn program() -> Result<()> {
    let demo = demo::usual()?;
    let request = format!(
        "GET /netto_dashboard_bg.wasm HTTP/1.1\r\nHost: {}\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n",
        demo.at
    );
    let answer = http::raw(demo.at, request.as_bytes())?;
    let head = answer.head.to_ascii_lowercase();
    ensure!(head.contains("content-encoding: gzip"), "{head}");
    let length: usize = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok())
        .context("no length")?;
    ensure!(length <= 600 * KILOBYTE, "{length} bytes");
    Ok(())
}

/// Bytes of WebAssembly's memory and of JavaScript's heap after a collection,
/// and the number of elements in the document.
fn used(browser: &Browser) -> Result<[f64; 3]> {
    browser.cdp("HeapProfiler.collectGarbage", json!({}))?;
    let heap = browser.cdp("Runtime.getHeapUsage", json!({}))?;
    // A module that is loaded again is the one that runs already.
    let wasm = browser.promise(
        "import('/netto_dashboard.js').then((m) => m.default()).then((w) => w.memory.buffer.byteLength)",
    )?;
    let elements = browser.script("return document.querySelectorAll('*').length")?;
    let number = |value: &serde_json::Value| value.as_f64().context("no number");
    Ok([
        number(&wasm)?,
        number(&heap["usedSize"])?,
        number(&elements)?,
    ])
}

fn memory() -> Result<()> {
    // Ten times the usual pace: the minute that this takes is ten of a page's.
    let demo = Demo::start(128, 50)?;
    let browser = Browser::tall()?;
    browser.open(&demo.page(""))?;
    let shown = |browser: &Browser, count: u64| -> Result<()> {
        let script = "return Number(document.getElementById('netto').dataset.sequence)";
        let from = browser.script(script)?.as_u64().context("no sequence")?;
        child::within(Duration::from_secs(180), || {
            let now = browser.script(script)?.as_u64().unwrap_or_default();
            ensure!(now >= from + count, "the page is at {now}, from {from}");
            Ok(())
        })
    };
    shown(&browser, 300)?;
    let before = used(&browser)?;
    shown(&browser, 900)?;
    let after = used(&browser)?;
    let grown = |at: usize| after[at] - before[at];
    ensure!(
        grown(0) <= 512.0 * 1024.0,
        "WebAssembly: {before:?} to {after:?}"
    );
    ensure!(
        grown(1) <= 1024.0 * 1024.0,
        "JavaScript: {before:?} to {after:?}"
    );
    ensure!(grown(2) <= 200.0, "elements: {before:?} to {after:?}");
    browser.must_be_content()
}
