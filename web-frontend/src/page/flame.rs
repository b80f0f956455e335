//! The flame graph in the document: asked for only while it is open and in
//! sight, drawn anew only when it has changed.

use std::fmt::Write as _;

use metrics_common::snapshot::Info;
use wasm_bindgen::prelude::*;
use web_sys::{Element, HtmlElement};

use super::dom::{Dom, set_attribute};
use crate::flame::{self, Answer, FlameBox, Profile};
use crate::flame_plot::{self, Flames, LEAST_PX};
use crate::format::{self, escape_html};
use crate::plot::Theme;
use crate::state::ViewState;

/// Milliseconds between two questions to the daemon.
const REFRESH_MS: f64 = 5_000.0;
/// Of a long path, so many functions are named at its end.
const NAMED_AT_END: usize = 6;

/// What the drawing depends on besides the stacks.
#[derive(PartialEq)]
struct Drawn {
    boxes: Vec<FlameBox>,
    zoom: usize,
    find: String,
    width: u32,
    dark: bool,
}

/// What of the flame graph is in the document.
#[derive(Default)]
pub struct FlameGraph {
    profile: Option<Result<Profile, String>>,
    asked_ms: Option<f64>,
    is_waiting: bool,
    /// A new answer has come that is not drawn yet.
    is_stale: bool,
    drawn: Option<Drawn>,
    /// The node that pointer or keyboard is at.
    marked: Option<usize>,
    path: String,
}

impl FlameGraph {
    /// Whether the daemon should be asked now; the caller then does so.
    pub fn ask(&mut self, dom: &Dom, state: &ViewState, now_ms: f64) -> bool {
        let is_due = self.asked_ms.is_none_or(|at| now_ms - at >= REFRESH_MS);
        // What is paused stands still, once there is something.
        let is_wanted = state.flame && !(state.paused && self.profile.is_some());
        if self.is_waiting || !is_due || !is_wanted || !dom.is_in_sight("flame") {
            return false;
        }
        (self.asked_ms, self.is_waiting) = (Some(now_ms), true);
        true
    }

    /// Takes what the daemon answered, or why it did not.
    pub fn take(&mut self, answer: Result<Answer, String>, is_paused: bool) {
        self.is_waiting = false;
        // The answer to a question from before the pause.
        if is_paused && matches!(self.profile, Some(Ok(_))) {
            return;
        }
        let profile = answer.and_then(Profile::of);
        if self.profile.as_ref() != Some(&profile) {
            self.marked = None;
            self.profile = Some(profile);
            self.is_stale = true;
        }
    }

    fn shown(&self) -> Option<&Profile> {
        self.profile.as_ref()?.as_ref().ok()
    }

