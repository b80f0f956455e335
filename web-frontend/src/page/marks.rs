//! Marks in plots over time: the cursor, and the span being selected.

use wasm_bindgen::prelude::*;
use web_sys::{Element, HtmlElement};

/// Moves the cursor in a plot to a pixel, or hides it.
///
/// # Errors
/// If the plot has no such line.
pub fn show_cursor(holder: &Element, x: Option<f64>) -> Result<(), JsValue> {
    let line: HtmlElement = holder
        .query_selector(".cursor")?
        .ok_or("a plot without a cursor")?
        .unchecked_into();
    if let Some(x) = x {
        line.style().set_property("left", &format!("{x:.0}px"))?;
    }
    line.toggle_attribute_with_force("hidden", x.is_none())?;
    Ok(())
}

/// Shows the span being selected, in pixels of a plot.
///
/// # Errors
/// If the plot has no such mark.
pub fn show_brush(holder: &Element, stretch: Option<(f64, f64)>) -> Result<(), JsValue> {
    let mark: HtmlElement = holder
        .query_selector(".brush")?
        .ok_or("a plot without a brush")?
        .unchecked_into();
    if let Some((from, to)) = stretch {
        let (left, width) = (from.min(to), (to - from).abs());
        mark.style().set_property("left", &format!("{left:.0}px"))?;
        mark.style()
            .set_property("width", &format!("{width:.0}px"))?;
    }
    mark.toggle_attribute_with_force("hidden", stretch.is_none())?;
    Ok(())
}
