//! A component's own page: reached by its name from anywhere, by a link, and left again.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::browser::Browser;
use crate::demo;
use crate::flame;
use crate::trial::tests;

tests! {
    page;
    about::every_component_has_a_page_and_the_way_back_leads_to_where_one_was = there_and_back;
    about::its_functions_are_those_of_its_own_stacks;
    about::a_link_opens_it_on_windows_of_any_kind = links;
}

/// The views that have a size.
const SHOWN: &str = "return Array.from(document.querySelectorAll('[data-view]'), (e) => \
    [e.dataset.view, e.firstElementChild.offsetHeight > 0]).filter((v) => v[1]).map((v) => v[0])";

fn is_open(browser: &Browser, name: &str) -> Result<()> {
    let script = format!(
        "return document.getElementById('netto').dataset.about !== undefined \
         && document.getElementById('about-title').textContent === {name:?}"
    );
    browser.wait_until(&format!("the page of {name} is open"), &script)
}

fn is_closed(browser: &Browser) -> Result<()> {
    let closed = "return document.getElementById('netto').dataset.about === undefined \
        && document.getElementById('components').offsetHeight > 0";
    browser.wait_until("all components are shown", closed)
}

fn there_and_back() -> Result<()> {
    let demo = demo::usual()?;
    let browser = Browser::start(1400, 2200)?;
    browser.open(&demo.page("span=60"))?;
    browser.script("document.getElementById('components').scrollIntoView()")?;
    browser.wait_until(
        "the table is there",
        "return document.querySelector('#table [data-act=\"about:conntrack\"]') !== null",
    )?;
    browser.script(
        "const b = document.querySelector('#table [data-act=\"about:conntrack\"]'); \
         b.focus(); b.scrollIntoView({ block: 'center' })",
    )?;
    let place = browser.script("return scrollY")?;
    // A button takes enter from the keyboard as it takes a click.
    browser.script("document.activeElement.click()")?;
    is_open(&browser, "Conntrack")?;
    let path = browser.text("#about-path")?;
    ensure!(path == "AllNetworkingRX softirqConntrack", "{path}");
    for (id, words) in [
        ("about-help", "Connection tracking"),
        ("about-advice", "notrack"),
        ("about-figures", "of this host"),
        ("about-time-legend", "Conntrack"),
        ("about-time-basis", "of the 60 s shown"),
        ("flame-what", "in which Conntrack's CPU time goes"),
    ] {
        let script =
            format!("return document.getElementById('{id}').textContent.includes({words:?})");
        browser.wait_until(&format!("{id} says {words}"), &script)?;
    }
    let shown = browser.script(SHOWN)?.to_string();
    for (view, is_there) in [
        ("about", true),
        ("cpus", true),
        ("flame", true),
        ("headline", true),
        ("now", false),
        ("time", false),
        ("table", false),
    ] {
        ensure!(
            shown.contains(&format!("\"{view}\"")) == is_there,
            "{view}: {shown}"
        );
    }
    ensure!(browser.script("return document.getElementById('component').value")? == "conntrack");
    ensure!(browser.script("return document.activeElement.id")? == "about-title");
    // From part to whole, and back as with any link.
    browser.click("about:rx_softirq")?;
    is_open(&browser, "RX softirq")?;
    browser.script("history.back()")?;
    is_open(&browser, "Conntrack")?;
    browser.key("Escape")?;
    is_closed(&browser)?;
    ensure!(browser.script("return location.hash.includes('about=')")? == false);
    browser.wait_until(
        "the reader is where they were",
        &format!(
            "return document.activeElement.dataset.act === 'about:conntrack' \
             && Math.abs(scrollY - {place}) < 200"
        ),
    )?;
    // From each kind of list.
    for place in ["#legend", "#events-legend", "#parts-legend", "#leads"] {
        browser.wait_until(
            &format!("{place} has names"),
            &format!("return document.querySelector('{place} [data-act^=\"about:\"]') !== null"),
        )?;
        browser.script(&format!(
            "document.querySelector('{place} [data-act^=\"about:\"]').click()"
        ))?;
        browser.wait_until(
            &format!("a name in {place} leads to its page"),
            "return document.getElementById('netto').dataset.about !== undefined",
        )?;
        browser.script("history.back()")?;
        is_closed(&browser)?;
    }
    browser.must_be_content()
}

fn its_functions_are_those_of_its_own_stacks() -> Result<()> {
    const STACKS: &str = "rx_softirq;net_rx_action;__napi_poll;x_poll;dev_gro_receive;inet_gro_receive 300\n\
        rx_softirq;net_rx_action;__napi_poll;x_poll 200\n\
        tx_syscall;tcp_sendmsg;memcpy 500\n";
    let demo = demo::usual()?;
    let browser = flame::page(&demo, 200, STACKS, "about=gro")?;
    browser.wait_until(
        "its stacks are shown",
        "return document.getElementById('flame-basis').textContent\
             .startsWith('300 samples of GRO, of 1\\u202f000 of networking')",
    )?;
    let has = |name: &str| -> Result<bool> {
        let script =
            format!("return document.getElementById('flames').textContent.includes('{name}')");
        Ok(browser.script(&script)? == true)
    };
    ensure!(has("inet_gro_receive")? && !has("memcpy")?);
    browser.click("overview")?;
    is_closed(&browser)?;
    browser.click("about:tx_syscall")?;
    browser.wait_until(
        "those of another are shown",
        "return document.getElementById('flame-basis').textContent.startsWith('500 samples of Socket sends')",
    )?;
    ensure!(has("memcpy")? && !has("inet_gro_receive")?);
    browser.must_be_content()
}

fn links() -> Result<()> {
    let demo = demo::usual()?;
    let browser = Browser::start(400, 900)?;
    browser.open(&demo.page("about=rx_softirq&basis=parent"))?;
    is_open(&browser, "RX softirq")?;
    for (width, height) in [(360, 800), (1280, 900), (1920, 1080)] {
        browser.resize(width, height)?;
        let needed = browser.script("return document.documentElement.scrollWidth")?;
        ensure!(needed.as_u64() <= Some(width.into()), "{needed} of {width}");
    }
    let figures = browser.text("#about-figures")?;
    ensure!(figures.starts_with("of all networking"), "{figures}");
    // Its parts are in its chart, and parts that are not measured here have a reason.
    browser.open(&demo.page("about=nf_ingress"))?;
    is_open(&browser, "NF ingress")?;
    let figures = browser.text("#about-figures")?;
    ensure!(figures.contains("CONFIG_NETFILTER_INGRESS"), "{figures}");
    browser.open(&demo.page("about=no_such_thing"))?;
    is_open(&browser, "this daemon knows no such component")?;
    let left = browser.script("return document.querySelectorAll('#about-figures dd').length")?;
    ensure!(left == json!(0), "{left}");
    browser.script("document.getElementById('about').focus()")?;
    browser.key("Escape")?;
    is_closed(&browser).context("after a link to nothing")
}
