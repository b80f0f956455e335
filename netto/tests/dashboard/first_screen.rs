//! The first screen and what stays in view: verdict, amount, largest part, culprit and victim, and whether
//! they are of one time and in one unit.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::child;
use crate::demo::{self, Demo};
use crate::trial::tests;

tests! {
    page;
    first_screen::it_has_status_answer_bars_and_the_begin_of_the_charts;
    first_screen::the_figures_that_stand_together_are_of_one_time;
    first_screen::one_unit_says_all_of_it;
    first_screen::choices_stay_in_view_and_every_section_is_listed;
    first_screen::it_does_not_jump_and_has_its_advice_at_once;
    first_screen::a_band_of_a_chart_is_named_and_its_tip_ends_with_the_pointer;
    first_screen::what_has_no_line_of_a_chart_opens;
    first_screen::owners_are_ordered_by_a_column_and_their_parts_are_indented;
}

const WIDTH: u32 = 1440;
const HEIGHT: u32 = 900;

fn open(demo: &Demo, fragment: &str) -> Result<Browser> {
    let browser = Browser::start(WIDTH, HEIGHT)?;
    browser.open(&demo.page(fragment))?;
    Ok(browser)
}

fn it_has_status_answer_bars_and_the_begin_of_the_charts() -> Result<()> {
    let browser = open(&*demo::usual()?, "")?;
    let [_, top, _, height] = browser.place("header")?;
    ensure!(top + height <= 120.0, "the header ends at {}", top + height);
    let [_, _, _, status] = browser.place(".state")?;
    ensure!(status < 40.0, "the status has {status} pixels");
    let [_, top, ..] = browser.place("#events .drawing")?;
    ensure!(top < f64::from(HEIGHT) - 20.0, "charts begin at {top}");
    // Notes are behind their number.
    ensure!(browser.text("#notes summary")? == "1 note");
    // The headline's figure is in the picture.
    browser.wait_until(
        "the bars have a bracket",
        "return document.querySelector('#chart svg').textContent
            .includes(`Networking ${document.getElementById('share').textContent}`)",
    )?;
    // From the smallest phone to the widest screen, nothing is beyond the right edge.
    for width in [320, 390, 2560] {
        browser.resize(width, HEIGHT)?;
        let needed = browser.script("return document.documentElement.scrollWidth")?;
        ensure!(needed.as_u64() <= Some(width.into()), "{needed} of {width}");
    }
    browser.must_be_content()
}

fn the_figures_that_stand_together_are_of_one_time() -> Result<()> {
    let browser = Browser::tall()?;
    browser.open(&demo::usual()?.page(""))?;
    browser.wait_until(
        "all views have one window, of some seconds",
        r##"
        const window = (view) => document.getElementById(`${view}-window`).textContent;
        const [, seconds] = window("now").match(/^over the last ([0-9.]+) s$/) ?? [];
        const verdict = document.getElementById("verdict-text").textContent;
        return seconds >= 3 && window("headline") === `, ${window("now")}`
            && window("owners") === window("now") && verdict !== "";
        "##,
    )?;
    // What takes most of a CPU in the map is what the table has of that CPU.
    let read = r##"
        const [name, share] = document.querySelectorAll("#map-hottest :is(dt, dd)");
        const cpu = name.textContent.replace("CPU ", "");
        const cell = document.querySelector(`td[data-component=network][data-cpu='${cpu}']`);
        return [parseFloat(share.textContent), parseFloat(cell.textContent)];
    "##;
    browser.click("pause")?;
    child::eventually(|| {
        let found = browser.script(read)?;
        let (map, table) = (found[0].as_f64(), found[1].as_f64());
        let (map, table) = (map.context("no share")?, table.context("no cell")?);
        ensure!((map - table).abs() < 0.11, "{found}");
        Ok(())
    })?;
    browser.must_be_content()
}

