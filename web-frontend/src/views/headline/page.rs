//! The headline in the document.

use std::rc::Rc;

use metrics_common::snapshot::Info;
use wasm_bindgen::prelude::*;
use web_sys::Window;

use super::spark::sparkline;
use super::trend::{self, Trend};
use crate::color::Rgb;
use crate::format;
use crate::page::dom::Dom;
use crate::state::Keys;
use crate::view_model::{self, index_of};
use crate::views::{Scene, View};

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(Headline::default())
}

/// What of the headline is in the document.
#[derive(Default)]
struct Headline {
    spark: String,
}

impl Keys for Headline {}

impl View for Headline {
    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let Scene { dom, info, .. } = *scene;
        // It goes on while the rest of the page stands still.
        let snapshot = scene.now;
        let share = match view_model::headline(info, snapshot) {
            Some(headline) => {
                let share = format!("{} %", headline.host_percent);
                let bound = if headline.at_least { "at least " } else { "" };
                dom.set_text("bound", bound)?;
                dom.set_text("share", &share)?;
                let cpus = snapshot.cpus.len();
                let worth = format!("{} CPUs' worth, of {cpus} CPUs", headline.cpus);
                dom.set_text("cpus", &worth)?;
                let power = headline.power.map_or(String::new(), |w| format!("≈ {w}"));
                dom.set_text("power", &power)?;
                share
            }
            None => {
                for id in ["bound", "cpus", "power"] {
                    dom.set_text(id, "")?;
                }
                dom.set_text("share", "unavailable")?;
                "unavailable".to_owned()
            }
        };
        dom.document()
            .set_title(&format!("{share} networking · {} · netto", info.hostname));
        let trend = trend::trend(info, scene.history, snapshot.cpus.len());
        self.trend(dom, info, &trend)
    }
}

impl Headline {
    fn trend(&mut self, dom: &Dom, info: &Info, trend: &Trend) -> Result<(), JsValue> {
        let change = trend.change.map_or(String::new(), trend::change_text);
        dom.set_text("change", &change)?;
        let leader = |leader: &Option<(String, f64)>| match leader {
            Some((label, share)) => format!("{label} {} %", format::percent(*share)),
            None => String::new(),
        };
        dom.set_text("lead-event", &leader(&trend.event))?;
        dom.set_text("lead-part", &leader(&trend.part))?;
        dom.set_hidden("leads", trend.event.is_none())?;
        let color = index_of(info, view_model::HEADLINE).map_or(Rgb(0x80, 0x80, 0x80), |i| {
            Rgb::parse(&info.components[i].color)
        });
        let svg = sparkline(&trend.course, color, (180, 40))
            .map_err(|error| JsValue::from(error.to_string()))?;
        if svg != self.spark {
            dom.element("spark")?.set_inner_html(&svg);
            self.spark = svg;
        }
        Ok(())
    }
}
