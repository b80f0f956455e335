//! Switches between the overview and a component's page. Returning to the overview restores scroll
//! position and focus.

use wasm_bindgen::prelude::*;
use web_sys::{Element, HtmlElement};

use super::dom::{Dom, all};

/// Scroll position and focus in the overview.
struct OverviewPosition {
    scroll_px: f64,
    focus: Option<Element>,
    act: Option<String>,
}

/// The page in the document, and the position in the overview.
#[derive(Default)]
pub struct PageSwitch {
    /// Slug of the component whose page is shown; empty for the overview.
    pub shown: String,
    /// Name of the view to scroll to once it is drawn.
    pub jump: Option<String>,
    is_other: bool,
    left: Option<OverviewPosition>,
}

impl PageSwitch {
    /// Records which page will be drawn, and the position in the overview.
    ///
    /// # Errors
    /// The browser's.
    pub fn begin(&mut self, dom: &Dom, about: &str) -> Result<(), JsValue> {
        self.is_other = self.shown != about;
        if self.is_other && self.shown.is_empty() {
            let focus = dom.document().active_element();
            self.left = Some(OverviewPosition {
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

    /// Whether the page that will be drawn is another than the one before.
    pub fn is_other(&self) -> bool {
        self.is_other
    }

    /// Scrolls to the beginning of the drawn page, or to the requested view once the views have
    /// content, which moves those below. Returns whether the page has changed.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn end(&mut self, dom: &Dom, has_content: bool) -> Result<bool, JsValue> {
        let has_changed = self.open(dom)?;
        if let Some(name) = self.jump.take_if(|_| has_content) {
            let is_meant = |view: &Element| view.get_attribute("data-view").as_ref() == Some(&name);
            let view = all(&dom.root, "[data-view]")?.into_iter().find(is_meant);
            let section = view.and_then(|view| view.first_element_child());
            if let Some(section) = section.or_else(|| dom.element(&name).ok()) {
                section.scroll_into_view();
            }
        }
        Ok(has_changed)
    }

    fn open(&mut self, dom: &Dom) -> Result<bool, JsValue> {
        if !std::mem::take(&mut self.is_other) {
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
