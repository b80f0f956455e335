//! Owners in the document: the markup when lines change, values when they do.

use std::fmt::Write as _;
use std::rc::Rc;

use metrics_common::sections::event_of;
use wasm_bindgen::prelude::*;
use web_sys::Window;

use super::choices::Choices;
use super::model::{self, Question, Table, ZEROS};
use super::{csv, draw, matrix};
use crate::action::{Action, Format};
use crate::format::escape_html;
use crate::page::dom::{Dom, LiveText, all, replace, set_attribute};
use crate::page::save::File;
use crate::state::{Address, Keys, Pairs};
use crate::view::{Reply, Scene, View};
use metrics_common::component::NETWORK;

/// In the place of the sentence on who took most from whom, where a component is chosen.
const PAIRS_OF_ALL: &str =
    "Who took time from whom is known of all softirqs together: choose all networking.";
/// The elements of the matrix of who took from whom.
const MATRIX: [&str; 3] = [
    "owners-matrix-title",
    "owners-matrix",
    "owners-matrix-basis",
];

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(Owners::default())
}

/// What of the view is in the document.
#[derive(Default)]
struct Owners {
    choices: Choices,
    shows_zeros: bool,
    table: String,
    cells: Vec<LiveText>,
}

impl Keys for Owners {
    fn read(&mut self, pairs: &Pairs) {
        self.choices.read(pairs);
    }

    fn write(&self, address: &mut Address) {
        self.choices.write(address);
    }
}

impl View for Owners {
    fn act(&mut self, action: &Action) -> Reply {
        match action {
            Action::Owner(key) => {
                self.choices.toggle_open(key);
                Reply::Changed
            }
            Action::OwnersBy(column) => {
                self.choices.order_by(column);
                Reply::Changed
            }
            Action::Zeros(ZEROS) => {
                self.shows_zeros = !self.shows_zeros;
                Reply::Done
            }
            _ => Reply::Ignored,
        }
    }

    fn change(&mut self, id: &str, value: &str) -> Reply {
        if id != "owners-component" {
            return Reply::Ignored;
        }
        value.clone_into(&mut self.choices.component);
        Reply::Changed
    }

    fn file(&self, scene: &Scene, what: &str, format: Format) -> Result<Option<File>, JsValue> {
        let owners = scene.shown.sections.owners.as_ref();
        let Some(owners) = owners.filter(|_| what == "owners") else {
            return Ok(None);
        };
        Ok(match format {
            Format::Csv => Some(File::Text(csv::csv(owners))),
            Format::Copy => Some(File::Clipboard(csv::csv(owners))),
            Format::Svg | Format::Png | Format::Folded => None,
        })
    }

    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let Scene {
            dom, info, shown, ..
        } = *scene;
        let Some(owners) = &shown.sections.owners else {
            return Ok(());
        };
        // On a component's page, its owners are shown.
        let slug = match scene.shared.about.as_str() {
            "" => self.choices.component.as_str(),
            about => about,
        };
        let network = info.row_of(NETWORK).unwrap_or_default();
        let component = info.row_of(slug).unwrap_or(network);
        let basis = scene.shared.basis;
        let table = model::table(
            info,
            shown,
            owners,
            Question {
                component,
                basis,
                open: &self.choices.open,
                by: &self.choices.by,
                shows_zeros: self.shows_zeros,
            },
        );
        dom.set_text("owners-window", &scene.window(shown))?;
        // Who took time from whom is not divided by component.
        let has_pairs = component == network;
        let pair = if has_pairs {
            model::pair(info, shown, owners, basis)
        } else {
            PAIRS_OF_ALL.to_owned()
        };
        dom.set_text("owners-pair", &pair)?;
        dom.set_text("owners-basis", &table.sentence)?;
        dom.set_text("owners-found", &model::found(owners, component))?;
        self.draw_options(scene, component)?;
        self.draw_table(dom, &table)?;
        let zeros = model::zeros_text(&table, basis, self.shows_zeros);
        dom.set_hidden("owners-zeros", zeros.is_none())?;
        dom.set_text("owners-zeros", zeros.as_deref().unwrap_or_default())?;
        let are_shown = if self.shows_zeros { "true" } else { "false" };
        set_attribute(&dom.element("owners-zeros")?, "aria-expanded", are_shown)?;
        for id in MATRIX {
            dom.set_hidden(id, !has_pairs)?;
        }
        if !has_pairs {
            return Ok(());
        }
        let matrix = matrix::matrix(info, shown, owners, basis);
        dom.set_text("owners-matrix-basis", &matrix.sentence)?;
        dom.set_html("#owners-matrix", draw::matrix(&matrix))
    }
}

impl Owners {
    fn draw_table(&mut self, dom: &Dom, table: &Table) -> Result<(), JsValue> {
        let html = draw::table(table);
        if html != self.table {
            let holder = dom.element("owners-table")?;
            replace(&holder, &html)?;
            let cells = all(&holder, "[data-cell]")?.into_iter();
            self.cells = cells
                .map(|cell| LiveText::new(cell.clone(), &cell))
                .collect();
            self.table = html;
        }
        for (live, cell) in self.cells.iter_mut().zip(draw::cells(table)) {
            set_attribute(&live.holder, "data-level", &cell.level.to_string())?;
            set_attribute(&live.holder, "title", &cell.interval)?;
            live.show(cell.text.clone());
        }
        Ok(())
    }

    /// Fills the choice of components: those of networking.
    fn draw_options(&mut self, scene: &Scene, chosen: usize) -> Result<(), JsValue> {
        let mut html = String::new();
        let is_networking = |component: usize| {
            let event = scene.info.components.get(event_of(component));
            event.is_some_and(|row| row.slug == NETWORK || row.parent.as_deref() == Some(NETWORK))
        };
        for row in scene.info.tree() {
            let described = &scene.info.components[row.component];
            if !described.availability.is_available() || !is_networking(row.component) {
                continue;
            }
            let _ = write!(
                html,
                "<option value=\"{}\"{}>{}{}</option>",
                escape_html(&described.slug),
                if row.component == chosen {
                    " selected"
                } else {
                    ""
                },
                "\u{2003}".repeat(row.depth),
                escape_html(&described.label),
            );
        }
        scene.dom.set_html("#owners-component", html)
    }
}
