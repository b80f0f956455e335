//! The headline in the document.

use std::rc::Rc;

use metrics_common::Info;
use metrics_common::sections::power::WHICH_POWER;
use wasm_bindgen::prelude::*;
use web_sys::Window;

use super::model;
use super::spark::sparkline;
use super::trend::{self, Leader, Trend};
use crate::action::Action;
use crate::basis::Basis;
use crate::color::Rgb;
use crate::page::dom::{Dom, set_attribute};
use crate::state::Keys;
use crate::view::{Scene, View};
use crate::view_model::{self, index_of};

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(Headline::default())
}

/// The state of the headline in the document.
#[derive(Default)]
struct Headline {
    spark: String,
}

impl Keys for Headline {}

impl View for Headline {
    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let Scene { dom, info, .. } = *scene;
        // It stays live while the rest of the page is paused.
        let snapshot = scene.now;
        let basis = scene.shared.basis;
        let share = match model::headline(info, snapshot, basis) {
            Some(headline) => {
                let bound = if headline.at_least { "at least " } else { "" };
                dom.set_text("bound", bound)?;
                dom.set_text("share", &headline.value)?;
                dom.set_text("share-of", &headline.of)?;
                dom.set_text("cpus", &headline.beside)?;
                dom.set_text("power", &headline.power.unwrap_or_default())?;
                set_attribute(&dom.element("power")?, "title", WHICH_POWER)?;
                headline.value
            }
            None => {
                for id in ["bound", "share-of", "cpus", "power"] {
                    dom.set_text(id, "")?;
                }
                dom.set_text("share", "unavailable")?;
                "unavailable".to_owned()
            }
        };
        dom.document()
            .set_title(&format!("{share} networking · {} · netto", info.hostname));
        let trend = trend::trend(info, scene.history, snapshot, basis);
        self.trend(dom, info, &trend, basis)
    }
}

impl Headline {
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
        for (id, leader) in [("lead-event", &trend.event), ("lead-part", &trend.part)] {
            let Some(Leader { slug, label, value }) = leader else {
                continue;
            };
            dom.set_text(id, &format!("{label} {value}"))?;
            let act = Action::About(slug.clone()).to_string();
            set_attribute(&dom.element(id)?, "data-act", &act)?;
        }
        dom.set_hidden("leads", trend.event.is_none())?;
        let color = index_of(info, view_model::HEADLINE).map_or(Rgb(0x80, 0x80, 0x80), |i| {
            Rgb::parse(&info.components[i].color)
        });
        let svg = sparkline(&trend.values, color, (180, 40))
            .map_err(|error| JsValue::from(error.to_string()))?;
        if svg != self.spark {
            dom.element("spark")?.set_inner_html(&svg);
            self.spark = svg;
        }
        Ok(())
    }
}
