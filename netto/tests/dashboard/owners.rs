//! The view of owners: the page has the values of the API, for pointer and screen reader.

use anyhow::{Context, Result, ensure};

use crate::browser::Browser;
use crate::demo;
use crate::trial::tests;

tests! {
    page;
    owners::they_are_those_of_the_api_and_open_into_what_they_caused = owners;
}

fn owners() -> Result<()> {
    const LINES: &str = r##"
        const list = (query, read) => Array.from(document.querySelectorAll(query), read);
        return {
            first: Number(document.getElementById("netto").dataset.firstSequence),
            sequence: Number(document.getElementById("netto").dataset.sequence),
            lines: list("#owners-table tr.depth-0", (row) => [row.querySelector(".owner").textContent,
                ...Array.from(row.querySelectorAll("td"), (cell) => cell.textContent)]),
            pair: document.getElementById("owners-pair").textContent,
        };
    "##;
    let demo = demo::slow()?;
    let browser = Browser::tall()?;
    browser.open(&demo.page("basis=ms"))?;
    let (page, snapshot) = demo.shown(&browser, LINES)?;
    let owners = &snapshot["owners"];
    let listed = owners["owners"].as_array().context("no owners")?;
    let lines = page["lines"].as_array().context("no lines")?;
    let taken = owners["taken"].as_array().context("no pairs")?;
    for (place, owner) in listed.iter().enumerate() {
        let line = lines.iter().find(|line| line[0] == owner["label"]);
        let caused = owner["caused"].as_array().context("no components")?;
        let caused: u64 = caused
            .iter()
            .filter_map(|component| component["total_ns"].as_u64())
            .sum();
        let paid = taken
            .iter()
            .filter(|pair| pair["payer"] == place && pair["cause"] != place);
        let paid: u64 = paid.filter_map(|pair| pair["ns"].as_u64()).sum();
        // Who lost no more than chance gives is folded.
        let Some(line) = line else {
            ensure!(caused == 0, "no line for {owner}");
            continue;
        };
        for (column, ns) in [(1, caused), (5, paid)] {
            let shown = line[column].as_str().context("no value")?.replace('<', "");
            let (shown, expected) = (
                shown.parse::<f64>()?,
                ns as f64 / 1e3 / f64::from(demo::SLOW_MS),
            );
            ensure!((shown - expected).abs() <= 0.11, "{line}: {expected}");
        }
    }
    let pair = page["pair"].as_str().context("no sentence")?;
    let owner = |pair: &serde_json::Value, role: &str| -> Option<&serde_json::Value> {
        listed.get(usize::try_from(pair[role].as_u64()?).ok()?)
    };
    let is_named = |pair: &&serde_json::Value, role: &str| {
        let kind = owner(pair, role).and_then(|owner| owner["kind"].as_str());
        kind.is_some_and(|kind| ["cgroup", "process", "interface"].contains(&kind))
    };
    let largest = taken
        .iter()
        .filter(|pair| pair["cause"] != pair["payer"])
        .filter(|pair| is_named(pair, "cause") && is_named(pair, "payer"))
        .max_by_key(|pair| pair["ns"].as_u64())
        .context("nobody took time from another")?;
    let label = |role: &str| -> Result<&str> {
        let owner = owner(largest, role).context("no owner")?;
        owner["label"].as_str().context("no label")
    };
    let (cause, payer) = (label("cause")?, label("payer")?);
    ensure!(
        pair.starts_with(&format!("{cause} took "))
            && pair.ends_with(&format!(" ms/s from {payer}.")),
        "{pair}: not {cause} from {payer}"
    );
    let scopes = browser.script(
        "return ['col', 'row'].map((scope) => \
         document.querySelectorAll(`#owners-matrix th[scope=${scope}]`).length)",
    )?;
    ensure!(
        scopes[0].as_u64() > Some(3) && scopes[1].as_u64() > Some(3),
        "{scopes}"
    );
    // By the keyboard, an owner opens into its events and their parts, and stays open.
    let first = "document.querySelector('#owners-table [data-act^=\"owner:\"]')";
    browser.script(&format!("{first}.focus(); {first}.click()"))?;
    browser.wait_until(
        "the owner is open and still has the keyboard",
        &format!(
            "return {first}.ariaExpanded === 'true' && document.activeElement === {first} \
             && document.querySelectorAll('#owners-table tr.depth-1').length > 1 \
             && document.querySelectorAll('#owners-table tr.depth-2').length > 5"
        ),
    )?;
    browser.script(
        "const select = document.getElementById('owners-component'); select.value = 'gro'; \
         select.dispatchEvent(new Event('input', { bubbles: true }))",
    )?;
    browser.wait_until(
        "owners of one component are shown",
        "return document.querySelectorAll('#owners-table thead th').length === 4 \
         && location.hash.includes('owners-of=gro')",
    )?;
    // Figures of all softirqs do not stand beside those of one component.
    browser.wait_until(
        "pairs are not shown for a component",
        "return document.getElementById('owners-matrix').hidden \
         && document.getElementById('owners-pair').textContent.includes('all softirqs together')",
    )?;
    browser.must_be_content()
}
