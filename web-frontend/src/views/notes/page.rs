//! Notes in the document: they change only with the daemon's description.

use std::rc::Rc;

use metrics_common::Info;
use wasm_bindgen::prelude::*;
use web_sys::Window;

use super::model;
use crate::page::dom::Dom;
use crate::state::Keys;
use crate::view::{Scene, View};

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(Notes)
}

struct Notes;

impl Keys for Notes {}

impl View for Notes {
    fn meet(&mut self, dom: &Dom, info: &Info) -> Result<(), JsValue> {
        dom.set_list("notes", &model::html(info))
    }

    fn draw(&mut self, _: &Scene) -> Result<(), JsValue> {
        Ok(())
    }
}
