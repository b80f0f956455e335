//! The table in the document: its markup when the layout changes, values when
//! they do.

use metrics_common::snapshot::{Info, Snapshot};
use wasm_bindgen::prelude::*;

use super::dom::{Dom, LiveText, all};
use crate::state::ViewState;
use crate::table::{self, Layout};

/// A cell of the table, with the attributes that it has now.
struct LiveCell {
    text: LiveText,
    ns: Option<u64>,
    level: Option<u8>,
}

impl LiveCell {
    fn show(&mut self, cell: table::Cell) -> Result<(), JsValue> {
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

/// What of the table is in the document.
#[derive(Default)]
pub struct Table {
    layout: Option<Layout>,
    cells: Vec<LiveCell>,
}

impl Table {
    /// Forgets the layout: another daemon may name the same rows differently.
    pub fn forget(&mut self) {
        self.layout = None;
    }

    /// Whether nothing is shown yet.
    pub fn is_empty(&self) -> bool {
        self.layout.is_none()
    }

    /// Shows an interval.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn draw(
        &mut self,
        dom: &Dom,
        info: &Info,
        snapshot: &Snapshot,
        state: &ViewState,
    ) -> Result<(), JsValue> {
        let holder = dom.element("table")?;
        let extent = dom.extent("table");
        let columns = table::columns_in_sight(
            snapshot.cpus.len(),
            f64::from(extent.scroll_left) - table::OTHER_COLUMNS_PX,
            f64::from(extent.width),
        );
        let layout = Layout::of(info, snapshot, state.unit, &state.folded, columns);
        if self.layout.as_ref() != Some(&layout) {
            let held = focused_act(&holder)?;
            holder.set_inner_html(&layout.html(info));
            self.cells = all(&holder, "[data-cell]")?
                .into_iter()
                .map(|cell| LiveCell {
                    text: LiveText::new(cell.clone(), &cell),
                    ns: None,
                    level: None,
                })
                .collect();
            if let Some(act) = held
                && let Some(button) = holder.query_selector(&format!("[data-act=\"{act}\"]"))?
            {
                button.unchecked_into::<web_sys::HtmlElement>().focus()?;
            }
        }
        for (live, cell) in self.cells.iter_mut().zip(layout.cells(info, snapshot)) {
            live.show(cell)?;
        }
        self.layout = Some(layout);
        Ok(())
    }
}

/// What the button does that has the keyboard, so that it can be given back.
fn focused_act(holder: &web_sys::Element) -> Result<Option<String>, JsValue> {
    let button = holder.query_selector("[data-act]:focus")?;
    let act = button.and_then(|button| button.get_attribute("data-act"));
    Ok(act.filter(|act| !act.contains(['"', '\\'])))
}
