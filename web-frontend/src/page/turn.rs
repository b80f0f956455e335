//! The turn from the overview to a component's page and back: where the reader was before is
//! where the reader is again.

use wasm_bindgen::prelude::*;
use web_sys::{Element, HtmlElement};

use super::dom::Dom;

/// Where the reader was in the overview.
struct Left {
    scroll_px: f64,
    focus: Option<Element>,
    act: Option<String>,
}

/// Which page is in the document, and the way back.
#[derive(Default)]
pub struct Turn {
    /// Slug of the component whose page is shown; empty for the overview.
    pub shown: String,
    has_turned: bool,
    left: Option<Left>,
}

impl Turn {
    /// Another page is about to be drawn, or the same.
    ///
    /// # Errors
    /// The browser's.
    pub fn begin(&mut self, dom: &Dom, about: &str) -> Result<(), JsValue> {
        self.has_turned = self.shown != about;
        if self.has_turned && self.shown.is_empty() {
            let focus = dom.document().active_element();
            self.left = Some(Left {
                scroll_px: dom.window.scroll_y()?,
                act: focus
                    .as_ref()
                    .and_then(|element| element.get_attribute("data-act")),
                focus,
            });
        }
        about.clone_into(&mut self.shown);
        dom.root
            .toggle_attribute_with_force("data-about", !about.is_empty())
            .map(|_| ())
    }

    /// It is drawn: a component's page begins at its heading. Says whether it is another one.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn end(&mut self, dom: &Dom) -> Result<bool, JsValue> {
        if !std::mem::take(&mut self.has_turned) {
            return Ok(false);
        }
        if !self.shown.is_empty() {
            dom.element("about")?.scroll_into_view();
            dom.typed::<HtmlElement>("about-title")?.focus()?;
            return Ok(true);
        }
        let Some(left) = self.left.take() else {
            return Ok(true);
        };
        let again = match left.focus.filter(|element| element.is_connected()) {
            Some(element) => Some(element),
            None => match left.act.filter(|act| !act.contains(['"', '\\'])) {
                Some(act) => dom.root.query_selector(&format!("[data-act=\"{act}\"]"))?,
                None => None,
            },
        };
        if let Some(element) = again.and_then(|element| element.dyn_into::<HtmlElement>().ok()) {
            element.focus()?;
        }
        dom.window.scroll_to_with_x_and_y(0.0, left.scroll_px);
        Ok(true)
    }
}
