//! Files of what is shown: `view:format`, for example `events:svg`.

use metrics_common::snapshot::{Info, Snapshot};
use wasm_bindgen::prelude::*;
use web_sys::{Blob, CanvasRenderingContext2d, HtmlCanvasElement, HtmlImageElement};

use super::dom::Dom;
use super::flame::FlameGraph;
use super::heat::HeatMap;
use super::now::Now;
use super::time::TimeChart;
use crate::export;

/// Pixels of a picture for each pixel of the page.
const PICTURE_SCALE: f64 = 2.0;

/// All that can be saved.
pub struct Shown<'a> {
    /// The document.
    pub dom: &'a Dom,
    /// The daemon.
    pub info: &'a Info,
    /// The interval shown.
    pub latest: &'a Snapshot,
    /// The bars.
    pub now: &'a Now,
    /// The charts over time.
    pub charts: &'a [TimeChart; 2],
    /// The heat map.
    pub heat: &'a HeatMap,
    /// The flame graph.
    pub flame: &'a FlameGraph,
}

/// Gives the reader the file that `what` names.
///
/// # Errors
/// The browser's.
pub fn save(shown: &Shown, what: &str) -> Result<(), JsValue> {
    let (view, format) = what.split_once(':').unwrap_or((what, "csv"));
    let time = export::iso_time(js_sys::Date::now());
    let stamp = time.get(..19).unwrap_or(&time).replace(':', "");
    let host: String = shown
        .info
        .hostname
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        })
        .collect();
    let name = format!("netto-{host}-{view}-{stamp}.{format}");
    let chart = shown.charts.iter().find(|chart| chart.id == view);
    let dom = shown.dom;
    match (view, format) {
        ("table", "csv") => {
            let csv = export::table_csv(shown.info, shown.latest);
            dom.download(&name, "text/csv", &csv)
        }
        ("table", "copy") => copy(dom, &export::table_csv(shown.info, shown.latest)),
        ("heat", "csv") => match shown.heat.map() {
            Some(map) => dom.download(&name, "text/csv", &export::heat_csv(map)),
            None => Ok(()),
        },
        ("flame", "folded") => match shown.flame.folded() {
            Some(folded) => dom.download(&name, "text/plain", folded),
            None => Ok(()),
        },
        ("heat", "png") => {
            let canvas: HtmlCanvasElement = dom.typed("heat-canvas")?;
            let copy = enlarged(dom, &canvas)?;
            picture_of(&copy, &name)
        }
        (_, "csv") => match chart.and_then(TimeChart::chart) {
            Some(chart) => dom.download(&name, "text/csv", &export::chart_csv(chart)),
            None => Ok(()),
        },
        _ => {
            let svg = match chart {
                Some(chart) => chart.svg(dom),
                None if view == "flame" => shown.flame.svg(dom, shown.info),
                None => shown.now.svg(dom),
            };
            let Some(svg) = svg else {
                return Ok(());
            };
            let title = format!("netto: {view} of {} at {time}", shown.info.hostname);
            let svg = export::standalone_svg(&svg, dom.theme().surface, &title);
            if format == "svg" {
                dom.download(&name, "image/svg+xml", &svg)
            } else {
                picture(dom, &svg, name)
            }
        }
    }
}

/// Puts text on the clipboard, where the page may; else it becomes a file.
fn copy(dom: &Dom, text: &str) -> Result<(), JsValue> {
    let navigator = dom.window.navigator();
    // Only pages from the host itself or over HTTPS have a clipboard.
    let clipboard = js_sys::Reflect::get(&navigator, &"clipboard".into())?;
    if clipboard.is_undefined() {
        return dom.download("netto-table.csv", "text/csv", text);
    }
    let done = navigator.clipboard().write_text(text);
    let report = Closure::once_into_js(|error: JsValue| {
        web_sys::console::warn_2(&"netto: nothing was copied:".into(), &error);
    });
    // A promise whose refusal nobody hears would be an error of the page.
    let catch: js_sys::Function = js_sys::Reflect::get(&done, &"catch".into())?.dyn_into()?;
    catch.call1(&done, &report).map(|_| ())
}

/// Each cell of the map as a square that can be seen.
fn enlarged(dom: &Dom, canvas: &HtmlCanvasElement) -> Result<HtmlCanvasElement, JsValue> {
    let (width, height) = (canvas.client_width() as u32, canvas.client_height() as u32);
    let copy = new_canvas(dom, width.max(1), height.max(1))?;
    let context = context_of(&copy)?;
    context.set_image_smoothing_enabled(false);
    context.draw_image_with_html_canvas_element_and_dw_and_dh(
        canvas,
        0.0,
        0.0,
        f64::from(width),
        f64::from(height),
    )?;
    Ok(copy)
}

/// Turns a drawing into a picture, by way of the browser's own eyes.
fn picture(dom: &Dom, svg: &str, name: String) -> Result<(), JsValue> {
    let image = HtmlImageElement::new()?;
    let (document, loaded) = (dom.document().clone(), image.clone());
    let draw = Closure::once_into_js(move || -> Result<(), JsValue> {
        let scaled = |pixels: u32| f64::from(pixels) * PICTURE_SCALE;
        let (width, height) = (
            scaled(loaded.natural_width()),
            scaled(loaded.natural_height()),
        );
        let canvas: HtmlCanvasElement = document.create_element("canvas")?.unchecked_into();
        canvas.set_width(width as u32);
        canvas.set_height(height as u32);
        context_of(&canvas)?
            .draw_image_with_html_image_element_and_dw_and_dh(&loaded, 0.0, 0.0, width, height)?;
        picture_of(&canvas, &name)
    });
    image.set_onload(Some(draw.unchecked_ref()));
    let encoded = js_sys::encode_uri_component(svg);
    image.set_src(&format!(
        "data:image/svg+xml;charset=utf-8,{}",
        String::from(encoded)
    ));
    Ok(())
}

fn picture_of(canvas: &HtmlCanvasElement, name: &str) -> Result<(), JsValue> {
    let window = web_sys::window().ok_or("there is no window")?;
    let name = name.to_owned();
    let give = Closure::once_into_js(move |blob: Option<Blob>| -> Result<(), JsValue> {
        let blob = blob.ok_or("the browser made no picture")?;
        Dom::new(window)?.download_blob(&name, &blob)
    });
    canvas.to_blob(give.unchecked_ref())
}

fn new_canvas(dom: &Dom, width: u32, height: u32) -> Result<HtmlCanvasElement, JsValue> {
    let canvas: HtmlCanvasElement = dom.document().create_element("canvas")?.unchecked_into();
    canvas.set_width(width);
    canvas.set_height(height);
    Ok(canvas)
}

fn context_of(canvas: &HtmlCanvasElement) -> Result<CanvasRenderingContext2d, JsValue> {
    let context = canvas
        .get_context("2d")?
        .ok_or("the canvas has no context")?;
    context.dyn_into().map_err(JsValue::from)
}
