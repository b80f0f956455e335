//! The number of ticks in the document.

use std::rc::Rc;

use wasm_bindgen::prelude::*;
use web_sys::Window;

use crate::state::Keys;
use crate::view::{Scene, View};

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(Ticks)
}

struct Ticks;

impl Keys for Ticks {}

impl View for Ticks {
    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let ticks = scene.shown.sections.ticks.as_ref();
        let count = ticks.map_or(0, |ticks| ticks.count);
        scene.dom.set_text("ticks-count", &count.to_string())
    }
}
