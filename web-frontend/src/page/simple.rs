//! Views whose content is one piece of markup.

use metrics_common::{Info, Snapshot};
use wasm_bindgen::prelude::*;

use super::dom::Dom;
use crate::basis::Basis;
use crate::state::Keys;
use crate::view::{Scene, View};

/// A table of the time that is shown; hidden while it is empty.
pub struct TableView {
    /// The view's name, with which the ids of its elements begin.
    pub name: &'static str,
    /// Its markup, in the page's unit.
    pub html: fn(&Snapshot, Basis) -> String,
}

impl Keys for TableView {}

impl View for TableView {
    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let TableView { name, html } = self;
        let window = scene.window(scene.shown);
        scene.dom.set_text(&format!("{name}-window"), &window)?;
        let html = html(scene.shown, scene.shared.basis);
        scene.dom.set_hidden(name, html.is_empty())?;
        scene.dom.set_html(&format!("#{name}-table"), html)
    }
}

/// A list that changes only with the daemon's description.
pub struct ListView {
    /// The id of its element.
    pub id: &'static str,
    /// Its markup.
    pub html: fn(&Info) -> String,
}

impl Keys for ListView {}

impl View for ListView {
    fn meet(&mut self, dom: &Dom, info: &Info) -> Result<(), JsValue> {
        dom.set_list(self.id, &(self.html)(info))
    }

    fn draw(&mut self, _: &Scene) -> Result<(), JsValue> {
        Ok(())
    }
}
