//! The flame graph: opened, zoomed, searched, taken away, and missing.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::browser::Browser;
use crate::demo::{self, Demo};
use crate::http;
use crate::trial::tests;

tests! {
    page;
    flame::it_costs_nothing_until_it_is_in_view = unseen;
    flame::a_click_zooms_and_the_path_leads_back = zoom;
    flame::a_search_says_what_share_it_finds = search;
    flame::the_keyboard_reaches_every_function = keyboard;
    flame::that_of_the_demonstration_adds_up = demonstration;
    flame::where_there_is_none_the_reason_is_shown = missing;
}

const STACKS: &str = "rx_softirq;net_rx_action;napi_poll;tcp_v4_rcv 300\n\
    rx_softirq;net_rx_action;napi_poll;memcpy 200\n\
    tx_syscall;tcp_sendmsg;memcpy 400\n\
    rx_softirq;net_rx_action 100\n";

/// A page to which the daemon answers this when asked for its flame graph: what
/// is shown is then known to the last sample.
pub fn page(demo: &Demo, status: u16, body: &str, fragment: &str) -> Result<Browser> {
    page_of((1000, 8000), demo, status, body, fragment)
}

fn page_of(
    (width, height): (u32, u32),
    demo: &Demo,
    status: u16,
    body: &str,
    fragment: &str,
) -> Result<Browser> {
    let browser = Browser::start(width, height)?;
    let script = format!(
        "const real = window.fetch; window.asked = 0; \
         window.fetch = (address, ...rest) => {{ \
           if (!String(address).includes('flamegraph')) return real(address, ...rest); \
           window.asked++; \
           return Promise.resolve(new Response({body}, {{ status: {status}, headers: {{ \
             'x-netto-window-seconds': '47.5', 'x-netto-samples': '1000', 'x-netto-samples-left-out': '7' }} }})); \
         }};",
        body = json!(body)
    );
    browser.add_to_pages(&script)?;
    browser.open(&demo.page(fragment))?;
    Ok(browser)
}

/// The middle of the box with this text, in the window.
fn box_of(browser: &Browser, name: &str) -> Result<[f64; 2]> {
    let script = format!(
        "const text = Array.from(document.querySelectorAll('#flames text')).find((t) => t.textContent.trim() === {name:?}); \
         if (!text) return null; \
         const r = text.previousElementSibling.getBoundingClientRect(); \
         return [r.left + r.width / 2, r.top + r.height / 2]"
    );
    let found = browser.place_by(&script);
    found.with_context(|| format!("{name} is not shown"))
}

const SHOWN: &str = "return document.querySelectorAll('#flames rect').length > 3";

fn unseen() -> Result<()> {
    let demo = Demo::start(2, 200)?;
    let browser = page_of((1000, 700), &demo, 200, STACKS, "")?;
    let advance = "return Number(document.getElementById('netto').dataset.sequence)";
    let first = browser.script(advance)?.as_u64().context("no sequence")?;
    browser.wait_until("more intervals", &format!("{advance} > {}", first + 8))?;
    ensure!(browser.script("return window.asked")? == 0, "asked unseen");
    browser.script("document.getElementById('flame').scrollIntoView()")?;
    browser.wait_until("it is drawn", SHOWN)?;
    let basis = browser.text("#flame-basis")?;
    ensure!(
        basis.contains("1\u{202f}000 samples")
            && basis.contains("last 48 s")
            && basis.contains("7 more"),
        "{basis}"
    );
    let label = browser.script("return document.getElementById('flames').ariaLabel")?;
    ensure!(
        label.as_str().is_some_and(|l| l.contains("memcpy 60.0 %")),
        "{label}"
    );
    // Asked anew after a while, but not with each interval.
    browser.wait_until("asked again", "return window.asked >= 2")?;
    let shown = browser.script(advance)?.as_u64().context("no sequence")?;
    ensure!(browser.script("return window.asked")?.as_u64() < Some((shown - first) / 4));
    browser.click("flame")?;
    browser.wait_until(
        "it is closed",
        "return document.getElementById('flames').offsetHeight === 0",
    )?;
    browser.must_be_content()
}

