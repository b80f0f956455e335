//! The table in the document: updates the markup when the layout changes, and values when they
//! change.

use std::rc::Rc;

use metrics_common::Info;
use wasm_bindgen::prelude::*;
use web_sys::Window;

use super::choices::Choices;
use super::csv;
use super::model::{self, Layout};
use crate::action::{Action, Format};
use crate::page::dom::{Dom, LiveText, all, replace};
use crate::page::save::File;
use crate::state::{Address, Keys, Pairs};
use crate::view::{Reply, Scene, View};

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(Table::default())
}

/// A cell of the table, with its current attributes.
struct LiveCell {
    text: LiveText,
    ns: Option<u64>,
    level: Option<u8>,
}

impl LiveCell {
    fn show(&mut self, cell: model::Cell) -> Result<(), JsValue> {
        if self.ns != cell.ns {
            let ns = cell.ns.map_or(String::new(), |ns| ns.to_string());
            self.text.holder.set_attribute("data-ns", &ns)?;
            self.ns = cell.ns;
        }
        if self.level != Some(cell.level) {
            let level = cell.level.to_string();
            self.text.holder.set_attribute("data-level", &level)?;
            self.level = Some(cell.level);
        }
        self.text.show(cell.text);
        Ok(())
    }
}

/// The state of the table in the document.
#[derive(Default)]
struct Table {
    choices: Choices,
    layout: Option<Layout>,
    cells: Vec<LiveCell>,
}

impl Keys for Table {
    fn read(&mut self, pairs: &Pairs) {
        self.choices.read(pairs);
    }

    fn write(&self, address: &mut Address) {
        self.choices.write(address);
    }
}

impl View for Table {
    fn measured(&self) -> &'static [&'static str] {
        &["table"]
    }

    /// Another daemon may name the same rows differently.
    fn meet(&mut self, _: &Dom, _: &Info) -> Result<(), JsValue> {
        self.layout = None;
        Ok(())
    }

    fn has_taken(&self, action: &Action) -> Option<bool> {
        match action {
            Action::Unit(unit) => Some(*unit == self.choices.unit),
            _ => None,
        }
    }

    fn act(&mut self, action: &Action) -> Reply {
        match action {
            Action::Unit(unit) => self.choices.unit = *unit,
            Action::Fold(slug) => self.choices.toggle_fold(slug),
            _ => return Reply::Ignored,
        }
        Reply::Changed
    }

    fn file(&self, scene: &Scene, what: &str, format: Format) -> Result<Option<File>, JsValue> {
        let csv = || csv::csv(scene.info, scene.shown);
        Ok(match (what, format) {
            ("table", Format::Csv) => Some(File::Text(csv())),
            ("table", Format::Copy) => Some(File::Clipboard(csv())),
            _ => None,
        })
    }

    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let Scene {
            dom,
            info,
            shown: snapshot,
            ..
        } = *scene;
        dom.set_text("table-window", &scene.window(snapshot))?;
        let sentence = model::sentence(self.choices.unit, scene.shared.basis);
        dom.set_text("table-basis", &sentence)?;
        let holder = dom.element("table")?;
        let extent = dom.extent("table");
        let columns = model::columns_in_sight(
            snapshot.cpus.len(),
            f64::from(extent.scroll_left) - model::OTHER_COLUMNS_PX,
            f64::from(extent.width),
        );
        let layout = Layout::of(
            info,
            snapshot,
            (self.choices.unit, scene.shared.basis),
            &self.choices.folded,
            columns,
        );
        if self.layout.as_ref() != Some(&layout) {
            replace(&holder, &layout.html(info))?;
            self.cells = all(&holder, "[data-cell]")?
                .into_iter()
                .map(|cell| LiveCell {
                    text: LiveText::new(cell.clone(), &cell),
                    ns: None,
                    level: None,
                })
                .collect();
        }
        for (live, cell) in self.cells.iter_mut().zip(layout.cells(info, snapshot)) {
            live.show(cell)?;
        }
        self.layout = Some(layout);
        Ok(())
    }
}
