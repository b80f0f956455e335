//! What the reader can do: zoom, pause, descend, take away, share; and what
//! happens when the daemon goes and comes back.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::child;
use crate::demo::{self, Demo};
use crate::http;
use crate::trial::tests;

tests! {
    page;
    reader::a_drag_over_a_chart_zooms_and_escape_leads_back;
    reader::what_is_selected_is_what_the_whole_page_shows;
    reader::all_figures_may_be_of_the_minutes_that_the_charts_show;
    reader::pause_stops_the_page_and_live_goes_on = pause;
    reader::a_click_on_a_bar_descends_and_hovering_explains = descend;
    reader::one_cursor_stands_in_every_chart = cursor;
    reader::the_address_reproduces_the_view = address;
    reader::the_keyboard_reaches_everything = keyboard;
    reader::what_is_shown_can_be_taken_away;
    reader::a_lost_daemon_is_told_and_its_return_repeats_no_point;
}

pub const HASH: &str = "return decodeURIComponent(location.hash)";
pub const MODE: &str = "return document.getElementById('netto').dataset.mode";
/// CPUs of the demonstration.
const CPUS: u32 = 4;
const SEQUENCE: &str = "return Number(document.getElementById('netto').dataset.sequence)";

pub fn open(demo: &Demo, fragment: &str) -> Result<Browser> {
    let browser = Browser::tall()?;
    browser.open(&demo.page(fragment))?;
    Ok(browser)
}

fn sequence(browser: &Browser) -> Result<u64> {
    browser.script(SEQUENCE)?.as_u64().context("no sequence")
}

/// Waits for further intervals on the page.
fn wait_for_more(browser: &Browser, count: u64) -> Result<()> {
    let from = sequence(browser)?;
    let script = format!("{SEQUENCE} >= {}", from + count);
    browser.wait_until("more intervals are shown", &script)
}

/// Drags over the charts from this share of their width to that.
fn drag(browser: &Browser, from: f64, to: f64) -> Result<()> {
    let [left, top, width, height] = browser.place("#events")?;
    let y = top + height / 2.0;
    browser.mouse("mouseMoved", left + width * from, y)?;
    browser.mouse("mousePressed", left + width * from, y)?;
    browser.mouse("mouseMoved", left + width * to, y)?;
    ensure!(browser.script("return document.querySelector('#events .brush').hidden")? == false);
    browser.mouse("mouseReleased", left + width * to, y)?;
    browser.wait_until("the page is zoomed", &format!("{} === 'zoomed'", MODE))
}

