//! Every view shows the daemon's values, in small and large windows.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use metrics_common::sections::OwnPart;
use serde_json::Value;

use crate::browser::Browser;
use crate::child;
use crate::demo::{self, Demo};
use crate::trial::tests;

tests! {
    page;
    views::all_of_them_render_without_a_complaint;
    views::values_are_those_of_the_api = values_match;
    views::nettos_own_cost_is_one_figure_with_its_parts;
    views::parts_without_time_are_folded_until_asked_for;
    views::where_stacks_are_few_a_longer_stretch_is_shown_and_said = window;
    views::an_automatic_check_of_accessibility_finds_nothing_serious;
    views::the_hot_core_of_128_is_named_at_once = hot_core;
    views::the_first_screen_has_a_map_of_cpus_that_leads_to_them = map;
    views::of_128_cpus_only_those_in_sight_are_in_the_table = columns_in_sight;
    views::nothing_is_wider_than_the_window_in_light_or_dark = fits;
    views::advice_is_reached_by_its_name_and_stays_open_while_its_figures_change = advice;
    views::the_hosts_score_has_its_parts = score;
    views::what_is_unusual_is_listed_and_marked_in_the_plots = anomalies;
}

fn all_of_them_render_without_a_complaint() -> Result<()> {
    let demo = demo::usual()?;
    let browser = Browser::tall()?;
    browser.open(&demo.page(""))?;
    browser.wait_until(
        "every view has content",
        r##"
        const there = (query) => document.querySelector(query) !== null;
        return there("#chart svg rect") && there("#events svg polygon") && there("#parts svg polygon")
            && there("#spark svg") && there("#table td[data-component]") && there("#events-legend .value")
            && document.getElementById("heat-canvas").width > 100
            && document.querySelectorAll("#component option").length > 20;
        "##,
    )?;
    // The past is shown from the first moment: the chart is full to its left edge.
    let points = browser.script(
        "return document.querySelector('#events polygon').getAttribute('points').split(' ')[0].split(',')[0]",
    )?;
    ensure!(points == "44", "the chart begins at pixel {points}");
    ensure!(browser.text("#demo")? == "DEMO");
    ensure!(
        !browser
            .script("return document.getElementById('demo').hidden")?
            .as_bool()
            .unwrap_or(true)
    );
    ensure!(browser.text("#notes")?.contains("Nothing here is measured"));
    let missing = browser.text("[data-row=nf_ingress] .unavailable")?;
    ensure!(missing.contains("CONFIG_NETFILTER_INGRESS"), "{missing}");
    // Screen readers get the same information.
    for (id, word) in [
        ("events", "on average"),
        ("parts", "RX softirq"),
        ("heat", "busiest: CPU"),
    ] {
        let label = browser.script(&format!("return document.getElementById('{id}').ariaLabel"))?;
        ensure!(
            label.as_str().is_some_and(|l| l.contains(word)),
            "{id}: {label}"
        );
    }
    browser.must_be_content()
}