fn one_unit_says_all_of_it() -> Result<()> {
    let browser = Browser::tall()?;
    browser.open(&demo::usual()?.page(""))?;
    let read = r##"
        const text = (id) => document.getElementById(id).textContent;
        return ["share", "verdict-text", "lead-part-amount", "lead-causes-amount", "lead-pays-amount",
            "owners-pair"].map(text);
    "##;
    for (basis, unit) in [("cpus", "CPUs"), ("ms", "ms/s"), ("host", "%")] {
        browser.click(&format!("basis:{basis}"))?;
        child::eventually(|| {
            let found = browser.script(read)?;
            let texts = found.as_array().context("no texts")?;
            let has_unit = |text: &&Value| text.as_str().is_some_and(|text| text.contains(unit));
            let lacking: Vec<_> = texts.iter().filter(|text| !has_unit(text)).collect();
            ensure!(lacking.is_empty(), "{basis}: {lacking:?}");
            Ok(())
        })?;
    }
    browser.must_be_content()
}

fn choices_stay_in_view_and_every_section_is_listed() -> Result<()> {
    let demo = Demo::with(&["--latency", "--health", "--flows=eth0"])?;
    let browser = open(&demo, "")?;
    child::eventually(|| {
        let missing = browser.script(
            r##"
            const is_there = (view) => view.firstElementChild.offsetParent !== null
                && view.querySelector("h2") !== null && view.closest("header") === null;
            const names = Array.from(document.querySelectorAll("[data-view]")).filter(is_there)
                .map((view) => view.dataset.view).filter((name) => name !== "map");
            const is_listed = (name) => document.querySelector(`.sections [data-act="jump:${name}"]`)?.offsetParent;
            return [names.length, names.filter((name) => !is_listed(name)),
                Array.from(document.querySelectorAll(".sections button")).filter((button) => button.offsetParent
                    && !names.includes(button.dataset.act.slice(5))).map((button) => button.dataset.act)];
            "##,
        )?;
        ensure!(missing[0].as_u64() >= Some(11), "{missing}");
        ensure!(
            missing[1] == json!([]) && missing[2] == json!([]),
            "{missing}"
        );
        Ok(())
    })?;
    browser.script("scrollTo(0, document.documentElement.scrollHeight)")?;
    for choice in [
        "[data-act='span:5']",
        "[data-act=pause]",
        "[data-act='basis:cpus']",
    ] {
        let [_, top, _, height] = browser.place(choice)?;
        ensure!(top >= 0.0 && top + height < 100.0, "{choice} is at {top}");
    }
    // A menu opens where it is.
    browser.script("document.querySelector('[popovertarget=views-menu]').click()")?;
    let [_, top, _, height] = browser.place("#views-menu")?;
    ensure!(height > 100.0 && top >= 0.0, "{top} {height}");
    browser.must_be_content()
}

fn it_does_not_jump_and_has_its_advice_at_once() -> Result<()> {
    let demo = demo::usual()?;
    // The daemon has judged for long enough.
    child::eventually(|| {
        let advice = crate::http::get_ok(demo.at, "/api/v1/advice")?.json()?;
        let some = advice["advice"]
            .as_array()
            .is_some_and(|all| !all.is_empty());
        ensure!(
            some && demo.snapshot()?["sequence"].as_u64() > Some(30),
            "{advice}"
        );
        Ok(())
    })?;
    let browser = Browser::start(WIDTH, HEIGHT)?;
    browser.add_to_pages(
        "window.shifts = []; new PerformanceObserver((list) => {
            for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifts.push(entry.value);
        }).observe({ type: 'layout-shift', buffered: true });
        window.advised = null;
        const look = () => {
            const list = document.querySelector('#advice-list article');
            const root = document.getElementById('netto');
            if (list && window.advised === null) window.advised = Number(root.dataset.sequence);
            if (root && root.dataset.sequence && window.first === undefined) window.first = Number(root.dataset.sequence);
            requestAnimationFrame(look);
        };
        requestAnimationFrame(look);",
    )?;
    browser.open(&demo.page(""))?;
    browser.wait_until("there is advice", "return window.advised !== null")?;
    let intervals = browser.script("return window.advised - window.first")?;
    // It is asked for with the first interval: the answer comes with the next, or the one after.
    ensure!(intervals.as_u64() <= Some(4), "after {intervals} intervals");
    browser.wait_until(
        "some seconds have passed",
        "return document.getElementById('netto').dataset.sequence > window.first + 16",
    )?;
    let shift = browser.script("return window.shifts.reduce((sum, value) => sum + value, 0)")?;
    let shift = shift.as_f64().context("no figure")?;
    println!("layout shift: {shift:.3}");
    ensure!(shift <= 0.1, "the layout has shifted by {shift}");
    // What hurts leads to what can be done, and a command can be taken away.
    let verdict = browser.script("return document.getElementById('verdict').dataset.act")?;
    ensure!(verdict == "jump:advice", "{verdict}");
    let copy = "return document.querySelector('#advice-list [data-act$=\":copy\"]') !== null";
    ensure!(browser.script(copy)? == true);
    browser.must_be_content()
}