fn what_is_selected_is_what_the_whole_page_shows() -> Result<()> {
    let demo = Demo::start(CPUS, 500)?;
    let made = || demo.snapshot()?["sequence"].as_u64().context("no sequence");
    // Its past was made before netto kept any interval: until all that is selected is kept.
    let (first, kept) = (made()?, 2 * 15);
    child::eventually(|| {
        ensure!(made()? > first + kept);
        Ok(())
    })?;
    let browser = open(&demo, "span=60")?;
    wait_for_more(&browser, 1)?;
    drag(&browser, 0.8, 0.95)?;
    let selected = "return document.getElementById('netto').dataset.selected";
    browser.wait_until(
        "the selected time is shown",
        &format!("{selected} === 'shown'"),
    )?;
    // All have one window, in the reader's clock, and stand still.
    let windows = "return ['now', 'owners', 'table'].map((view) =>
        document.getElementById(`${view}-window`).textContent).join()";
    let figures = "return ['share', 'cpus', 'owners-pair'].map((id) =>
        document.getElementById(id).textContent).join() + document.querySelector('#table table').textContent";
    let (window, before) = (browser.script(windows)?, browser.script(figures)?);
    let window = window.as_str().context("no window")?;
    let of_views: Vec<&str> = window.split(',').collect();
    let is_clock =
        |text: &str| text.len() == "12:34:56 to 12:34:56".len() && text[8..].starts_with(" to ");
    ensure!(
        is_clock(of_views[0]) && of_views.iter().all(|view| *view == of_views[0]),
        "{window}"
    );
    let then = made()?;
    child::eventually(|| {
        ensure!(made()? > then + 6);
        Ok(())
    })?;
    ensure!(browser.script(figures)? == before, "figures moved");
    // The share is what the history of the same time has.
    let hash = browser.script(HASH)?;
    let of = |name: &str| -> Result<f64> {
        let value = hash
            .as_str()
            .and_then(|hash| hash.split(&format!("{name}=")).nth(1));
        Ok(value
            .and_then(|rest| rest.split('&').next())
            .context("not in the address")?
            .parse()?)
    };
    let (length, until) = (of("span")?, of("until")?);
    let query = format!("from={}&to={until}&step=3600", until - length);
    let address = format!("/api/v1/history?component=network&{query}");
    let history: Value = http::get_ok(demo.at, &address)?.json()?;
    let (busy, seconds) = (
        &history["series"][0]["busy_cpus"],
        &history["times"]["measured_seconds"],
    );
    let rows = busy.as_array().into_iter().flatten();
    let rows = rows.zip(seconds.as_array().into_iter().flatten());
    let rows = rows.filter_map(|(busy, seconds)| Some((busy.as_f64()?, seconds.as_f64()?)));
    let (used, all) = rows.fold((0.0, 0.0), |(used, all), (busy, seconds)| {
        (used + busy * seconds, all + seconds)
    });
    let expected = 100.0 * used / all / f64::from(CPUS);
    let share = browser.text("#share")?;
    let shown: f64 = share.trim_end_matches(" %").parse()?;
    // The address has tenths of a second, so that an interval at an end may be in one of both only.
    let ratio = shown / expected;
    ensure!(
        (0.9..1.1).contains(&ratio),
        "{share}, {expected} in {history}"
    );
    // What is too old says so, and live figures go on.
    browser.key("Escape")?;
    browser.wait_until("live", &format!("{selected} === ''"))?;
    browser.open(&demo.page("span=30&until=1000"))?;
    browser.wait_until(
        "nothing is kept of it",
        &format!("{selected} === 'missing'"),
    )?;
    let reason = browser.text("#mode")?;
    ensure!(reason.contains("a log file all"), "{reason}");
    wait_for_more(&browser, 3)?;
    browser.must_be_content()
}

fn all_figures_may_be_of_the_minutes_that_the_charts_show() -> Result<()> {
    let demo = Demo::start(CPUS, 500)?;
    let browser = open(&demo, "span=60")?;
    wait_for_more(&browser, 1)?;
    browser.click("of-range")?;
    browser.wait_until(
        "figures are of the charts' time",
        "return document.getElementById('netto').dataset.selected === 'shown'",
    )?;
    let window = "return document.getElementById('owners-window').textContent";
    let first = browser.script(window)?;
    let text = first.as_str().context("no window")?;
    ensure!(text.contains(" to "), "{text}");
    ensure!(
        browser.script(MODE)? == "live" && browser.script(HASH)?.to_string().contains("of-range=1")
    );
    browser.wait_until("they go on", &format!("{window} !== {first}"))?;
    browser.click("of-range")?;
    browser.wait_until(
        "figures are of the last seconds again",
        &format!("{window}.startsWith('over the last ')"),
    )?;
    browser.must_be_content()
}

fn a_drag_over_a_chart_zooms_and_escape_leads_back() -> Result<()> {
    let demo = demo::usual()?;
    let browser = open(&demo, "")?;
    drag(&browser, 0.3, 0.6)?;
    let hash = browser.script(HASH)?.to_string();
    let span: f64 = hash
        .split("span=")
        .nth(1)
        .and_then(|rest| rest.split(['&', '"']).next()?.parse().ok())
        .context("no span in the address")?;
    // Three tenths of five minutes.
    ensure!((80.0..102.0).contains(&span), "{hash}");
    // The chart stands still.
    let points = "return document.querySelector('#events polygon').getAttribute('points')";
    let before = browser.script(points)?;
    wait_for_more(&browser, 6)?;
    ensure!(browser.script(points)? == before, "the zoomed chart moved");
    browser.key("Escape")?;
    browser.wait_until("the page is live", &format!("{MODE} === 'live'"))?;
    browser.must_be_content()
}