fn nettos_own_cost_is_one_figure_with_its_parts() -> Result<()> {
    const PARTS: &str = r##"
        const list = (row) => Array.from(row.querySelectorAll("td"), (e) => e.textContent);
        return {
            first: Number(document.getElementById("netto").dataset.firstSequence),
            sequence: Number(document.getElementById("netto").dataset.sequence),
            figure: document.getElementById("own-figure").textContent,
            parts: Object.fromEntries(Array.from(document.querySelectorAll("#own-parts tr[data-part]"),
                (row) => [row.dataset.part, list(row)])),
        };
    "##;
    let demo = demo::slow()?;
    let browser = Browser::tall()?;
    browser.open(&demo.page(""))?;
    // The parts can be expanded, by the keyboard too.
    let summary = "const s = document.querySelector('#own > summary'); s.focus();";
    let is_reached = format!("{summary} return document.activeElement === s");
    ensure!(browser.script(&is_reached)? == true);
    ensure!(browser.text("#own-parts")?.is_empty(), "nobody has asked");
    browser.script(&format!("{summary} s.click()"))?;
    let (page, snapshot) = child::eventually(|| {
        let (page, snapshot) = demo.shown(&browser, PARTS)?;
        ensure!(page["parts"]["all"].is_array(), "no parts yet");
        Ok((page, snapshot))
    })?;
    let own_cost = &snapshot["own"];
    let figure = page["figure"].as_str().context("no figure")?;
    let cpu = own_cost["costliest"]["cpu"].as_u64().context("no CPU")?;
    let percent = own_cost["costliest"]["ratio"]
        .as_f64()
        .context("no ratio")?
        * 100.0;
    let ending = format!(" % of the costliest CPU (CPU {cpu}), budget 1 %, ");
    let shown = figure.split_once(&ending).map(|(before, _)| before);
    let shown = shown.and_then(|text| text.strip_prefix("netto itself: "));
    let shown: f64 = shown.with_context(|| figure.to_owned())?.parse()?;
    ensure!((shown - percent).abs() <= 0.006, "{percent} in {figure}");
    let parts = page["parts"].as_object().context("no parts")?;
    ensure!(parts.len() == OwnPart::ALL.len() + 1, "{parts:?}");
    let interval_ns = snapshot["interval_ns"].as_f64().context("no interval")?;
    for (slug, cells) in parts.iter().filter(|(slug, _)| *slug != "all") {
        let part = &own_cost["parts"][slug];
        let shown = |at: usize| cells[at].as_str().unwrap_or_default().replace('<', "");
        let shown = |at: usize| shown(at).parse::<f64>().with_context(|| format!("{cells}"));
        for (at, ns, of_ns) in [
            (0, &part["total_ns"], interval_ns * 16.0),
            (1, &part["cpu_ns"][cpu as usize], interval_ns),
        ] {
            let Some(ns) = ns.as_f64() else {
                let is_off = matches!(slug.as_str(), "latency" | "flows" | "health");
                ensure!(is_off && cells[at] == "–", "{slug}: {cells}");
                continue;
            };
            let expected = ns / of_ns * 100.0;
            ensure!(
                (shown(at)? - expected).abs() <= 0.01,
                "{slug}: {cells} of {part}"
            );
        }
    }
    ensure!(
        parts["softirqs"][2] == "demonstration of tp_btf",
        "{parts:?}"
    );
    ensure!(
        browser
            .text("#own-parts p")?
            .contains("16 of 16 CPUs are sampled now")
    );
    browser.must_be_content()
}

fn parts_without_time_are_folded_until_asked_for() -> Result<()> {
    const SHOWN: &str = r##"
        const zeros = Array.from(document.querySelectorAll("[data-bar='3'][data-ratio='0']"));
        return [zeros.length, zeros.filter((e) => e.offsetParent !== null).length];
    "##;
    let demo = demo::usual()?;
    let browser = Browser::tall()?;
    browser.open(&demo.page(""))?;
    let counts = |shown: bool| {
        child::eventually(|| {
            let counts = browser.script(SHOWN)?;
            let [all, seen] = [0, 1].map(|at| counts[at].as_u64().unwrap_or(0));
            ensure!(all > 1, "every part has time: {counts}");
            ensure!(seen == if shown { all } else { 0 }, "{counts}");
            Ok(all)
        })
    };
    let count = counts(false)?;
    let text = browser.text("[data-bar-zeros='3']")?;
    ensure!(text.ends_with(" more at 0 %"), "{count}: {text}");
    browser.click("zeros:3")?;
    counts(true)?;
    ensure!(browser.text("[data-bar-zeros='3']")?.starts_with("Hide "));
    browser.click("zeros:3")?;
    counts(false)?;
    browser.must_be_content()
}

fn window() -> Result<()> {
    // Of one CPU there are some hundred stacks in a second.
    let demo = Demo::start(1, 100)?;
    let browser = Browser::tall()?;
    browser.open(&demo.page(""))?;
    browser.wait_until(
        "several intervals are shown together",
        r##"
        const { firstSequence, sequence } = document.getElementById("netto").dataset;
        const seconds = 0.1 * (sequence - firstSequence + 1);
        const said = document.getElementById("now-window").textContent;
        const [, number] = said.match(/^over the last ([0-9.]+) s$/) ?? [];
        return seconds > 0.15 && Math.abs(number - seconds) < Math.max(0.1, 0.1 * seconds)
            && document.getElementById("table-window").textContent === said
            && document.querySelector("[data-bar-note='3']").textContent.includes(`stacks in ${number} s`);
        "##,
    )?;
    browser.must_be_content()
}

