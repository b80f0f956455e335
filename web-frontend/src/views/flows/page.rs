//! The table of conversations in the document.

use std::rc::Rc;

use wasm_bindgen::prelude::*;
use web_sys::Window;

use super::table;
use crate::format;
use crate::state::Keys;
use crate::view::{Scene, View};

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(Talkers)
}

struct Talkers;

impl Keys for Talkers {}

impl View for Talkers {
    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let window = format::window(scene.shown.interval_ns);
        scene.dom.set_text("flows-window", &window)?;
        let html = table::of(scene.shown);
        scene.dom.set_html("#flows-table", html)
    }
}