    /// Brings the section up to date.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn draw(&mut self, dom: &Dom, info: &Info, state: &ViewState) -> Result<(), JsValue> {
        for id in ["flame-body", "flame-tools"] {
            dom.set_hidden(id, !state.flame)?;
        }
        if let Some(button) = dom.root.query_selector("[data-act=flame]")? {
            set_attribute(
                &button,
                "aria-expanded",
                if state.flame { "true" } else { "false" },
            )?;
        }
        if !state.flame || !dom.is_in_sight("flame") {
            return Ok(());
        }
        let note = match &self.profile {
            None => Some("asking the daemon…"),
            Some(Err(reason)) => Some(reason.as_str()),
            Some(Ok(profile)) if profile.tree.samples() == 0 => Some(""),
            Some(Ok(_)) => None,
        };
        dom.set_hidden("flames", note.is_some())?;
        dom.set_hidden("flame-path", note.is_some())?;
        dom.set_hidden("flame-note", note.is_none_or(str::is_empty))?;
        dom.set_text("flame-note", note.unwrap_or(""))?;
        let basis = self.shown().map_or(String::new(), Profile::basis);
        dom.set_text("flame-basis", &basis)?;
        if note.is_some() {
            dom.set_text("flame-hot", "")?;
            return dom.set_text("flame-found", "");
        }
        let is_stale = std::mem::take(&mut self.is_stale);
        let Some(Ok(profile)) = &self.profile else {
            return Ok(());
        };
        let holder = dom.element("flames")?;
        // It has no width before it was shown.
        let width = match dom.extent("flame-body").width {
            0 => holder.client_width().max(0) as u32,
            width => width,
        };
        let width = width.clamp(160, 4000);
        let (zoom, known) = profile.tree.find(&state.zoom);
        let wanted = Drawn {
            boxes: profile.tree.boxes(zoom, LEAST_PX / f64::from(width)),
            zoom,
            find: state.find.clone(),
            width,
            dark: dom.is_dark(),
        };
        if !is_stale && self.drawn.as_ref() == Some(&wanted) {
            return Ok(());
        }
        let svg = drawing(profile, info, &wanted, dom.theme())?;
        if let Some(place) = holder.query_selector(".drawing")? {
            place.set_inner_html(&svg);
        }
        let found = match state.find.trim() {
            "" => String::new(),
            _ => {
                let named = |node: &flame::Node| flame::label(info, node);
                let (found, share) = profile.tree.search(&state.find, named);
                match found.len() {
                    0 => "nothing found".to_owned(),
                    _ => format!("{} % of all samples", format::percent(share)),
                }
            }
        };
        dom.set_text("flame-found", &found)?;
        let hot = profile.hottest_text(info, zoom);
        dom.set_text("flame-hot", &hot)?;
        let label = format!(
            "Flame graph of {}. {hot}. Arrow keys go from function to function, enter zooms, escape shows the whole.",
            profile.basis()
        );
        set_attribute(&holder, "aria-label", &label)?;
        let path = path_html(profile, info, zoom, &state.zoom[known..]);
        if path != self.path {
            dom.element("flame-path")?.set_inner_html(&path);
            self.path = path;
        }
        self.drawn = Some(wanted);
        self.show_mark(dom)
    }

    /// Points at what lies at a pixel of the drawing, and describes it.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn hover(&mut self, dom: &Dom, info: &Info, (x, y): (f64, f64)) -> Result<(), JsValue> {
        self.marked = self.at(x, y);
        self.show_mark(dom)?;
        self.show_tip(dom, info)
    }

    /// Points at nothing.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn leave(&mut self, dom: &Dom) -> Result<(), JsValue> {
        match self.marked.take() {
            Some(_) => self.show_mark(dom),
            None => Ok(()),
        }
    }

    fn at(&self, x: f64, y: f64) -> Option<usize> {
        let drawn = self.drawn.as_ref()?;
        flame_plot::hit(&drawn.boxes, drawn.width, (x, y)).map(|own| own.node)
    }

    /// The path to what lies at a pixel, to be zoomed into.
    pub fn path_at(&self, x: f64, y: f64) -> Option<Vec<String>> {
        Some(self.shown()?.tree.path_to(self.at(x, y)?))
    }

    /// The path to what the keyboard is at.
    pub fn marked_path(&self) -> Option<Vec<String>> {
        Some(self.shown()?.tree.path_to(self.marked?))
    }

    /// Goes from the marked box to a neighbour, and describes that one.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn step(&mut self, dom: &Dom, info: &Info, key: &str) -> Result<(), JsValue> {
        let (Some(profile), Some(drawn)) = (self.shown(), &self.drawn) else {
            return Ok(());
        };
        let tree = &profile.tree;
        let visible = |node: &usize| drawn.boxes.iter().any(|own| own.node == *node);
        let from = self.marked.filter(|node| visible(node));
        let next = match (from, key) {
            (None, _) => Some(drawn.zoom),
            (Some(at), "ArrowUp") => tree.node(at).map(|node| node.parent),
            (Some(at), "ArrowDown") => {
                let children = tree.node(at).map_or(&[][..], |node| &node.children);
                let size = |node: &&usize| tree.node(**node).map_or(0, |node| node.samples);
                children
                    .iter()
                    .filter(|node| visible(node))
                    .max_by_key(size)
                    .copied()
            }
            (Some(at), _) => {
                let parent = tree.node(at).map_or(0, |node| node.parent);
                let siblings: Vec<usize> = tree.node(parent).map_or(Vec::new(), |node| {
                    node.children
                        .iter()
                        .copied()
                        .filter(|node| visible(node))
                        .collect()
                });
                let place = siblings.iter().position(|node| *node == at);
                let step = if key == "ArrowLeft" { -1 } else { 1 };
                place
                    .and_then(|place| place.checked_add_signed(step))
                    .and_then(|place| siblings.get(place).copied())
            }
        };
        if next.is_some() {
            self.marked = next;
        }
        self.show_mark(dom)?;
        if let Some((left, top, width, height)) = self.marked_place() {
            let holder = dom.element("flames")?.get_bounding_client_rect();
            let at = (
                holder.left() + f64::from(left + width / 2),
                holder.top() + f64::from(top + height),
            );
            dom.place_tip(at)?;
        }
        self.show_tip(dom, info)
    }

    /// Left, top, width and height of the marked box, pixels.
    fn marked_place(&self) -> Option<(i32, i32, i32, i32)> {
        let (drawn, marked) = (self.drawn.as_ref()?, self.marked?);
        let own = drawn.boxes.iter().find(|own| own.node == marked)?;
        let (left, top, right, bottom) = flame_plot::place(own, drawn.width);
        Some((left, top, (right - left).max(3), bottom - top))
    }

    fn show_mark(&self, dom: &Dom) -> Result<(), JsValue> {
        let holder = dom.element("flames")?;
        let mark: HtmlElement = holder
            .query_selector(".mark")?
            .ok_or("a flame graph without a mark")?
            .unchecked_into();
        let place = self.marked_place();
        if let Some((left, top, width, height)) = place {
            for (name, pixels) in [
                ("left", left),
                ("top", top),
                ("width", width),
                ("height", height),
            ] {
                mark.style().set_property(name, &format!("{pixels}px"))?;
            }
        }
        mark.toggle_attribute_with_force("hidden", place.is_none())?;
        Ok(())
    }

    fn show_tip(&self, dom: &Dom, info: &Info) -> Result<(), JsValue> {
        let tip: Element = dom.element("tip")?;
        let html = self
            .marked
            .zip(self.shown())
            .map(|(at, profile)| flame_plot::tip_html(info, &profile.tree, at));
        if let Some(html) = &html {
            tip.set_inner_html(html);
        }
        tip.toggle_attribute_with_force("hidden", html.is_none())?;
        Ok(())
    }

    /// The drawing as it is now.
    pub fn svg(&self, dom: &Dom, info: &Info) -> Option<String> {
        drawing(self.shown()?, info, self.drawn.as_ref()?, dom.theme()).ok()
    }

    /// The stacks as the daemon sent them.
    pub fn folded(&self) -> Option<&str> {
        Some(&self.shown()?.folded)
    }
}