fn an_automatic_check_of_accessibility_finds_nothing_serious() -> Result<()> {
    let axe = concat!(env!("CARGO_TARGET_TMPDIR"), "/../tools/axe/axe.min.js");
    let axe = std::fs::read_to_string(axe)
        .with_context(|| format!("no {axe}: `cargo xtask test` fetches it"))?;
    let demo = demo::usual()?;
    let browser = Browser::tall()?;
    for scheme in ["light", "dark"] {
        browser.prefer(scheme)?;
        for (fragment, is_there) in [
            ("", "#table td[data-component]"),
            ("about=gro", "#about-figures dd"),
        ] {
            browser.open(&demo.page(fragment))?;
            let script = format!("return document.querySelector('{is_there}') !== null");
            browser.wait_until("the page is there", &script)?;
            browser.script(&axe)?;
            let found = browser.promise(
            "axe.run().then((r) => [r.passes.length, r.violations.map((v) => \
             [v.impact, v.id, v.help, v.nodes.map((n) => n.html + ' ' + n.failureSummary).join(' ')])])",
        )?;
            let passed = found[0].as_u64().unwrap_or(0);
            ensure!(passed > 20, "hardly anything was checked: {found}");
            let violations = found[1].as_array().context("no list")?;
            let is_serious = |v: &&Value| v[0] == "serious" || v[0] == "critical";
            let serious: Vec<&Value> = violations.iter().filter(is_serious).collect();
            ensure!(serious.is_empty(), "{scheme}, {fragment}: {serious:#?}");
        }
    }
    browser.must_be_content()
}

/// Everything in one script, so that all values are from one snapshot.
const READ_PAGE: &str = r#"
    const list = (query, read) => Array.from(document.querySelectorAll(query), read);
    return {
        first: Number(document.getElementById("netto").dataset.firstSequence),
        sequence: Number(document.getElementById("netto").dataset.sequence),
        share: document.getElementById("share").textContent,
        cells: list("td[data-component][data-cpu]", (e) => [e.dataset.component, e.dataset.cpu, e.dataset.ns]),
        entries: list("[data-bar='3'][data-ratio]", (e) => [e.dataset.key, e.dataset.ratio]),
    };
"#;

fn values_match() -> Result<()> {
    let demo = demo::slow()?;
    let browser = Browser::tall()?;
    browser.open(&demo.page(""))?;
    let (page, snapshot) = demo.shown(&browser, READ_PAGE)?;
    let mut compared = 0;
    for cell in page["cells"].as_array().context("no cells")? {
        let word = |at: usize| cell[at].as_str().unwrap_or_default();
        let row = &snapshot["components"][word(0)];
        let expected = match word(1).parse::<usize>() {
            Ok(cpu) => &row["cpu_ns"][cpu],
            Err(_) => &row["total_ns"],
        };
        ensure!(
            expected.as_u64().is_some() && expected.as_u64() == word(2).parse().ok(),
            "{cell}, the API says {expected}"
        );
        compared += 1;
    }
    ensure!(compared > 100, "only {compared} cells");
    let total = |slug: &str| snapshot["components"][slug]["total_ns"].as_f64();
    let whole = total("rx_softirq").context("no RX softirq")?;
    let entries: BTreeMap<String, f64> = page["entries"]
        .as_array()
        .context("no entries")?
        .iter()
        .filter_map(|e| Some((e[0].as_str()?.to_owned(), e[1].as_str()?.parse().ok()?)))
        .collect();
    for slug in ["gro", "local_delivery_v4", "rx_unattributed"] {
        let expected = total(slug).context("no part")? / whole;
        let shown = entries.get(slug).context("no entry")?;
        ensure!(
            (shown - expected).abs() < 1e-9,
            "{slug}: {shown}, {expected}"
        );
    }
    let share = snapshot["components"]["network"]["share_ratio"]
        .as_f64()
        .context("no share")?;
    ensure!(
        page["share"] == format!("{:.1} %", share * 100.0),
        "{}",
        page["share"]
    );
    Ok(())
}