fn pause() -> Result<()> {
    let demo = demo::usual()?;
    let browser = open(&demo, "")?;
    browser.click("pause")?;
    browser.wait_until("the page is paused", &format!("{MODE} === 'paused'"))?;
    let held = sequence(&browser)?;
    let cells =
        "return Array.from(document.querySelectorAll('[data-cell]'), (e) => e.textContent).join()";
    let before = browser.script(cells)?;
    // The page says of what moment it is, in the list of tabs, too.
    let clock = "/^paused (at )?[0-2][0-9]:[0-5][0-9]:[0-5][0-9]/";
    let said = format!(
        "return [document.getElementById('mode').textContent, document.title].every((text) => {clock}.test(text))"
    );
    browser.wait_until("the moment is named", &said)?;
    let headline = browser.text("#share")?;
    // The daemon continues.
    child::eventually(|| {
        let made = demo.snapshot()?["sequence"].as_u64().unwrap_or_default();
        ensure!(made > held + 4, "{made}");
        Ok(())
    })?;
    ensure!(sequence(&browser)? == held && browser.script(cells)? == before);
    ensure!(browser.text("#share")? == headline, "the headline moved");
    browser.click("live")?;
    browser.wait_until("the page goes on", &format!("{SEQUENCE} > {}", held + 4))?;
    browser.must_be_content()
}

fn descend() -> Result<()> {
    let demo = demo::usual()?;
    let browser = open(&demo, "")?;
    // The middle of the second bar's lowest segment: sends.
    let [left, top, width, height] = browser.place("#chart")?;
    let (x, y) = (left + width / 2.0, top + height - 8.0);
    browser.mouse("mouseMoved", x, y)?;
    let tip = browser.text("#tip")?;
    for part in [
        "Socket sends",
        "of all networking",
        "of this host",
        "ns per call",
        "Sends on Internet",
    ] {
        ensure!(tip.contains(part), "{part} in {tip}");
    }
    browser.mouse("mousePressed", x, y)?;
    browser.mouse("mouseReleased", x, y)?;
    browser.wait_until(
        "the parts of the sends are shown",
        "return document.getElementById('parts-title').textContent.startsWith('Socket sends')",
    )?;
    ensure!(
        browser
            .script(HASH)?
            .to_string()
            .contains("event=tx_syscall")
    );
    // A part says how sure it is.
    browser.click("event:rx_softirq")?;
    browser.wait_until(
        "back at RX softirq",
        "return document.querySelector('[data-bar=\"3\"][data-key=gro]') !== null",
    )?;
    browser.script("document.querySelector('[data-bar=\"3\"][data-key=gro] button').focus()")?;
    let tip = browser.text("#tip")?;
    ensure!(
        tip.contains("GRO") && tip.contains("95 % interval"),
        "{tip}"
    );
    browser.click("about:gro")?;
    browser.wait_until(
        "the heat map shows GRO",
        "return document.getElementById('component').value === 'gro'",
    )?;
    browser.must_be_content()
}

fn cursor() -> Result<()> {
    let demo = demo::usual()?;
    let browser = open(&demo, "")?;
    let [left, top, width, height] = browser.place("#parts")?;
    browser.mouse("mouseMoved", left + width * 0.5, top + height * 0.5)?;
    let lines = browser.script(
        "return Array.from(document.querySelectorAll('.cursor')).filter((e) => e.parentElement.offsetHeight > 0)
            .map((e) => [e.hidden, parseFloat(e.style.left)])",
    )?;
    let lines = lines.as_array().context("no list")?;
    ensure!(lines.len() == 4, "{lines:?}");
    for line in lines {
        let x = line[1].as_f64().unwrap_or_default();
        ensure!(
            line[0] == false && (x - width * 0.5).abs() < 12.0,
            "{lines:?}"
        );
    }
    // The legend says the values of that moment.
    let when = browser.text("#events-legend .when")?;
    ensure!(when.len() == 8, "{when}");
    browser.mouse("mouseMoved", 5.0, 5.0)?;
    ensure!(
        browser.script("return document.querySelectorAll('.cursor:not([hidden])').length")? == 0
    );
    browser.must_be_content()
}

