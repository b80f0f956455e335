//! The headline in the document.

use std::rc::Rc;

use metrics_common::Info;
use metrics_common::sections::power::WHICH_POWER;
use netto_judges::verdict::{Courses, Figures, Level};
use wasm_bindgen::prelude::*;
use web_sys::Window;

use super::model;
use super::spark::sparkline;
use super::trend::{self, Trend};
use crate::action::Action;
use crate::basis::Basis;
use crate::color::Rgb;
use crate::page::dom::{Dom, set_attribute, set_text};
use crate::state::Keys;
use crate::view::{Scene, View};

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(Headline::default())
}

/// The state of the headline in the document.
#[derive(Default)]
struct Headline {
    level: Option<Level>,
}

impl Keys for Headline {}

impl View for Headline {
    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let Scene { dom, info, .. } = *scene;
        let snapshot = scene.shown;
        let basis = scene.shared.basis;
        let share = match model::headline(info, snapshot, basis, &scene.window(snapshot)) {
            Some(headline) => {
                let bound = if headline.at_least { "at least " } else { "" };
                dom.set_text("bound", bound)?;
                dom.set_text("share", &headline.value)?;
                dom.set_text("share-of", &headline.of)?;
                dom.set_text("cpus", &headline.beside)?;
                dom.set_text("power", &headline.power.unwrap_or_default())?;
                set_attribute(&dom.element("power")?, "title", WHICH_POWER)?;
                dom.set_text("headline-window", &headline.window)?;
                headline.value
            }
            None => {
                for id in ["bound", "share-of", "cpus", "power", "headline-window"] {
                    dom.set_text(id, "")?;
                }
                dom.set_text("share", "unavailable")?;
                "unavailable".to_owned()
            }
        };
        let title = model::title(&share, &info.hostname, scene.time, &scene.end_clock());
        if dom.document().title() != title {
            dom.document().set_title(&title);
        }
        self.answers(scene, basis)?;
        let trend = trend::trend(info, scene.history, snapshot, basis);
        self.trend(dom, info, &trend, basis)
    }
}

impl Headline {
    /// The three answers: each leads to its view.
    fn answers(&mut self, scene: &Scene, basis: Basis) -> Result<(), JsValue> {
        let Scene { dom, info, .. } = *scene;
        let figures = Figures::of(info, scene.shown);
        dom.set_hidden("leads", figures.is_none())?;
        let Some(figures) = figures else {
            dom.set_text("verdict-name", "Unknown")?;
            return dom.set_text("verdict-text", "networking is not measured here");
        };
        let in_unit = |cpus, host_cpus| basis.say_of_host(cpus, host_cpus);
        let verdict = figures.judge_in(self.level, &in_unit);
        self.level = Some(verdict.level);
        dom.set_text("verdict-name", verdict.name)?;
        dom.set_text("verdict-text", &verdict.text)?;
        let button = dom.element("verdict")?;
        set_attribute(&button, "data-level", verdict.slug)?;
        let has_advice = !dom.element("advice")?.has_attribute("hidden");
        let view = Action::Jump(model::view_of(verdict.level, has_advice).to_owned());
        set_attribute(&button, "data-act", &view.to_string())?;
        let latency = Courses::of(info, scene.history).found(info);
        for lead in model::leads(&figures, &latency, basis) {
            dom.set_text(lead.id, &lead.text)?;
            let element = dom.element(lead.id)?;
            set_attribute(&element, "title", &lead.text)?;
            if let Some(amount) = dom.root.query_selector(&format!("#{}-amount", lead.id))? {
                set_text(&amount, &lead.amount);
            }
            element.toggle_attribute_with_force("data-unknown", lead.is_unknown)?;
            if let Some(act) = lead.act {
                set_attribute(&element, "data-act", &act.to_string())?;
            }
        }
        Ok(())
    }

    fn trend(
        &mut self,
        dom: &Dom,
        info: &Info,
        trend: &Trend,
        basis: Basis,
    ) -> Result<(), JsValue> {
        let change = trend
            .change
            .map_or(String::new(), |by| trend::change_text(basis, by));
        dom.set_text("change", &change)?;
        let color = info
            .row_of(metrics_common::component::NETWORK)
            .map_or(Rgb(0x80, 0x80, 0x80), |i| {
                Rgb::parse(&info.components[i].color)
            });
        let svg = sparkline(&trend.values, color, (184, 28))
            .map_err(|error| JsValue::from(error.to_string()))?;
        dom.set_html("#spark", svg)
    }
}
