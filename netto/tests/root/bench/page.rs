//! The cost of the page in a real browser, for a made-up host of 128 CPUs.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use metrics_common::codec::{self, ServerMessage};
use metrics_common::compact::compact;
use netto_pipeline::compression;

use super::{Options, figure, processes};
use crate::child::{self, Owned};
use crate::daemon::{self, START_LIMIT};
use crate::http;
use crate::webdriver::{Browser, TALL_WINDOW};
use crate::websocket::{Received, WebSocket};

const CPUS: &str = "128";
/// A usual size.
const USUAL_WINDOW: &str = "--window-size=1400,900";
/// Time for the first drawing and the optimizing compiler.
const SETTLE: Duration = Duration::from_secs(15);
/// A CPU share is taken over this long.
const STRETCH: Duration = Duration::from_secs(10);
/// Shares for each window.
const STRETCHES: usize = 6;
/// Snapshots whose size is looked at.
const FRAMES: usize = 40;
/// Bytes transferred for the page, compressed, without what it asks about the host, and the time of the
/// first paint.
const LOADED: &str = r#"
    const entries = ["navigation", "resource"].flatMap((type) => performance.getEntriesByType(type));
    const files = entries.filter((entry) => !entry.name.includes("/api/"));
    return [
        files.reduce((sum, entry) => sum + entry.encodedBodySize, 0),
        performance.getEntriesByName("first-contentful-paint")[0].startTime,
    ];
"#;

/// Measures.
pub fn measure(_: &Options) -> Result<()> {
    let port = child::free_port()?;
    let words = [
        "demo",
        "--address=127.0.0.1",
        "--cpus",
        CPUS,
        "--port",
        &port.to_string(),
    ];
    let mut demo = Owned::start(&mut daemon::command(&words))?;
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    child::within(START_LIMIT, || match demo.try_wait()? {
        Some(status) => bail!("netto demo ended ({status}): {}", demo.stderr()),
        None => http::get_ok(at, "/readyz").map(drop),
    })?;
    figure("page_frame_kb", &frames(at)?);
    for (name, window) in [("usual", USUAL_WINDOW), ("tall", TALL_WINDOW)] {
        let browser = Browser::start(window)?;
        browser.open(&format!("http://{at}/"))?;
        std::thread::sleep(SETTLE);
        let loaded = browser.script(LOADED)?;
        let number = |index: usize| loaded[index].as_f64().context("no number");
        figure("page_download_kb", &[number(0)? / 1e3]);
        figure("page_first_paint_ms", &[number(1)?]);
        let mut shares = Vec::new();
        let mut bytes = 0.0;
        for _ in 0..STRETCHES {
            let (before, begun) = (processes::used_below(browser.driver_pid())?, Instant::now());
            std::thread::sleep(STRETCH);
            let after = processes::used_below(browser.driver_pid())?;
            let seconds = after.page_seconds - before.page_seconds;
            shares.push(100.0 * seconds / begun.elapsed().as_secs_f64());
            bytes = after.page_bytes;
        }
        figure(&format!("page_{name}_percent"), &shares);
        figure(&format!("page_{name}_resident_mb"), &[bytes / 1e6]);
    }
    Ok(())
}

/// Sizes of snapshots as a page gets them, kilobytes.
fn frames(at: SocketAddr) -> Result<Vec<f64>> {
    let mut socket = WebSocket::open(at)?;
    let mut sizes = Vec::new();
    while sizes.len() < FRAMES {
        match socket.receive()? {
            Received::Message(message) => {
                if let ServerMessage::Snapshot(snapshot) = *message {
                    let plain = codec::encode_snapshot(&compact(&snapshot))?;
                    let message = compression::gzip(&plain).map_err(anyhow::Error::msg)?;
                    sizes.push(message.len() as f64 / 1e3);
                }
            }
            Received::Closed(code, words) => bail!("netto demo closed ({code}): {words}"),
        }
    }
    Ok(sizes)
}
