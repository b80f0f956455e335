//! The list of slow softirqs in the document.

use std::rc::Rc;

use metrics_common::Snapshot;
use wasm_bindgen::prelude::*;
use web_sys::Window;

use super::minute::Minute;
use super::table;
use crate::recent::ShownTime;
use crate::state::Keys;
use crate::view::{Scene, View};

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(Slowest::default())
}

#[derive(Default)]
struct Slowest {
    minute: Minute,
}

impl Keys for Slowest {}

impl View for Slowest {
    fn receive(&mut self, snapshot: &Snapshot) {
        self.minute.push(snapshot);
    }

    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        if scene.time == ShownTime::Paused {
            return Ok(());
        }
        let is_selected = scene.time == ShownTime::Selected;
        let of_time = scene
            .shown
            .sections
            .slowest
            .as_ref()
            .filter(|_| is_selected);
        let slowest = of_time.cloned().unwrap_or_else(|| self.minute.sum());
        scene
            .dom
            .set_hidden("slowest", slowest.softirqs.is_empty())?;
        let window = if is_selected {
            scene.window(scene.shown)
        } else {
            "of the last minute".to_owned()
        };
        let basis = format!("{window}, {}", slowest.basis());
        scene.dom.set_text("slowest-basis", &basis)?;
        let html = table::of(&slowest, scene.dom.clock_offset_ms());
        scene.dom.set_html("#slowest-table", html)
    }
}
