//! The list of anomalies in the document.

use std::rc::Rc;

use metrics_common::{Info, Snapshot};
use wasm_bindgen::prelude::*;
use web_sys::Window;

use super::list::{self, Anomaly};
use crate::page::dom::Dom;
use crate::page::fetch::{Json, Polled};
use crate::state::Keys;
use crate::timeline::Mark;
use crate::view::{Scene, View};

const ADDRESS: &str = "api/v1/anomalies?last=15m";

/// The view, before anything is shown.
pub fn start(window: &Window, redraw: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(Anomalies {
        polled: Polled::new(window, redraw, ADDRESS),
        all: Vec::new(),
        marks: Vec::new(),
    })
}

struct Anomalies {
    polled: Polled,
    all: Vec<Anomaly>,
    marks: Vec<Mark>,
}

impl Keys for Anomalies {}

impl Anomalies {
    fn take_answer(&mut self) {
        if let Some(json) = self.polled.take() {
            self.all = read(&json).unwrap_or_default();
            self.marks = self
                .all
                .iter()
                .map(|anomaly| anomaly.mark.clone())
                .collect();
        }
    }
}

impl View for Anomalies {
    fn meet(&mut self, dom: &Dom, _: &Info) -> Result<(), JsValue> {
        self.polled.is_wanted = !dom.root.has_attribute("data-standalone");
        Ok(())
    }

    fn receive(&mut self, _: &Snapshot) {
        // Plots are marked while the list is out of sight, too.
        self.take_answer();
        self.polled.receive();
    }

    fn marks(&self) -> &[Mark] {
        &self.marks
    }

    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        self.take_answer();
        let html = list::of(&self.all, scene.dom.clock_offset_ms());
        scene.dom.set_hidden("anomalies", html.is_empty())?;
        scene.dom.set_html("#anomalies-list", html)
    }
}

fn read(json: &Json) -> Option<Vec<Anomaly>> {
    let all = json.list("anomalies").into_iter().map(|entry| {
        let ms = |key| Some(1e3 * entry.number(key)?);
        let moved = entry.list("moved").into_iter().map(|moved| {
            let is_up = moved.text("direction")? == "up";
            let sign = if is_up { "↑ " } else { "↓ " };
            Some(sign.to_owned() + &moved.text("name")?)
        });
        Some(Anomaly {
            mark: Mark {
                label: entry.text("name")?,
                from_ms: ms("begin_unix_seconds")?,
                to_ms: ms("end_unix_seconds").unwrap_or(f64::INFINITY),
            },
            evidence: entry.text("evidence")?,
            moved: moved.collect::<Option<_>>()?,
        })
    });
    all.collect()
}
