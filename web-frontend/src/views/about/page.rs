//! A component's page in the document.

use std::rc::Rc;

use netto_judges::advice::advice;
use wasm_bindgen::prelude::*;
use web_sys::Window;

use super::model;
use crate::action::{Action, Format};
use crate::axes::PlotArea;
use crate::page::chart::TimeChart;
use crate::page::dom::{Dom, focused_act};
use crate::page::save::File;
use crate::state::Keys;
use crate::timeline::Frame;
use crate::view::{Pointer, Reply, Scene, View};

/// Id of the chart.
const TIME: &str = "about-time";

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(About {
        chart: TimeChart::new(TIME, 23),
        markup: Default::default(),
    })
}

struct About {
    chart: TimeChart,
    /// Markup of heading, path and figures in the document.
    markup: [String; 3],
}

impl Keys for About {}

impl About {
    /// Updates one piece of markup, unless it has the focus.
    fn show(&mut self, dom: &Dom, piece: usize, id: &str, html: String) -> Result<(), JsValue> {
        let element = dom.element(id)?;
        if self.markup[piece] != html && focused_act(&element)?.is_none() {
            element.set_inner_html(&html);
            self.markup[piece] = html;
        }
        Ok(())
    }
}

impl View for About {
    fn measured(&self) -> &'static [&'static str] {
        &["about", TIME]
    }

    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let Scene { dom, info, .. } = *scene;
        let slug = scene.shared.about.as_str();
        let Some(component) = info.row_of(slug) else {
            let unknown = "this daemon knows no such component".to_owned();
            self.show(dom, 0, "about-title", unknown)?;
            self.show(dom, 1, "about-path", String::new())?;
            self.show(dom, 2, "about-figures", String::new())?;
            dom.set_text("about-help", "")?;
            return dom.set_text("about-advice", "");
        };
        self.show(dom, 0, "about-title", model::title(info, component))?;
        self.show(dom, 1, "about-path", model::path(info, component))?;
        let figures = model::figures(info, scene.shown, component, scene.shared.basis);
        self.show(dom, 2, "about-figures", figures)?;
        dom.set_text("about-window", &scene.window(scene.shown))?;
        dom.set_text("about-help", &info.components[component].help)?;
        dom.set_text("about-advice", advice(slug).unwrap_or_default())?;
        self.chart.draw(scene, slug)
    }

    fn act(&mut self, action: &Action) -> Reply {
        self.chart.act(action)
    }

    fn hover(&mut self, scene: &Scene, pointer: &Pointer) -> Result<bool, JsValue> {
        self.chart.hover(scene, pointer)
    }

    fn draw_cursor(&mut self, scene: &Scene, pointer: Option<&Pointer>) -> Result<(), JsValue> {
        match scene.shared.about.as_str() {
            "" => Ok(()),
            slug => self.chart.point(scene, pointer, slug),
        }
    }

    fn ms_at(&self, plot: &str, x: f64) -> Option<f64> {
        let (chart, size, _) = self.chart.drawn.as_ref().filter(|_| plot == TIME)?;
        Some(PlotArea::of(*size).ms_at(&chart.frame, x))
    }

    fn file(&self, scene: &Scene, what: &str, format: Format) -> Result<Option<File>, JsValue> {
        Ok(match what {
            TIME => self.chart.file(scene, format),
            _ => None,
        })
    }

    fn frame(&self) -> Option<Frame> {
        self.chart.drawn.as_ref().map(|(chart, ..)| chart.frame)
    }
}
