//! The view of latencies: the page has the values of the API, and shows them over time above the
//! cost.

use anyhow::{Context, Result, ensure};
use metrics_common::latency::words::time;

use crate::browser::Browser;
use crate::demo::{self, Demo};
use crate::trial::tests;

tests! {
    page;
    latency::percentiles_are_those_of_the_api_and_cost_stands_below_them = latency;
}

fn latency() -> Result<()> {
    const LINES: &str = r##"
        const list = (query, read) => Array.from(document.querySelectorAll(query), read);
        return {
            first: Number(document.getElementById("netto").dataset.firstSequence),
            sequence: Number(document.getElementById("netto").dataset.sequence),
            lines: list("#latency-table tr.point", (row) => [row.dataset.point,
                ...Array.from(row.querySelectorAll("td"), (cell) => cell.textContent)]),
            remarks: document.getElementById("latency-remarks").textContent,
        };
    "##;
    let demo = Demo::with_latency(16, demo::SLOW_MS)?;
    let browser = Browser::tall()?;
    browser.open(&demo.page(""))?;
    let (page, snapshot) = demo.shown(&browser, LINES)?;
    let points = snapshot["latency"]["points"]
        .as_array()
        .context("no points")?;
    let lines = page["lines"].as_array().context("no lines")?;
    ensure!(
        lines.len() == points.len() && lines.len() == 12,
        "{lines:?}"
    );
    for point in points {
        let line = lines.iter().find(|line| line[0] == point["point"]);
        let line = line.with_context(|| format!("no line for {}", point["point"]))?;
        let buckets = point["buckets"].as_array().context("no buckets")?;
        let counts: Vec<u64> = buckets
            .iter()
            .map(|bucket| bucket["counts"].as_array().into_iter().flatten())
            .map(|counts| counts.filter_map(serde_json::Value::as_u64).sum())
            .collect();
        let half = counts.iter().sum::<u64>().div_ceil(2);
        let mut below = 0;
        let median = counts.iter().position(|count| {
            below += count;
            below >= half
        });
        let bucket = &buckets[median.context("no median")?];
        let bound = |name: &str| bucket[name].as_u64().context("no bound");
        let expected = time(bound("lower_ns")?.midpoint(bound("upper_ns")?));
        ensure!(line[1] == expected.as_str(), "{line}: {expected}");
    }
    let remarks = page["remarks"].as_str().context("no remarks")?;
    ensure!(remarks.contains("Driver to IP: not measured"), "{remarks}");
    // The past is shown from the first moment, on one axis with the cost.
    browser.wait_until(
        "both plots are drawn",
        "return document.querySelectorAll('#latency-heat svg rect').length > 200 \
         && document.querySelectorAll('#latency-cost svg polyline').length > 4",
    )?;
    let choose = |id: &str, value: &str| {
        browser.script(&format!(
            "const select = document.getElementById('{id}'); select.value = '{value}'; \
             select.dispatchEvent(new Event('input', {{ bubbles: true }}))"
        ))
    };
    choose("latency-grouping", "owner")?;
    choose("latency-point", "qdisc")?;
    browser.wait_until(
        "owners are told apart, another point is shown over time, and a link says so",
        "return document.querySelectorAll('#latency-table tr.group').length === 40 \
         && document.getElementById('latency-heat-title').textContent === 'Queueing discipline' \
         && location.hash.includes('latency-by=owner') && location.hash.includes('latency-of=qdisc')",
    )?;
    browser.must_be_content()
}
