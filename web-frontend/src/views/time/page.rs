//! The charts over time in the document.

use std::rc::Rc;

use wasm_bindgen::prelude::*;
use web_sys::Window;

use crate::action::{Action, Format};
use crate::axes::PlotArea;
use crate::page::chart::TimeChart;
use crate::page::save::File;
use crate::state::{Keys, Shared};
use crate::timeline::Frame;
use crate::view::{Pointer, Reply, Scene, View};
use metrics_common::component::NETWORK;

/// Ids of the charts in the document.
const EVENTS: &str = "events";
const PARTS: &str = "parts";

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(OverTime {
        charts: [TimeChart::new(EVENTS, 21), TimeChart::new(PARTS, 22)],
    })
}

struct OverTime {
    charts: [TimeChart; 2],
}

impl Keys for OverTime {}

/// The component whose parts a chart shows.
fn whole<'a>(chart: &TimeChart, shared: &'a Shared) -> &'a str {
    match chart.id {
        EVENTS => NETWORK,
        _ => shared.event(),
    }
}

impl View for OverTime {
    fn measured(&self) -> &'static [&'static str] {
        &[EVENTS, PARTS]
    }

    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let event = scene.shared.event();
        let label = scene.info.row_of(event);
        let label = label.map_or(event, |index| &scene.info.components[index].label);
        scene
            .dom
            .set_text("parts-title", &format!("{label} by part"))?;
        for chart in &mut self.charts {
            if chart.drawn.is_none() || scene.dom.is_in_sight(chart.id) {
                let whole = whole(chart, scene.shared);
                chart.draw(scene, whole)?;
            }
        }
        Ok(())
    }

    fn act(&mut self, action: &Action) -> Reply {
        for chart in &mut self.charts {
            if let Reply::Done = chart.act(action) {
                return Reply::Done;
            }
        }
        Reply::Ignored
    }

    fn hover(&mut self, scene: &Scene, pointer: &Pointer) -> Result<bool, JsValue> {
        for chart in &self.charts {
            if chart.hover(scene, pointer)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn draw_cursor(&mut self, scene: &Scene, pointer: Option<&Pointer>) -> Result<(), JsValue> {
        for chart in &mut self.charts {
            let whole = whole(chart, scene.shared);
            chart.point(scene, pointer, whole)?;
        }
        Ok(())
    }

    fn ms_at(&self, plot: &str, x: f64) -> Option<f64> {
        let found = self.charts.iter().find(|chart| chart.id == plot)?;
        let (chart, size, _) = found.drawn.as_ref()?;
        Some(PlotArea::of(*size).ms_at(&chart.frame, x))
    }

    fn frame(&self) -> Option<Frame> {
        let mut drawn = self.charts.iter().filter_map(|chart| chart.drawn.as_ref());
        drawn.next().map(|(chart, ..)| chart.frame)
    }

    fn file(&self, scene: &Scene, what: &str, format: Format) -> Result<Option<File>, JsValue> {
        let chart = self.charts.iter().find(|chart| chart.id == what);
        Ok(chart.and_then(|chart| chart.file(scene, format)))
    }
}