fn address() -> Result<()> {
    let demo = demo::usual()?;
    let browser = open(&demo, "")?;
    for act in [
        "event:tx_syscall",
        "span:15",
        "basis:ms",
        "unit:entry",
        "sort:load",
        "fold:other_softirq",
        "hide:flame",
    ] {
        browser.click(act)?;
    }
    browser.script(
        "const f = document.getElementById('filter'); f.value = '0-7 node0'; \
         f.dispatchEvent(new Event('input', { bubbles: true }))",
    )?;
    let read = r#"return [
        document.getElementById("parts-title").textContent,
        Array.from(document.querySelectorAll("[data-choice][aria-pressed=true]"), (e) => e.dataset.act),
        document.getElementById("filter").value,
        document.getElementById("heat-canvas").height,
        document.querySelector("[data-row=softirq_rcu]") !== null,
        document.querySelector("[data-view=flame]").hidden,
    ]"#;
    let expected = json!([
        "Socket sends by part",
        [
            "span:15",
            "live",
            "basis:ms",
            "hide:now",
            "hide:time",
            "hide:owners",
            "hide:advice",
            "hide:anomalies",
            "hide:cpus",
            "hide:latency",
            "hide:health",
            "hide:traffic",
            "hide:table",
            "hide:programs",
            "hide:slowest",
            "hide:intruders",
            "hide:flows",
            "keys",
            "sort:load",
            "unit:entry"
        ],
        "0-7 node0",
        8,
        true,
        true
    ]);
    let shows = |browser: &Browser| -> Result<()> {
        child::eventually(|| {
            let found = browser.script(read)?;
            ensure!(found == expected, "{found}");
            Ok(())
        })
    };
    shows(&browser)?;
    let url = browser.script("return location.href")?;
    let again = Browser::tall()?;
    again.open(url.as_str().context("no address")?)?;
    shows(&again)?;
    // Nonsense in an address is no reason to show nothing.
    again.open(&demo.page("event=%00&span=x&only=zzz&component=nothing"))?;
    ensure!(again.text("#filter-note")?.contains("zzz"));
    again.must_be_content()
}

fn keyboard() -> Result<()> {
    let demo = demo::usual()?;
    let browser = open(&demo, "")?;
    // Everything that acts is a button, a field or a plot, and none is kept from the keyboard.
    let unreachable = browser.script(
        "return Array.from(document.querySelectorAll('[data-act], select, input, [data-plot=time]'))
            .filter((e) => !(e.tabIndex >= 0)).length",
    )?;
    ensure!(unreachable == 0, "{unreachable} are out of reach");
    browser.script("document.getElementById('events').focus()")?;
    for _ in 0..3 {
        browser.key("ArrowLeft")?;
    }
    let left = "return parseFloat(document.querySelector('#events .cursor').style.left)";
    let before = browser.script(left)?.as_f64().context("no cursor")?;
    browser.key("ArrowLeft")?;
    let after = browser.script(left)?.as_f64().context("no cursor")?;
    ensure!(after < before, "{after} after {before}");
    browser.key("+")?;
    browser.wait_until("zoomed", &format!("{MODE} === 'zoomed'"))?;
    browser.key("Escape")?;
    browser.wait_until("live", &format!("{MODE} === 'live'"))?;
    browser.key(" ")?;
    browser.wait_until("paused", &format!("{MODE} === 'paused'"))?;
    browser.key(" ")?;
    browser.wait_until("live again", &format!("{MODE} === 'live'"))?;
    // Redrawing does not take the keyboard away.
    browser.script("document.querySelector('#table [data-act=\"about:gro\"]').focus()")?;
    wait_for_more(&browser, 2)?;
    let held = browser.script("return document.activeElement.dataset.act")?;
    ensure!(held == "about:gro", "{held}");
    browser.must_be_content()
}

/// Collects the files that the page offers, instead of saving them.
pub const CATCH_FILES: &str = r#"
    window.files = [];
    const make = URL.createObjectURL;
    URL.createObjectURL = (blob) => { window.files.push(blob); return make(blob); };
    HTMLAnchorElement.prototype.click = function () { window.lastName = this.download; };
"#;

pub fn file(browser: &Browser, act: &str) -> Result<(String, String)> {
    browser.script("window.files = []")?;
    browser.click(act)?;
    browser.wait_until("a file is given", "return window.files.length === 1")?;
    let text = browser.promise("window.files[0].text()")?;
    let name = browser.script("return window.lastName")?;
    Ok((
        name.as_str().unwrap_or_default().to_owned(),
        text.as_str().unwrap_or_default().to_owned(),
    ))
}

