//! The charts over time in the document, their legends, and the cursor that
//! they share with the heat map.

use metrics_common::history::History;
use metrics_common::snapshot::Info;
use wasm_bindgen::prelude::*;
use web_sys::{Element, HtmlElement};

use super::dom::{Dom, set_attribute};
use crate::areas::{self, Chart, Place};
use crate::charts;
use crate::format::escape_html;
use crate::state::ViewState;
use crate::timeline::{self, Frame};
use crate::view_model::{HEADLINE, index_of};

/// Width of a step, pixels, and how many there may be: a chart is drawn anew
/// with every step, and finer ones would cost more than they show.
const STEP_PX: u32 = 3;
const MOST_STEPS: u32 = 320;
/// Height of a chart: a part of its width, within these bounds.
const HEIGHT_PX: (u32, u32) = (150, 230);

/// One chart over time.
pub struct TimeChart {
    /// Id of its place in the document; its legend's has `-legend` behind it.
    pub id: &'static str,
    /// The chart as it is drawn now, and its size.
    drawn: Option<(Chart, (u32, u32), bool)>,
    legend: String,
}

/// What a chart is drawn of.
pub struct Scene<'a> {
    /// The document.
    pub dom: &'a Dom,
    /// The daemon.
    pub info: &'a Info,
    /// What was.
    pub history: &'a History,
    /// What to show of it.
    pub state: &'a ViewState,
    /// Number of CPUs of the host.
    pub cpus: usize,
    /// The moment that the pointer is at.
    pub cursor_ms: Option<f64>,
}

impl Scene<'_> {
    /// The stretch of time for a drawing of this width.
    pub fn frame(&self, width_px: u32, least_ms: f64) -> Frame {
        let latest_ms = match self.history.points() {
            0 => 0.0,
            points => self.history.point_ms(points - 1).1,
        };
        let most = (width_px.saturating_sub(areas::LEFT_PX as u32) / STEP_PX).clamp(20, MOST_STEPS);
        Frame::of(self.state, latest_ms, least_ms, most as usize)
    }
}

impl TimeChart {
    /// A chart that is not drawn yet.
    pub fn new(id: &'static str) -> Self {
        TimeChart {
            id,
            drawn: None,
            legend: String::new(),
        }
    }

    /// The component whose parts it shows.
    fn whole<'a>(&self, state: &'a ViewState) -> &'a str {
        if self.id == "events" {
            HEADLINE
        } else {
            &state.event
        }
    }

    /// Draws it, if it has changed since the last time.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let dom = scene.dom;
        let holder = dom.element(self.id)?;
        let width = dom.extent(self.id).width.clamp(160, 4000);
        let size = (width, (width / 4).clamp(HEIGHT_PX.0, HEIGHT_PX.1));
        let frame = scene.frame(width, scene.history.resolution_ms());
        let whole = self.whole(scene.state);
        let offset_ms = dom.clock_offset_ms();
        let dark = dom.is_dark();
        let chart = charts::parts_chart(
            scene.info,
            scene.history,
            whole,
            frame,
            scene.cpus,
            offset_ms,
        );
        let fresh = match &self.drawn {
            Some((old, old_size, old_dark)) => {
                *old != chart || *old_size != size || *old_dark != dark
            }
            None => true,
        };
        if fresh {
            let svg = areas::svg(&chart, dom.theme(), size)
                .map_err(|error| JsValue::from(error.to_string()))?;
            if let Some(canvas) = holder.query_selector(".drawing")? {
                canvas.set_inner_html(&svg);
            }
            let label = index_of(scene.info, whole)
                .map_or(whole, |index| &scene.info.components[index].label);
            set_attribute(&holder, "aria-label", &charts::spoken(&chart, label))?;
            if self.id == "parts" {
                dom.set_text("parts-title", &format!("{label} by part"))?;
            }
            self.drawn = Some((chart, size, dark));
        }
        self.draw_cursor(scene)
    }

    /// Moves the cursor and says the values at it.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn draw_cursor(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let Some((chart, size, _)) = &self.drawn else {
            return Ok(());
        };
        let holder = scene.dom.element(self.id)?;
        let at = scene
            .cursor_ms
            .filter(|ms| chart.frame.step_at(*ms).is_some());
        let x = at.map(|ms| Place::of(*size).x_of(&chart.frame, ms));
        show_cursor(&holder, x)?;
        let step = at.and_then(|ms| chart.frame.step_at(ms));
        let mut html = String::new();
        if let Some(step) = step {
            let clock = timeline::clock(chart.frame.step_begin_ms(step), chart.offset_ms, true);
            html.push_str(&format!("<li class=\"when\">{clock}</li>"));
        }
        let act = if self.id == "events" {
            "event"
        } else {
            "component"
        };
        for entry in charts::legend(chart, step) {
            html.push_str(&format!(
                "<li data-key=\"{key}\"><button class=\"entry\" data-act=\"{act}:{key}\">\
                 <i class=\"swatch\" style=\"background:{color}\"></i>\
                 <span class=\"name\">{label}</span> <span class=\"value\">{value}</span></button></li>",
                key = escape_html(&entry.key),
                color = entry.color.css(),
                label = escape_html(&entry.label),
                value = entry.value,
            ));
        }
        if html.is_empty() {
            html.push_str("<li>nothing measured in this stretch of time</li>");
        }
        if html != self.legend {
            let legend = scene.dom.element(&format!("{}-legend", self.id))?;
            // A button that has the keyboard would lose it with the markup.
            let held = legend.query_selector("button:focus")?.is_some();
            if !held {
                legend.set_inner_html(&html);
                self.legend = html;
            }
        }
        Ok(())
    }

    /// The moment at a pixel of the chart.
    pub fn ms_at(&self, x: f64) -> Option<f64> {
        let (chart, size, _) = self.drawn.as_ref()?;
        Some(Place::of(*size).ms_at(&chart.frame, x))
    }

    /// Length of a step, for the keyboard's cursor; and the stretch shown.
    pub fn frame(&self) -> Option<Frame> {
        self.drawn.as_ref().map(|(chart, ..)| chart.frame)
    }

    /// The chart as it is drawn now.
    pub fn chart(&self) -> Option<&Chart> {
        self.drawn.as_ref().map(|(chart, ..)| chart)
    }

    /// The same as a drawing.
    pub fn svg(&self, dom: &Dom) -> Option<String> {
        let (chart, size, _) = self.drawn.as_ref()?;
        areas::svg(chart, dom.theme(), *size).ok()
    }
}

/// Moves the line of the cursor in a plot to a pixel, or hides it.
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

/// Shows which stretch is being chosen, in pixels of a plot.
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
