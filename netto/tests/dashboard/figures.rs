//! Figures on the page agree: a legend with its chart, and all of them in each unit.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::child;
use crate::demo;
use crate::reader::{CATCH_FILES, HASH, MODE, file, open};
use crate::trial::tests;

tests! {
    page;
    figures::a_legend_says_last_mean_and_largest_of_what_its_chart_shows = legend;
    figures::one_switch_says_all_values_on_another_basis = basis;
}

/// RX softirq and networking in nanoseconds, then RX softirq as headline's neighbour, list,
/// table and legend say it, and networking as the headline does.
const SAID: &str = r##"
    const number = (query) => parseFloat(document.querySelector(query).textContent);
    const ns = (slug) => Number(document.querySelector(`td[data-component=${slug}][data-cpu=all]`).dataset.ns);
    return {
        rx: ns("rx_softirq"), network: ns("network"),
        list: number("[data-bar='2'][data-key=rx_softirq] .value"),
        cell: number("td[data-component=rx_softirq][data-cpu=all]"),
        mean: number("#events-legend [data-key=rx_softirq] td:nth-of-type(2)"),
        headline: number("#share"),
        pressed: Array.from(document.querySelectorAll("[data-act^='basis:'][aria-pressed=true]"),
            (e) => e.dataset.act),
        sentences: ["now-basis", "events-basis", "table-basis", "heat-basis"].map((id) =>
            document.getElementById(id).textContent),
    };
"##;

fn basis() -> Result<()> {
    let demo = demo::usual()?;
    let browser = open(&demo, "")?;
    browser.click("pause")?;
    browser.wait_until("the page is paused", &format!("{MODE} === 'paused'"))?;
    let mut means = Vec::new();
    for (name, of_a_cpu, words) in [
        ("host", 100.0 / 16.0, "% of this host's CPU"),
        ("cpus", 1.0, "CPUs' worth of time"),
        ("ms", 1_000.0, "ms of CPU time per second"),
        ("parent", f64::NAN, "% of"),
    ] {
        browser.click(&format!("basis:{name}"))?;
        child::eventually(|| {
            let found = browser.script(SAID)?;
            ensure!(
                found["pressed"] == json!([format!("basis:{name}")]),
                "{found}"
            );
            for sentence in found["sentences"].as_array().context("no sentences")? {
                let text = sentence.as_str().unwrap_or_default();
                // Of one CPU's time over time, that CPU is the whole.
                let is_of_cpu = text.contains("% of that CPU");
                ensure!(text.contains(words) || is_of_cpu, "{name}: {text}");
            }
            Ok(())
        })?;
        let found = browser.script(SAID)?;
        let number = |key: &str| {
            found[key]
                .as_f64()
                .with_context(|| format!("no {key}: {found}"))
        };
        let (list, cell) = (number("list")?, number("cell")?);
        ensure!(list == cell, "{name}: list and table differ: {found}");
        means.push(number("mean")?);
        let expected = match name {
            "parent" => number("rx")? / number("network")? * 100.0,
            // Networking has the same unit, but the headline stays live while the rest is paused.
            _ => number("cell")?,
        };
        ensure!((cell - expected).abs() <= 0.051, "{name}: {found}");
        if of_a_cpu.is_finite() {
            let ratio = number("headline")? / of_a_cpu;
            ensure!((0.1..8.0).contains(&ratio), "{ratio} CPUs of 8: {found}");
        }
        let is_told = browser
            .script(HASH)?
            .to_string()
            .contains(&format!("basis={name}"));
        ensure!(is_told != (name == "host"), "the default needs no word");
    }
    // The same mean of the same minutes; from 10 % on it is rounded to a tenth.
    let [host, cpus, ms, _] = means[..] else {
        anyhow::bail!("four were read");
    };
    ensure!((host / 100.0 * 16.0 - cpus).abs() < 0.005, "{means:?}");
    ensure!((ms / 1_000.0 - cpus).abs() < 0.002, "{means:?}");
    browser.must_be_content()
}

/// The rows of the events' legend: slug or name, then its numbers.
const LEGEND: &str = r##"
    return Array.from(document.querySelectorAll("#events-legend tbody tr"), (row) => [
        row.dataset.key ?? row.querySelector("th").textContent,
        ...Array.from(row.querySelectorAll("td"), (e) => Number(e.textContent.replace("<", "")))]);
"##;

fn legend() -> Result<()> {
    let demo = demo::usual()?;
    let browser = open(&demo, "span=60")?;
    browser.script(CATCH_FILES)?;
    browser.click("pause")?;
    browser.wait_until("the page is paused", &format!("{MODE} === 'paused'"))?;
    // What had come just before may still be drawn.
    child::eventually(|| {
        let (_, csv) = file(&browser, "save:events:csv")?;
        compare(&browser.script(LEGEND)?, &csv)
    })?;
    let text = browser.text("#events-basis")?;
    ensure!(
        text.starts_with("Values in % of this host's CPU.") && text.contains("of the 60 s shown"),
        "{text}"
    );
    browser.must_be_content()
}

/// Lines of the legend against the values of the chart.
fn compare(found: &Value, csv: &str) -> Result<()> {
    let rows = found.as_array().context("no rows")?;
    let head = csv.lines().next().context("no head")?;
    let values = |column: usize| -> Vec<f64> {
        let fields = csv.lines().skip(1).map(|row| row.split(',').nth(column));
        fields.flatten().filter_map(|f| f.parse().ok()).collect()
    };
    let (mut sums, mut compared) = ([0.0; 2], 0);
    for row in rows {
        let name = row[0].as_str().context("no name")?;
        let shown = [1, 2, 3].map(|at| row[at].as_f64().unwrap_or(f64::NAN));
        let near = |a: f64, b: f64, within: f64| (a - b).abs() <= within;
        if name == "Total" {
            // Each line is rounded.
            ensure!(near(shown[0], sums[0], 0.05), "{shown:?}, lines: {sums:?}");
            ensure!(near(shown[1], sums[1], 0.05), "{shown:?}, lines: {sums:?}");
            compared += 1;
            continue;
        }
        sums = [sums[0] + shown[0], sums[1] + shown[1]];
        let title = format!("{name}_percent_of_host");
        let Some(column) = head.split(',').position(|heading| heading == title) else {
            ensure!(name.starts_with("Other ("), "{name} is not in {head}");
            continue;
        };
        let values = values(column);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let most = values.iter().copied().fold(0.0, f64::max);
        let last = *values.last().context("no value")?;
        ensure!(near(shown[0], last, 0.0051), "{name}: {shown:?}, {last}");
        ensure!(near(shown[1], mean, 0.0051), "{name}: {shown:?}, {mean}");
        ensure!(near(shown[2], most, 0.0051), "{name}: {shown:?}, {most}");
        compared += 1;
    }
    ensure!(compared == 7, "six lines and their total: {rows:?}");
    Ok(())
}