fn hot_core() -> Result<()> {
    let demo = demo::wide()?;
    let row = demo.snapshot()?["components"]["rx_softirq"]["cpu_ns"].clone();
    let values = row.as_array().context("no row")?;
    let hot = (0..values.len()).max_by_key(|&cpu| values[cpu].as_u64());
    let hot = hot.context("no CPU")?;
    let browser = Browser::tall()?;
    browser.open(&demo.page("component=rx_softirq"))?;
    let note = browser.text("#heat-note")?;
    ensure!(note.starts_with(&format!("busiest: CPU {hot},")), "{note}");
    // It is also the darkest line of the canvas.
    let darkest = browser.script(
        r#"
        const canvas = document.getElementById("heat-canvas");
        const { data } = canvas.getContext("2d").getImageData(canvas.width - 3, 0, 1, canvas.height);
        const light = (line) => data[4 * line] + data[4 * line + 1] + data[4 * line + 2];
        let darkest = 0;
        for (let line = 0; line < canvas.height; line++) if (light(line) < light(darkest)) darkest = line;
        return [canvas.height, darkest];
        "#,
    )?;
    ensure!(darkest == serde_json::json!([128, hot]), "{darkest}");
    // NUMA nodes are marked, and filter and order work.
    let nodes = "return document.querySelectorAll('#heat-names b').length";
    ensure!(browser.script(nodes)? == 4);
    browser.open(&demo.page("component=rx_softirq&sort=load&only=node1"))?;
    let shown = browser.script(
        "return [document.getElementById('heat-canvas').height, \
         Number(document.querySelector('#heat-names span').textContent)]",
    )?;
    ensure!(shown == serde_json::json!([32, hot]), "{shown}");
    ensure!(
        browser
            .text("#heat-note")?
            .ends_with("96 CPUs hidden by the filter")
    );
    browser.must_be_content()
}

fn map() -> Result<()> {
    let demo = demo::wide()?;
    let browser = Browser::start(1440, 900)?;
    browser.open(&demo.page(""))?;
    // It stands on the first screen, and its darkest square is the CPU that is named first.
    browser.wait_until(
        "the map is drawn",
        r##"
        const canvas = document.getElementById("map-canvas");
        if ([canvas.width, canvas.height].join() !== "16,8") return false;
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const light = (at) => data[4 * at] + data[4 * at + 1] + data[4 * at + 2];
        let darkest = 0;
        for (let at = 0; at < data.length / 4; at++) if (light(at) < light(darkest)) darkest = at;
        const named = document.querySelector("#map-hottest dt").textContent;
        return light(Number(named.replace("CPU ", ""))) === light(darkest)
            && document.getElementById("map").getBoundingClientRect().bottom < innerHeight;
        "##,
    )?;
    let [left, top, width, height] = browser.place("#map-cells")?;
    browser.mouse("mouseMoved", left + width / 2.0, top + height / 2.0)?;
    browser.wait_until(
        "the tip names the CPU under the pointer",
        "const tip = document.getElementById('tip').textContent; \
         return tip.startsWith('CPU ') && tip.includes('networking')",
    )?;
    browser.script("document.getElementById('map-cells').click()")?;
    browser.wait_until(
        "CPUs over time are in sight",
        "return document.getElementById('percpu').getBoundingClientRect().top < 100",
    )?;
    browser.must_be_content()
}

