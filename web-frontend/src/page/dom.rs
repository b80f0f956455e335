//! Minimal changes of the document: elements by id, texts, attributes and markup that are set only
//! where they differ, files for the reader.

use std::cell::{Cell, RefCell};

use wasm_bindgen::prelude::*;
use web_sys::{Blob, BlobPropertyBag, Document, Element, HtmlElement, Node, Url, Window};

use crate::action::Action;
use crate::plot::Theme;

/// Position of an element at the beginning of the drawing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extent {
    /// Upper edge in the window, pixels.
    pub top: f64,
    /// Lower edge.
    pub bottom: f64,
    /// Width inside of its border, pixels.
    pub width: u32,
    /// Horizontal scroll position of its content, pixels.
    pub scroll_left: i32,
}

/// The document around netto's page.
pub struct Dom {
    /// The window.
    pub window: Window,
    document: Document,
    /// The element that holds the page's state.
    pub root: Element,
    window_height: Cell<f64>,
    is_dark: Cell<bool>,
    extents: RefCell<Vec<(&'static str, Extent)>>,
    /// Markup by the selector of its place.
    written: RefCell<Vec<(String, String)>>,
    /// Whether each view has data and is shown.
    views: RefCell<Vec<(&'static str, (bool, bool))>>,
}

impl Dom {
    /// Finds the page's root.
    ///
    /// # Errors
    /// If this is not netto's page.
    pub fn new(window: Window) -> Result<Self, JsValue> {
        let document = window.document().ok_or("there is no document")?;
        let root = document
            .get_element_by_id("netto")
            .ok_or("the page has no #netto")?;
        Ok(Dom {
            window,
            document,
            root,
            window_height: Cell::default(),
            is_dark: Cell::default(),
            extents: RefCell::default(),
            written: RefCell::default(),
            views: RefCell::default(),
        })
    }

    /// The document itself.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// The element with this id.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn element(&self, id: &str) -> Result<Element, JsValue> {
        self.document
            .get_element_by_id(id)
            .ok_or_else(|| format!("the page has no #{id}").into())
    }

    /// The element with this id, as one of its own kind.
    ///
    /// # Errors
    /// If it is none, or not there.
    pub fn typed<T: JsCast>(&self, id: &str) -> Result<T, JsValue> {
        let element = self.element(id)?;
        element.dyn_into().map_err(JsValue::from)
    }

    /// Sets an element's text.
    ///
    /// # Errors
    /// If it is not there.
    pub fn set_text(&self, id: &str, text: &str) -> Result<(), JsValue> {
        set_text(&self.element(id)?, text);
        Ok(())
    }

    /// Sets the markup of the element that this selector finds, if it is another than the last.
    ///
    /// # Errors
    /// If it is not there.
    pub fn set_html(&self, selector: &str, html: String) -> Result<(), JsValue> {
        let mut all = self.written.borrow_mut();
        let at = all.iter().position(|(written, _)| written == selector);
        if at.is_some_and(|at| all[at].1 == html) || at.is_none() && html.is_empty() {
            return Ok(());
        }
        let found = self.root.query_selector(selector)?;
        let holder = found.ok_or_else(|| format!("the page has no {selector}"))?;
        replace(&holder, &html)?;
        match at {
            Some(at) => all[at].1 = html,
            None => all.push((selector.to_owned(), html)),
        }
        Ok(())
    }

    /// Hides or shows an element.
    ///
    /// # Errors
    /// If it is not there.
    pub fn set_hidden(&self, id: &str, hidden: bool) -> Result<(), JsValue> {
        self.element(id)?
            .toggle_attribute_with_force("hidden", hidden)
            .map(|_| ())
    }

    /// Hides or shows a view; without data, also its buttons that hide it and jump to it.
    ///
    /// # Errors
    /// If the page has no such view.
    pub fn show_view(
        &self,
        name: &'static str,
        is_there: bool,
        is_shown: bool,
    ) -> Result<(), JsValue> {
        let mut views = self.views.borrow_mut();
        let now = (name, (is_there, is_shown));
        match views.iter_mut().find(|(view, _)| *view == name) {
            Some(view) if *view == now => return Ok(()),
            Some(view) => *view = now,
            None => views.push(now),
        }
        let place = self
            .root
            .query_selector(&format!("[data-view=\"{name}\"]"))?
            .ok_or_else(|| format!("the page has no view {name}"))?;
        place.toggle_attribute_with_force("hidden", !is_shown)?;
        for button in all(&self.root, &format!("[data-act=\"hide:{name}\"]"))? {
            button.toggle_attribute_with_force("hidden", !is_there)?;
        }
        Ok(())
    }

    /// Lists a view among the sections while it has data, and something to say of them.
    ///
    /// # Errors
    /// The browser's.
    pub fn list_section(&self, name: &str, is_there: bool, is_shown: bool) -> Result<(), JsValue> {
        let button = format!(".sections [data-act=\"jump:{name}\"]");
        let Some(button) = self.root.query_selector(&button)? else {
            return Ok(());
        };
        let section = format!("[data-view=\"{name}\"] > *");
        let section = self.root.query_selector(&section)?;
        let is_empty = is_shown && section.is_some_and(|section| section.has_attribute("hidden"));
        button
            .toggle_attribute_with_force("hidden", !is_there || is_empty)
            .map(drop)
    }

    /// Associates the tip with its element, so that screen readers read it with that element only.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn tie_tip(&self, target: &Element) -> Result<(), JsValue> {
        let holder = target.closest("[data-plot], button")?;
        for other in all(&self.root, "[aria-describedby=\"tip\"]")? {
            if Some(&other) != holder.as_ref() {
                other.remove_attribute("aria-describedby")?;
            }
        }
        match holder {
            Some(holder) if !holder.has_attribute("aria-describedby") => {
                set_attribute(&holder, "aria-describedby", "tip")
            }
            _ => Ok(()),
        }
    }

