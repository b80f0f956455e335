//! netto's own cost in the document.

use std::rc::Rc;

use wasm_bindgen::prelude::*;
use web_sys::Window;

use super::model;
use crate::page::dom::set_attribute;
use crate::state::Keys;
use crate::view::{Scene, View};

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(OwnView)
}

struct OwnView;

impl Keys for OwnView {}

impl View for OwnView {
    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let dom = scene.dom;
        let Some(figure) = model::figure(scene.info, scene.shown) else {
            return Ok(());
        };
        dom.set_text("own-figure", &figure.text)?;
        let class = if figure.is_loud { "loud" } else { "" };
        set_attribute(&dom.element("own-figure")?, "class", class)?;
        // Hidden parts are not updated.
        if !dom.element("own")?.has_attribute("open") {
            return Ok(());
        }
        let html = model::parts_html(scene.info, scene.shown);
        dom.set_html("#own-parts", html)
    }
}