fn zoom() -> Result<()> {
    let demo = demo::usual()?;
    let browser = page(&demo, 200, STACKS, "flame=1")?;
    browser.wait_until("it is drawn", SHOWN)?;
    let [x, y] = box_of(&browser, "napi_poll")?;
    browser.mouse("mouseMoved", x, y)?;
    let tip = browser.text("#tip")?;
    ensure!(
        tip.contains("napi_poll") && tip.contains("of RX softirq83.3 %"),
        "{tip}"
    );
    browser.mouse("mousePressed", x, y)?;
    browser.mouse("mouseReleased", x, y)?;
    browser.wait_until(
        "zoomed",
        "return document.querySelector('#flame-path b')?.textContent === 'napi_poll' \
         && !document.getElementById('flames').textContent.includes('tcp_sendmsg')",
    )?;
    let address = browser.script("return location.hash")?;
    ensure!(
        address
            .as_str()
            .is_some_and(|a| a.contains("zoom=rx_softirq%3Bnet_rx_action%3Bnapi_poll")),
        "{address}"
    );
    // The address alone brings the view back.
    let fragment = address
        .as_str()
        .unwrap_or_default()
        .trim_start_matches('#')
        .to_owned();
    browser.open(&demo.page(&fragment))?;
    browser.wait_until(
        "zoomed again",
        "return document.querySelector('#flame-path b')?.textContent === 'napi_poll'",
    )?;
    browser.click("zoom:1")?;
    browser.wait_until(
        "one step back",
        "return document.querySelector('#flame-path b')?.textContent === 'RX softirq'",
    )?;
    browser.click("zoom:0")?;
    browser.wait_until(
        "the whole",
        "return document.getElementById('flames').textContent.includes('tcp_sendmsg')",
    )?;
    browser.must_be_content()
}

fn search() -> Result<()> {
    let demo = demo::usual()?;
    let browser = page(&demo, 200, STACKS, "flame=1&find=MEMCPY")?;
    browser.wait_until(
        "found",
        "return document.getElementById('flame-found').textContent === '60.0 % of all samples'",
    )?;
    browser.script("const f = document.getElementById('find'); f.value = 'quic'; f.dispatchEvent(new Event('input', { bubbles: true }))")?;
    browser.wait_until(
        "not found",
        "return document.getElementById('flame-found').textContent === 'nothing found'",
    )?;
    ensure!(browser.script("return location.hash.includes('find=quic')")? == true);
    // The drawing can be saved, and so can its stacks.
    browser.script("window.files = []; const make = URL.createObjectURL; URL.createObjectURL = (b) => { window.files.push(b); return make(b); }; HTMLAnchorElement.prototype.click = () => {};")?;
    browser.click("save:flame:folded")?;
    browser.click("save:flame:svg")?;
    browser.wait_until("two files", "return window.files.length === 2")?;
    ensure!(browser.promise("window.files[0].text()")? == STACKS);
    let svg = browser.promise("window.files[1].text()")?;
    ensure!(
        svg.as_str()
            .is_some_and(|svg| svg.starts_with("<svg") && svg.contains("tcp_sendmsg"))
    );
    browser.must_be_content()
}

fn keyboard() -> Result<()> {
    let demo = demo::usual()?;
    let browser = page(&demo, 200, STACKS, "flame=1")?;
    browser.wait_until("it is drawn", SHOWN)?;
    browser.script("document.getElementById('flames').focus()")?;
    let marked = || browser.text("#tip strong");
    for (key, name) in [
        ("ArrowDown", "all of networking"),
        ("ArrowDown", "RX softirq"),
        ("ArrowRight", "Socket sends"),
        ("ArrowLeft", "RX softirq"),
        ("ArrowDown", "net_rx_action"),
        ("ArrowUp", "RX softirq"),
    ] {
        browser.key(key)?;
        ensure!(marked()? == name, "{key}: {}, not {name}", marked()?);
    }
    browser.key("Enter")?;
    browser.wait_until("zoomed", "return location.hash.includes('zoom=rx_softirq')")?;
    browser.key("Escape")?;
    browser.wait_until("the whole", "return !location.hash.includes('zoom=')")?;
    browser.must_be_content()
}

fn demonstration() -> Result<()> {
    let demo = demo::usual()?;
    let browser = Browser::tall()?;
    browser.open(&demo.page("flame=1"))?;
    browser.wait_until("it is drawn", SHOWN)?;
    // Events by the names that the page uses elsewhere, and none that it does not know.
    let events = browser.script(
        "return Array.from(document.querySelectorAll('#flames text')) \
         .filter((t) => t.previousElementSibling.getAttribute('y') === '18').map((t) => t.textContent.trim())",
    )?;
    let events = events.as_array().context("no list")?;
    ensure!(!events.is_empty(), "no event is named");
    for event in events {
        let name = event.as_str().unwrap_or_default();
        ensure!(!name.contains('_'), "{name} is a slug");
    }
    let answer = http::get_ok(demo.at, "/api/v1/flamegraph")?;
    let samples: u64 = answer
        .body
        .lines()
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok())
        .sum();
    ensure!(
        answer
            .head
            .to_ascii_lowercase()
            .contains(&format!("x-netto-samples: {samples}\r\n")),
        "{}",
        answer.head
    );
    browser.must_be_content()
}

fn missing() -> Result<()> {
    let demo = demo::usual()?;
    let browser = page(
        &demo,
        503,
        "stacks are not sampled here: <b>no perf events</b>\n",
        "flame=1",
    )?;
    browser.wait_until(
        "the reason is shown",
        "return document.getElementById('flame-note').textContent.includes('<b>no perf events</b>')",
    )?;
    ensure!(browser.script("return document.getElementById('flames').offsetHeight")? == 0);
    Ok(())
}