    /// Fills a list, and shows its section only if the list is not empty.
    ///
    /// # Errors
    /// If it is not there.
    pub fn set_list(&self, id: &str, html: &str) -> Result<(), JsValue> {
        let list = self.element(id)?;
        list.set_inner_html(html);
        if let Some(section) = list.closest("section")? {
            section.toggle_attribute_with_force("hidden", html.is_empty())?;
        }
        Ok(())
    }

    /// Measures the elements that a drawing depends on before it changes anything: querying a size
    /// after a change makes the browser lay out the page at once, several times in a drawing.
    pub fn measure(&self, ids: impl Iterator<Item = &'static str>) {
        let height = self.window.inner_height().ok().and_then(|h| h.as_f64());
        self.window_height.set(height.unwrap_or(0.0));
        let query = self.window.match_media("(prefers-color-scheme: dark)");
        self.is_dark
            .set(matches!(query, Ok(Some(query)) if query.matches()));
        let mut extents = self.extents.borrow_mut();
        for id in ids {
            if let Some(element) = self.document.get_element_by_id(id) {
                let place = element.get_bounding_client_rect();
                let extent = Extent {
                    top: place.top(),
                    bottom: place.bottom(),
                    width: element.client_width().max(0) as u32,
                    scroll_left: element.scroll_left(),
                };
                match extents.iter_mut().find(|(element_id, _)| *element_id == id) {
                    Some((_, kept)) => *kept = extent,
                    None => extents.push((id, extent)),
                }
            }
        }
    }

    /// Position of an element at the beginning of the drawing.
    pub fn extent(&self, id: &str) -> Extent {
        let extents = self.extents.borrow();
        let found = extents.iter().find(|(element_id, _)| *element_id == id);
        found.map(|(_, extent)| *extent).unwrap_or_default()
    }

    /// Whether any part of an element was visible then, or nearly visible.
    pub fn is_in_sight(&self, id: &str) -> bool {
        let place = self.extent(id);
        self.is_near(place.top, place.bottom)
    }

    /// Whether any part of a view is visible, or nearly visible; one that takes no place may get some.
    ///
    /// # Errors
    /// The browser's.
    pub fn is_view_in_sight(&self, name: &str) -> Result<bool, JsValue> {
        let first = format!("[data-view=\"{name}\"] > *");
        let Some(section) = self.root.query_selector(&first)? else {
            return Ok(true);
        };
        let place = section.get_bounding_client_rect();
        Ok(place.height() == 0.0 || self.is_near(place.top(), place.bottom()))
    }

    fn is_near(&self, top: f64, bottom: f64) -> bool {
        bottom > -100.0 && top < self.window_height.get() + 100.0
    }

