//! The charts over time in the document, with their legends.

use std::rc::Rc;

use wasm_bindgen::prelude::*;
use web_sys::Window;

use super::draw::{self, Chart};
use super::{csv, model};
use crate::action::{Action, Format};
use crate::axes::Place;
use crate::format::escape_html;
use crate::page::dom::set_attribute;
use crate::page::marks::show_cursor;
use crate::page::save::File;
use crate::state::{Keys, Shared};
use crate::timeline::{self, Frame};
use crate::view_model::{HEADLINE, index_of};
use crate::views::{Pointer, Scene, View};

/// Height of a chart: a part of its width, within these bounds.
const HEIGHT_PX: (u32, u32) = (150, 230);

/// Ids of the charts in the document; their legends' have `-legend` behind them.
const EVENTS: &str = "events";
const PARTS: &str = "parts";

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(OverTime {
        charts: [TimeChart::new(EVENTS), TimeChart::new(PARTS)],
    })
}

struct OverTime {
    charts: [TimeChart; 2],
}

impl Keys for OverTime {}

impl View for OverTime {
    fn measured(&self) -> &'static [&'static str] {
        &[EVENTS, PARTS]
    }

    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        for chart in &mut self.charts {
            if chart.drawn.is_none() || scene.dom.is_in_sight(chart.id) {
                chart.draw(scene)?;
            }
        }
        Ok(())
    }

    fn draw_cursor(&mut self, scene: &Scene, _: Option<&Pointer>) -> Result<(), JsValue> {
        let mut charts = self.charts.iter_mut();
        charts.try_for_each(|chart| chart.draw_cursor(scene))
    }

    fn ms_at(&self, plot: &str, x: f64) -> Option<f64> {
        let own = self.charts.iter().find(|chart| chart.id == plot)?;
        let (chart, size, _) = own.drawn.as_ref()?;
        Some(Place::of(*size).ms_at(&chart.frame, x))
    }

    fn frame(&self) -> Option<Frame> {
        let mut drawn = self.charts.iter().filter_map(|chart| chart.drawn.as_ref());
        drawn.next().map(|(chart, ..)| chart.frame)
    }

    fn file(&self, scene: &Scene, what: &str, format: Format) -> Result<Option<File>, JsValue> {
        let own = self.charts.iter().find(|chart| chart.id == what);
        let Some((chart, size, _)) = own.and_then(|own| own.drawn.as_ref()) else {
            return Ok(None);
        };
        Ok(match format {
            Format::Csv => Some(File::Text(csv::csv(chart))),
            Format::Svg | Format::Png => {
                let svg = draw::svg(chart, scene.dom.theme(), *size);
                svg.ok().map(File::Drawing)
            }
            Format::Copy | Format::Folded => None,
        })
    }
}

/// One chart over time.
struct TimeChart {
    /// Id of its place in the document.
    id: &'static str,
    /// The chart as it is drawn now, its size, and whether it is dark.
    drawn: Option<(Chart, (u32, u32), bool)>,
    legend: String,
}

impl TimeChart {
    fn new(id: &'static str) -> Self {
        TimeChart {
            id,
            drawn: None,
            legend: String::new(),
        }
    }

    /// The component whose parts it shows.
    fn whole<'a>(&self, shared: &'a Shared) -> &'a str {
        match self.id {
            EVENTS => HEADLINE,
            _ => &shared.event,
        }
    }

    /// Draws it, if it has changed since the last time.
    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let dom = scene.dom;
        let holder = dom.element(self.id)?;
        let width = dom.extent(self.id).width.clamp(160, 4000);
        let size = (width, (width / 4).clamp(HEIGHT_PX.0, HEIGHT_PX.1));
        let frame = scene.frame(width, scene.history.resolution_ms());
        let whole = self.whole(scene.shared);
        let offset_ms = dom.clock_offset_ms();
        let dark = dom.is_dark();
        let chart = model::parts_chart(
            scene.info,
            scene.history,
            whole,
            frame,
            scene.cpus(),
            offset_ms,
        );
        let fresh = match &self.drawn {
            Some((old, old_size, old_dark)) => {
                *old != chart || *old_size != size || *old_dark != dark
            }
            None => true,
        };
        if fresh {
            let svg = draw::svg(&chart, dom.theme(), size)
                .map_err(|error| JsValue::from(error.to_string()))?;
            if let Some(canvas) = holder.query_selector(".drawing")? {
                canvas.set_inner_html(&svg);
            }
            let label = index_of(scene.info, whole)
                .map_or(whole, |index| &scene.info.components[index].label);
            set_attribute(&holder, "aria-label", &model::spoken(&chart, label))?;
            if self.id == PARTS {
                dom.set_text("parts-title", &format!("{label} by part"))?;
            }
            self.drawn = Some((chart, size, dark));
        }
        self.draw_cursor(scene)
    }

    /// Moves the cursor and says the values at it.
    fn draw_cursor(&mut self, scene: &Scene) -> Result<(), JsValue> {
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
        for entry in model::legend(chart, step) {
            let act = match self.id {
                EVENTS => Action::Event(entry.key.clone()),
                _ => Action::Component(entry.key.clone()),
            };
            html.push_str(&format!(
                "<li data-key=\"{key}\"><button class=\"entry\"{act}>\
                 <i class=\"swatch\" style=\"background:{color}\"></i>\
                 <span class=\"name\">{label}</span> <span class=\"value\">{value}</span></button></li>",
                act = act.attribute(),
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
}