fn a_band_of_a_chart_is_named_and_its_tip_ends_with_the_pointer() -> Result<()> {
    let browser = Browser::tall()?;
    browser.open(&demo::usual()?.page(""))?;
    let [left, top, width, height] = browser.place("#events .drawing")?;
    // Sends are the lowest band.
    let (x, y) = (left + width * 0.9, top + height - 24.0);
    browser.mouse("mouseMoved", x, y)?;
    let tip = browser.text("#tip")?;
    ensure!(
        tip.starts_with("Socket sends") && tip.contains(" %"),
        "{tip}"
    );
    let hidden = "return document.getElementById('tip').hidden";
    ensure!(browser.script(hidden)? == false);
    browser.mouse("mouseMoved", x, top - 30.0)?;
    browser.wait_until("the tip has ended", hidden)?;
    browser.mouse("mouseMoved", x, y)?;
    ensure!(browser.script(hidden)? == false);
    browser.script("document.querySelector('[data-act=pause]').click()")?;
    browser.wait_until("a click ends it", hidden)?;
    // Parts are estimates: their interval in that step stands beside the value.
    let [left, top, width, height] = browser.place("#parts .drawing")?;
    browser.mouse("mouseMoved", left + width * 0.9, top + height - 24.0)?;
    let tip = browser.text("#tip")?;
    ensure!(tip.contains("95 % interval"), "{tip}");
    browser.must_be_content()
}

fn what_has_no_line_of_a_chart_opens() -> Result<()> {
    let browser = Browser::tall()?;
    browser.open(&demo::usual()?.page("event=rx_softirq"))?;
    let rows = "return document.querySelectorAll('#parts-legend tbody tr').length";
    let few = browser.script(rows)?.as_u64().context("no rows")?;
    browser.click("zeros:22")?;
    browser.wait_until("all have a line", &format!("{rows} > {}", few + 8))?;
    browser.click("zeros:22")?;
    browser.wait_until("they have closed", &format!("{rows} === {few}"))?;
    browser.must_be_content()
}

fn owners_are_ordered_by_a_column_and_their_parts_are_indented() -> Result<()> {
    let browser = open(&*demo::usual()?, "")?;
    browser.resize(WIDTH, 4_000)?;
    browser.click("owners-by:took")?;
    browser.wait_until(
        "who lost most stands first",
        r##"
        const of = (row) => parseFloat(row.querySelectorAll("td")[4].textContent.replace("<", ""));
        const values = Array.from(document.querySelectorAll("#owners-table tr.depth-0"), of);
        const sorted = values.slice().sort((a, b) => b - a);
        return values.length > 5 && values[0] > 0 && values.join() === sorted.join()
            && document.querySelectorAll("#owners-table [aria-sort]").length === 1;
        "##,
    )?;
    browser.click("owners-by:took")?;
    browser.script("document.querySelector('#owners-table [aria-expanded]').click()")?;
    browser.wait_until(
        "a part stands to the right of its event",
        r##"
        const left = (row) => document.querySelector(`#owners-table tr.depth-${row} .owner`)
            ?.getBoundingClientRect().left;
        return left(0) < left(1) && left(1) < left(2);
        "##,
    )?;
    browser.must_be_content()
}
