//! The documentation's pictures: taken in every run, so that they can be taken,
//! and kept in the folder that `NETTO_SCREENSHOTS` names (`cargo xtask screenshots`).

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use serde_json::json;

use crate::browser::Browser;
use crate::demo::{self, Demo};
use crate::trial::tests;

tests! {
    page;
    pictures::of_every_kind_of_window_are_not_empty;
}

/// A smaller picture is that of an empty page.
const LEAST_BYTES: usize = 20_000;
/// Most bytes of a picture in the repository.
const MOST_BYTES: usize = 300_000;

/// Name, number of CPUs, size of the window, scheme, and fragment of the address.
type Picture = (&'static str, u32, (u32, u32), &'static str, &'static str);

const PICTURES: &[Picture] = &[
    ("overview-light", 128, (1280, 1640), "light", ""),
    ("wall-dark", 64, (1920, 1080), "dark", ""),
    ("narrow-light", 4, (360, 800), "light", ""),
    ("narrow-dark", 4, (360, 800), "dark", "time"),
    ("flame-light", 16, (1280, 700), "light", "flame&flame=1"),
    ("traffic-light", 16, (1280, 960), "light", "traffic"),
    ("owners-light", 16, (1280, 960), "light", "owners"),
    ("latency-light", 16, (1280, 900), "light", "latency"),
];

/// Views that are scrolled to, and an element that exists once they are drawn.
const DRAWN: &[(&str, &str)] = &[
    ("traffic", "#per-packet svg polyline"),
    ("owners", "#owners tbody tr"),
    ("latency", "#latency-heat svg rect"),
];

fn of_every_kind_of_window_are_not_empty() -> Result<()> {
    let folder = std::env::var_os("NETTO_SCREENSHOTS").map(std::path::PathBuf::from);
    let browser = Browser::start(1280, 900)?;
    for (name, cpus, (width, height), scheme, view) in PICTURES {
        let demo = match (*view, *cpus) {
            ("latency", _) => Arc::new(Demo::with_latency(*cpus, 500)?),
            (_, 16) => demo::usual()?,
            (_, 128) => demo::wide()?,
            _ => Arc::new(Demo::start(*cpus, 500)?),
        };
        browser.resize(*width, *height)?;
        browser.prefer(scheme)?;
        browser.open(&demo.page(view))?;
        browser.wait_until(
            "the first intervals are shown",
            "return document.querySelector('#parts svg polygon') !== null \
             && document.getElementById('lead-part').textContent !== ''",
        )?;
        if view.contains("flame=1") {
            browser.wait_until(
                "the flame graph is drawn",
                "document.getElementById('flame').scrollIntoView(); \
                 return document.querySelectorAll('#flames rect').length > 20 \
                 && document.querySelector('#flame-basis').textContent !== ''",
            )?;
        }
        if let Some((id, drawn)) = DRAWN.iter().find(|(id, _)| id == view) {
            browser.wait_until(
                "the view is drawn",
                &format!(
                    "document.getElementById('{id}').scrollIntoView(); \
                     return document.querySelector('{drawn}') !== null"
                ),
            )?;
        }
        // Large windows are shown smaller; the smallest has every pixel.
        let scale = if *width > 360 { 0.75 } else { 1.0 };
        let top = browser.script("return scrollY")?;
        let clip = json!({ "x": 0, "y": top, "width": width, "height": height, "scale": scale });
        let picture = browser.cdp("Page.captureScreenshot", json!({ "clip": clip }))?;
        let encoded = picture["data"].as_str().context("no picture")?;
        let bytes = base64::engine::general_purpose::STANDARD.decode(encoded)?;
        let size = bytes.len();
        ensure!(size >= LEAST_BYTES, "{name} has {size} bytes");
        if let Some(folder) = &folder {
            ensure!(size <= MOST_BYTES, "{name} has {size} bytes");
            std::fs::create_dir_all(folder)?;
            let file = folder.join(format!("{name}.png"));
            std::fs::write(&file, bytes)
                .with_context(|| format!("cannot write {}", file.display()))?;
        }
    }
    browser.must_be_content()
}
