//! The table of programs in the document.

use std::rc::Rc;

use wasm_bindgen::prelude::*;
use web_sys::Window;

use super::table;
use crate::format;
use crate::state::Keys;
use crate::view::{Scene, View};

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(Programs)
}

struct Programs;

impl Keys for Programs {}

impl View for Programs {
    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let window = format::window(scene.shown.interval_ns);
        scene.dom.set_text("programs-window", &window)?;
        let html = table::of(scene.shown);
        scene.dom.set_hidden("programs", html.is_empty())?;
        scene.dom.set_html("#programs-table", html)
    }
}
