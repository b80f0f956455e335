//! The host's score in the document.

use std::rc::Rc;

use metrics_common::{Info, Snapshot};
use wasm_bindgen::prelude::*;
use web_sys::Window;

use super::table::{self, Side};
use crate::page::dom::Dom;
use crate::page::fetch::Polled;
use crate::recent::ShownTime;
use crate::state::Keys;
use crate::view::{Scene, View};

const ADDRESS: &str = "api/v1/score?last=5s";

/// The view, before anything is shown.
pub fn start(window: &Window, redraw: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(Health {
        polled: Polled::new(window, redraw, ADDRESS),
    })
}

struct Health {
    polled: Polled,
}

impl Keys for Health {}

impl View for Health {
    fn meet(&mut self, dom: &Dom, info: &Info) -> Result<(), JsValue> {
        let mut all = info.instruments.iter();
        let is_measured = all.any(|instrument| {
            instrument.name == "health" && instrument.availability.is_available()
        });
        // `netto score` scores a log; who plays one keeps no intervals to score.
        self.polled.is_wanted = is_measured && !info.is_recording();
        dom.set_hidden("health", true)
    }

    fn receive(&mut self, _: &Snapshot) {
        self.polled.receive();
    }

    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let Some(json) = self
            .polled
            .take()
            .filter(|_| scene.time != ShownTime::Paused)
        else {
            return Ok(());
        };
        let sides = [("Reads", "reads"), ("Writes", "writes")].map(|(name, key)| {
            let side = json.at(key);
            let parts = ["contributions", "left_out", "lowered"];
            let parts = parts.iter().flat_map(|key| side.list(key)).map(|part| {
                let text = |keys: [&str; 2]| keys.iter().find_map(|key| part.text(key));
                (
                    text(["name", "figure"]).unwrap_or_default(),
                    part.number("seconds"),
                    text(["because", "reason"]).unwrap_or_default(),
                )
            });
            Side {
                name,
                seconds: side.number("expected_seconds"),
                scores: ["score", "weighted"].map(|key| side.number(key)),
                parts: parts.collect(),
            }
        });
        let is_known = !json.at("reads").0.is_undefined();
        scene.dom.set_hidden("health", !is_known)?;
        scene.dom.set_html("#health-list", table::of(&sides))
    }
}