fn drawing(profile: &Profile, info: &Info, drawn: &Drawn, theme: Theme) -> Result<String, JsValue> {
    let named = |node: &flame::Node| flame::label(info, node);
    let found = profile.tree.search(&drawn.find, named).0;
    let flames = Flames {
        info,
        tree: &profile.tree,
        boxes: &drawn.boxes,
        found: Some(&found).filter(|_| !drawn.find.trim().is_empty()),
    };
    flame_plot::svg(&flames, theme, drawn.width).map_err(|error| JsValue::from(error.to_string()))
}

/// The way down to what is zoomed into, and what of it was not seen lately.
fn path_html(profile: &Profile, info: &Info, zoom: usize, unknown: &[String]) -> String {
    let line = profile.tree.line_to(zoom);
    if line.is_empty() && unknown.is_empty() {
        return "Click a function to zoom into it".to_owned();
    }
    let mut html = format!(
        "<button class=\"plain\" data-act=\"zoom:0\">{}</button>",
        flame::WHOLE
    );
    let left_out = line.len().saturating_sub(NAMED_AT_END);
    for (depth, &at) in (1..).zip(&line) {
        let Some(node) = profile.tree.node(at) else {
            continue;
        };
        let name = escape_html(&flame::label(info, node));
        if depth > 1 && depth <= left_out {
            if depth == 2 {
                html.push_str("<span class=\"gap\">…</span>");
            }
        } else if depth == line.len() {
            let _ = write!(html, "<b>{name}</b>");
        } else {
            let _ = write!(
                html,
                "<button class=\"plain\" data-act=\"zoom:{depth}\">{name}</button>"
            );
        }
    }
    if let Some(name) = unknown.last() {
        let _ = write!(html, " · {} was not seen lately", escape_html(name));
    }
    html
}