fn columns_in_sight() -> Result<()> {
    let demo = demo::wide()?;
    let browser = Browser::tall()?;
    browser.open(&demo.page(""))?;
    let columns = |browser: &Browser| -> Result<Vec<u64>> {
        let found = browser.script(
            "return Array.from(document.querySelectorAll('td[data-component=network][data-cpu]'), \
             (e) => Number(e.dataset.cpu)).filter((n) => !isNaN(n))",
        )?;
        Ok(found
            .as_array()
            .context("no list")?
            .iter()
            .filter_map(Value::as_u64)
            .collect())
    };
    let first = columns(&browser)?;
    ensure!(first.first() == Some(&0) && first.len() < 40, "{first:?}");
    browser.script("document.getElementById('table').scrollLeft = 1e6")?;
    child::eventually(|| {
        let last = columns(&browser)?;
        ensure!(last.last() == Some(&127) && last.len() < 40, "{last:?}");
        Ok(())
    })?;
    // The last column stands at the right edge: the room for the others is as wide as they are.
    let [left, _, width, _] = browser.place("td[data-component=network][data-cpu='127']")?;
    let [table_left, _, table_width, _] = browser.place("#table")?;
    ensure!(
        ((left + width) - (table_left + table_width)).abs() < 20.0,
        "{left} {width}"
    );
    browser.must_be_content()
}

fn fits() -> Result<()> {
    let demo = demo::usual()?;
    let browser = Browser::start(360, 800)?;
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        browser.prefer(scheme)?;
        for (width, height) in [(360, 800), (1280, 900), (1920, 1080), (3840, 2160)] {
            browser.resize(width, height)?;
            browser.open(&demo.page(""))?;
            let needed = browser.script("return document.documentElement.scrollWidth")?;
            ensure!(
                needed.as_u64() <= Some(width.into()),
                "{needed} pixels in a window of {width}"
            );
        }
        grounds.push(browser.script("return getComputedStyle(document.body).backgroundColor")?);
        // Drawings follow too: the ink of the axes is another one.
        grounds.push(
            browser.script("return document.querySelector('#events text').getAttribute('fill')")?,
        );
    }
    ensure!(
        grounds[0] != grounds[2] && grounds[1] != grounds[3],
        "{grounds:?}"
    );
    browser.must_be_content()
}

fn advice() -> Result<()> {
    let demo = demo::usual()?;
    let browser = Browser::start(1400, 900)?;
    browser.open(&demo.page(""))?;
    browser.wait_until(
        "it can be jumped to",
        "return !document.querySelector('.sections [data-act=\"jump:advice\"]').hidden",
    )?;
    browser.click("jump:advice")?;
    browser.wait_until(
        "it is in sight",
        "const { top, height } = document.getElementById('advice').getBoundingClientRect(); \
         return height > 0 && top >= 0 && top < innerHeight",
    )?;
    browser.script("document.querySelector('#advice-list summary').click()")?;
    let list = "return document.querySelector('#advice-list article > p').textContent";
    let before = browser.script(list)?.to_string();
    browser.wait_until("its figures change", &format!("{list} !== {before}"))?;
    let open = "return document.querySelectorAll('#advice-list details[open]').length";
    let open = browser.script(open)?;
    ensure!(open == 1, "{open} of the list are open");
    let text = browser.text("#advice-list")?;
    ensure!(text.contains("Gain: at most "), "{text}");
    Ok(())
}

fn score() -> Result<()> {
    let demo = Demo::with(&["--health"])?;
    let browser = Browser::start(1400, 900)?;
    browser.open(&demo.page(""))?;
    browser.wait_until(
        "reads and writes are scored",
        "return !document.getElementById('health').hidden \
         && document.querySelectorAll('#health-list th.num').length === 2",
    )?;
    let text = browser.text("#health-list")?;
    ensure!(text.contains("Reads") && text.contains(" ms"), "{text}");
    ensure!(text.contains("round_trip"), "{text}");
    Ok(())
}

fn anomalies() -> Result<()> {
    let demo = demo::usual()?;
    // Only what is in sight is drawn.
    let browser = Browser::tall()?;
    browser.open(&demo.page(""))?;
    // The demonstration has one when it is 75 seconds old.
    let script = "return document.querySelectorAll('#anomalies-list article').length > 0 \
                  && document.querySelectorAll('#events rect[fill=\"#D9482B\"]').length > 0";
    child::within(Duration::from_secs(150), || {
        ensure!(browser.script(script)? == true, "none is there");
        Ok(())
    })?;
    let text = browser.text("#anomalies-list")?;
    ensure!(text.contains("TCP segments sent again"), "{text}");
    let is_seen = "return !document.getElementById('anomalies').hidden";
    ensure!(browser.script(is_seen)? == true);
    browser.must_be_content()
}