    /// Places the tip beside a position in the window: on the side with more space, never over the
    /// position itself.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn place_tip(&self, (x, y): (f64, f64)) -> Result<(), JsValue> {
        let tip: HtmlElement = self.typed("tip")?;
        let width = self.window.inner_width()?.as_f64().unwrap_or(0.0);
        let height = self.window.inner_height()?.as_f64().unwrap_or(0.0);
        let style = tip.style();
        let (side, other) = if x > width / 2.0 {
            (("right", width - x + 14.0), "left")
        } else {
            (("left", x + 14.0), "right")
        };
        style.set_property(side.0, &format!("{:.0}px", side.1))?;
        style.set_property(other, "auto")?;
        let (side, other) = if y > height / 2.0 {
            (("bottom", height - y + 8.0), "top")
        } else {
            (("top", y + 8.0), "bottom")
        };
        style.set_property(side.0, &format!("{:.0}px", side.1))?;
        style.set_property(other, "auto")
    }

    /// Whether the reader's system used a dark theme at the beginning of the drawing.
    pub fn is_dark(&self) -> bool {
        self.is_dark.get()
    }

    /// The theme that goes with it.
    pub fn theme(&self) -> Theme {
        if self.is_dark() {
            Theme::DARK
        } else {
            Theme::LIGHT
        }
    }

    /// Offset of the reader's clock from UTC, milliseconds.
    pub fn clock_offset_ms(&self) -> f64 {
        -js_sys::Date::new_0().get_timezone_offset() * 60_000.0
    }

    /// Offers a file.
    ///
    /// # Errors
    /// The browser's.
    pub fn download(&self, name: &str, kind: &str, text: &str) -> Result<(), JsValue> {
        let options = BlobPropertyBag::new();
        options.set_type(kind);
        let parts = js_sys::Array::of1(&text.into());
        let blob = Blob::new_with_str_sequence_and_options(&parts, &options)?;
        self.download_blob(name, &blob)
    }

    /// Offers a file.
    ///
    /// # Errors
    /// The browser's.
    pub fn download_blob(&self, name: &str, blob: &Blob) -> Result<(), JsValue> {
        let url = Url::create_object_url_with_blob(blob)?;
        let link: HtmlElement = self.document.create_element("a")?.unchecked_into();
        link.set_attribute("href", &url)?;
        link.set_attribute("download", name)?;
        link.click();
        // The browser has started reading, and keeps the data.
        Url::revoke_object_url(&url)
    }
}

/// An element whose text changes, with its current text.
pub struct LiveText {
    /// The element that carries the attributes.
    pub holder: Element,
    text: Node,
    shown: String,
}

impl LiveText {
    /// `text_in` is the element inside `holder` that carries the text.
    pub fn new(holder: Element, text_in: &Element) -> Self {
        text_in.set_text_content(Some("–"));
        let text = text_in
            .first_child()
            .unwrap_or_else(|| text_in.clone().into());
        LiveText {
            holder,
            text,
            shown: "–".to_owned(),
        }
    }

    /// Sets its text.
    pub fn show(&mut self, text: String) {
        if self.shown != text {
            self.text.set_node_value(Some(&text));
            self.shown = text;
        }
    }
}

/// The action of a button.
pub fn action_of(button: &Element) -> Option<Action> {
    button.get_attribute("data-act")?.parse().ok()
}

/// Replaces an element's markup. A focused button is focused again, if there still is one with its
/// action.
///
/// # Errors
/// The browser's.
pub fn replace(holder: &Element, html: &str) -> Result<(), JsValue> {
    let held = focused_act(holder)?;
    holder.set_inner_html(html);
    if let Some(act) = held
        && let Some(button) = holder.query_selector(&format!("[data-act=\"{act}\"]"))?
    {
        button.unchecked_into::<HtmlElement>().focus()?;
    }
    Ok(())
}

/// The action of the focused button within an element.
///
/// # Errors
/// The browser's.
pub fn focused_act(holder: &Element) -> Result<Option<String>, JsValue> {
    let button = holder.query_selector("[data-act]:focus")?;
    let act = button.and_then(|button| button.get_attribute("data-act"));
    Ok(act.filter(|act| !act.contains(['"', '\\'])))
}

/// Sets an element's text, unless it has this text already.
pub fn set_text(element: &Element, text: &str) {
    if element.text_content().as_deref() != Some(text) {
        element.set_text_content(Some(text));
    }
}

/// Sets an attribute, unless it has this value already.
///
/// # Errors
/// The browser's, for an illegal name.
pub fn set_attribute(element: &Element, name: &str, value: &str) -> Result<(), JsValue> {
    if element.get_attribute(name).as_deref() != Some(value) {
        element.set_attribute(name, value)?;
    }
    Ok(())
}

/// All elements within one that match a selector.
///
/// # Errors
/// The browser's, for an illegal selector.
pub fn all(within: &Element, selector: &str) -> Result<Vec<Element>, JsValue> {
    let found = within.query_selector_all(selector)?;
    (0..found.length())
        .filter_map(|index| found.item(index))
        .map(|node| node.dyn_into::<Element>().map_err(JsValue::from))
        .collect()
}

/// The text of a browser's error.
pub fn error_message(error: &JsValue) -> String {
    let message = js_sys::Reflect::get(error, &"message".into()).ok();
    let message = message.and_then(|message| message.as_string());
    message.unwrap_or_else(|| "an unknown error".to_owned())
}
