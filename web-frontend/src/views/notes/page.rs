//! Notes, and what is not measured, in the document: they change with the daemon only.

use std::rc::Rc;

use metrics_common::snapshot::Info;
use wasm_bindgen::prelude::*;
use web_sys::Window;

use super::model;
use crate::page::dom::Dom;
use crate::state::Keys;
use crate::views::{Scene, View};

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(Notes)
}

struct Notes;

impl Keys for Notes {}

impl View for Notes {
    fn meet(&mut self, dom: &Dom, info: &Info) -> Result<(), JsValue> {
        dom.set_list("notes", &model::notes_html(info))?;
        dom.set_list("missing", &model::missing_html(info))
    }

    fn draw(&mut self, _: &Scene) -> Result<(), JsValue> {
        Ok(())
    }
}
