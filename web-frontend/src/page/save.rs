//! Offers drawings and tables as files.

use wasm_bindgen::prelude::*;
use web_sys::{Blob, CanvasRenderingContext2d, HtmlCanvasElement, HtmlImageElement};

use super::dom::Dom;
use crate::action::Format;
use crate::export;
use crate::state::name_of;

/// Resolution of a picture, relative to the page.
const PICTURE_SCALE: f64 = 2.0;

/// The content of a file, as a view provides it.
pub enum File {
    /// Text of a file.
    Text(String),
    /// Text for the clipboard.
    Clipboard(String),
    /// A drawing as SVG, given as such or as a picture.
    Drawing(String),
    /// A picture.
    Canvas(HtmlCanvasElement),
}

/// Offers the content that a view provides of the drawing named `what`.
///
/// # Errors
/// The browser's.
pub fn give(
    dom: &Dom,
    hostname: &str,
    what: &str,
    format: Format,
    file: File,
) -> Result<(), JsValue> {
    let time = export::iso_time(js_sys::Date::now());
    let stamp = time.get(..19).unwrap_or(&time).replace(':', "");
    let host: String = hostname
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        })
        .collect();
    let ending = name_of(&Format::ALL, format);
    let name = format!("netto-{host}-{what}-{stamp}.{ending}");
    match file {
        File::Text(text) => {
            let kind = if format == Format::Csv {
                "text/csv"
            } else {
                "text/plain"
            };
            dom.download(&name, kind, &text)
        }
        File::Clipboard(text) => copy(dom, &text),
        File::Canvas(canvas) => picture_of(&canvas, &name),
        File::Drawing(svg) => {
            let title = format!("netto: {what} of {hostname} at {time}");
            let svg = export::standalone_svg(&svg, dom.theme().surface, &title);
            if format == Format::Svg {
                dom.download(&name, "image/svg+xml", &svg)
            } else {
                picture(dom, &svg, name)
            }
        }
    }
}

/// Copies text to the clipboard if possible, or else offers it as a file.
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
    // An unhandled rejection would be reported as an error of the page.
    let catch: js_sys::Function = js_sys::Reflect::get(&done, &"catch".into())?.dyn_into()?;
    catch.call1(&done, &report).map(|_| ())
}

/// A canvas of few pixels enlarged to its displayed size, with sharp edges.
///
/// # Errors
/// The browser's.
pub fn enlarged(dom: &Dom, canvas: &HtmlCanvasElement) -> Result<HtmlCanvasElement, JsValue> {
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

/// Renders SVG to a PNG file by the browser.
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