fn what_is_shown_can_be_taken_away() -> Result<()> {
    let demo = demo::usual()?;
    let browser = open(&demo, "")?;
    browser.script(CATCH_FILES)?;
    let (name, csv) = file(&browser, "save:events:csv")?;
    ensure!(
        name.starts_with("netto-demo-16-events-") && name.ends_with(".csv"),
        "{name}"
    );
    ensure!(
        csv.starts_with("time,tx_syscall_percent_of_host,"),
        "{csv:.80}"
    );
    // A line for each second of five minutes.
    let lines = csv.lines().count();
    ensure!(lines == 301, "{lines} lines");
    let (_, csv) = file(&browser, "save:heat:csv")?;
    ensure!(
        csv.starts_with("time,cpu0_percent,cpu1_percent,"),
        "{csv:.80}"
    );
    let (_, csv) = file(&browser, "save:table:csv")?;
    // Nothing of all CPUs, and nothing of each.
    let unavailable = format!("\r\nnf_ingress,rx_softirq,NF ingress{}\r\n", ",".repeat(17));
    ensure!(csv.contains(&unavailable), "{csv}");
    for act in ["save:now:svg", "save:events:svg", "save:parts:svg"] {
        let (_, svg) = file(&browser, act)?;
        ensure!(svg.starts_with("<svg") && svg.contains("xmlns=") && svg.contains("<title>"));
    }
    for act in ["save:now:png", "save:events:png", "save:heat:png"] {
        file(&browser, act)?;
        let picture = browser.promise(
            "createImageBitmap(window.files[0]).then((image) => [image.width, image.height])",
        )?;
        let size = |at: usize| picture[at].as_u64().unwrap_or_default();
        ensure!(size(0) > 500 && size(1) > 80, "{act}: {picture}");
    }
    browser.must_be_content()
}

/// The moments of the events' series, milliseconds, that have values.
fn moments(browser: &Browser) -> Result<Vec<u64>> {
    let (_, csv) = file(browser, "save:events:csv")?;
    let rows: Vec<&str> = csv
        .lines()
        .skip(1)
        .filter(|row| !row.ends_with(",,"))
        .collect();
    let parsed = browser.script(&format!(
        "return {}.map((t) => Date.parse(t))",
        json!(
            rows.iter()
                .filter_map(|row| row.split(',').next())
                .collect::<Vec<_>>()
        )
    ))?;
    Ok(parsed
        .as_array()
        .context("no list")?
        .iter()
        .filter_map(Value::as_u64)
        .collect())
}

fn a_lost_daemon_is_told_and_its_return_repeats_no_point() -> Result<()> {
    let first = Demo::start(2, 500)?;
    let port = first.at.port();
    let browser = open(&first, "span=60")?;
    browser.script(CATCH_FILES)?;
    wait_for_more(&browser, 3)?;
    let before = moments(&browser)?;
    ensure!(
        before
            .windows(2)
            .all(|pair| pair[1] == pair[0] + 500 || pair[1] == pair[0] + 1000)
    );
    first.stop()?;
    browser.wait_until(
        "the loss is shown",
        "return document.getElementById('netto').dataset.state === 'lost' \
         && !document.getElementById('banner').hidden",
    )?;
    let banner = browser.text("#banner")?;
    ensure!(
        banner.contains("SIGTERM") && banner.contains("values are old"),
        "{banner}"
    );
    // Everything that could be taken for the present says so.
    let said = browser.script(
        r##"
        const chart = document.getElementById("events");
        return [document.title, document.getElementById("mode").textContent,
            document.getElementById("now-window").textContent,
            getComputedStyle(chart, "::after").content,
            document.querySelector("[data-act=live]").ariaPressed,
            getComputedStyle(document.getElementById("owners")).opacity].join("|");
        "##,
    )?;
    let said = said.as_str().context("no text")?;
    let parts: Vec<&str> = said.split('|').collect();
    ensure!(parts[0].starts_with("connection lost "), "{said}");
    ensure!(
        parts[1].starts_with("connection lost: the last values are of "),
        "{said}"
    );
    ensure!(parts[2].contains(" to "), "{said}");
    ensure!(
        parts[3] == "\"connection lost\"" && parts[4] == "false" && parts[5] == "0.55",
        "{said}"
    );
    let second = Demo::start_on(port, 2, 500)?;
    browser.wait_until(
        "the page is live again",
        "return document.getElementById('netto').dataset.state === 'live'",
    )?;
    ensure!(browser.script("return document.getElementById('banner').hidden")? == true);
    wait_for_more(&browser, 3)?;
    let after = moments(&browser)?;
    ensure!(
        after.is_sorted_by(|a, b| a < b),
        "a point stands twice: {after:?}"
    );
    ensure!(after.len() > 40, "the past is gone: {} points", after.len());
    browser.must_be_content()?;
    second.stop()
}
