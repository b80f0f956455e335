//! The view of the example in a browser: where its section is, and nowhere else.

use std::net::SocketAddr;

use anyhow::{Result, ensure};

use crate::child;
use crate::trial::tests;
use crate::webdriver::{Browser, TALL_WINDOW};
use crate::with::{QUICK, serve, with, without};

tests! {
    house::its_view_is_on_the_page_where_its_section_is_and_nowhere_else ["chromium", "chromedriver"];
}

/// The page's state, its views that are shown, and the ticks.
const READ: &str = "const views = Array.from(document.querySelectorAll('[data-view]')); \
    return { \
        state: document.getElementById('netto').dataset.state, \
        sequence: Number(document.getElementById('netto').dataset.sequence), \
        shown: views.filter((view) => !view.hidden).map((view) => view.dataset.view), \
        ticks: Number(document.getElementById('ticks-count').textContent), \
    }";

/// What a page shows, once it is live and has drawn a few snapshots.
fn page(browser: &Browser, at: SocketAddr, fragment: &str) -> Result<serde_json::Value> {
    // Another fragment alone would not load the page anew.
    browser.open("about:blank")?;
    browser.open(&format!("http://{at}/{fragment}"))?;
    child::eventually(|| {
        let page = browser.script(READ)?;
        let is_live = page["state"] == "live" && page["sequence"].as_u64() >= Some(2);
        ensure!(is_live, "the page shows {page}");
        Ok(page)
    })
}

fn shows(page: &serde_json::Value, view: &str) -> bool {
    page["shown"]
        .as_array()
        .is_some_and(|shown| shown.iter().any(|name| name == view))
}

fn its_view_is_on_the_page_where_its_section_is_and_nowhere_else() -> Result<()> {
    let has = serve(with()?, &QUICK)?;
    let has_not = serve(without()?, &QUICK)?;
    let browser = Browser::start(TALL_WINDOW)?;

    let seen = page(&browser, has.at, "")?;
    let has_ticks = shows(&seen, "ticks") && seen["ticks"] == seen["sequence"];
    ensure!(has_ticks && shows(&seen, "now"), "the page shows {seen}");
    let seen = page(&browser, has.at, "#hide=ticks")?;
    ensure!(!shows(&seen, "ticks"), "hidden by the reader: {seen}");
    ensure!(shows(&seen, "now"), "hidden with the ticks: {seen}");

    let seen = page(&browser, has_not.at, "")?;
    let is_absent = !shows(&seen, "ticks") && shows(&seen, "now");
    ensure!(is_absent, "without the section: {seen}");

    let errors = browser.console_errors()?;
    ensure!(errors.is_empty(), "the console has errors: {errors:?}");
    Ok(())
}
