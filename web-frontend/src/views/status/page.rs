//! The state of the measurement in the document.

use std::rc::Rc;

use metrics_common::Snapshot;
use wasm_bindgen::prelude::*;
use web_sys::Window;

use super::model;
use crate::state::Keys;
use crate::view::{Scene, View};
use crate::view_model::{self, SinceOpened};

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(Status::default())
}

#[derive(Default)]
struct Status {
    since_opened: SinceOpened,
}

impl Keys for Status {}

impl View for Status {
    fn receive(&mut self, snapshot: &Snapshot) {
        self.since_opened.add(snapshot);
    }

    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let status = view_model::status(scene.info, scene.latest, &self.since_opened);
        scene.dom.set_html("#status", model::status_html(&status))
    }
}
