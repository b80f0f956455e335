//! The flame graph in the document: requested only while it is open and visible, drawn only if it
//! has changed.

use std::cell::RefCell;
use std::rc::Rc;

use metrics_common::Info;
use wasm_bindgen::prelude::*;
use web_sys::{Element, HtmlElement, HtmlInputElement, Window};

use super::choices::Choices;
use super::draw::{self, LEAST_PX};
use super::fetch::FlameClient;
use super::model::{self, FlameBox, FlameResponse, Profile};
use super::path::path_html;
use crate::action::{Action, Format};
use crate::format;
use crate::page::dom::{Dom, set_attribute};
use crate::page::save::File;
use crate::state::{Address, Keys, Pairs};
use crate::view::{Pointer, Reply, Scene, View};

/// Milliseconds between two questions to the daemon.
const REFRESH_MS: f64 = 5_000.0;

/// The inputs of the drawing other than the stacks.
#[derive(PartialEq)]
struct Drawn {
    boxes: Vec<FlameBox>,
    zoom: usize,
    find: String,
    width: u32,
    dark: bool,
}

/// The view, before anything is shown.
pub fn start(window: &Window, redraw: &Rc<dyn Fn()>) -> Box<dyn View> {
    let inbox: Rc<RefCell<Option<Result<FlameResponse, String>>>> = Rc::default();
    let (arrived, redraw) = (inbox.clone(), redraw.clone());
    let client = FlameClient::new(window.clone(), move |answer| {
        *arrived.borrow_mut() = Some(answer);
        redraw();
    });
    Box::new(FlameGraph {
        client,
        inbox,
        choices: Choices::default(),
        profile: None,
        about: String::new(),
        part: None,
        asked_ms: None,
        is_waiting: false,
        is_stale: false,
        drawn: None,
        marked: None,
        path: String::new(),
    })
}

/// The state of the flame graph in the document.
struct FlameGraph {
    client: Rc<FlameClient>,
    /// The daemon's answer, until the next drawing takes it.
    inbox: Rc<RefCell<Option<Result<FlameResponse, String>>>>,
    choices: Choices,
    profile: Option<Result<Profile, String>>,
    asked_ms: Option<f64>,
    is_waiting: bool,
    /// Slug of the component whose page is shown; empty in the overview.
    about: String,
    /// That component's part of the profile.
    part: Option<Result<Profile, String>>,
    /// Whether a new answer is not drawn yet.
    is_stale: bool,
    drawn: Option<Drawn>,
    /// The node at the pointer or focus.
    marked: Option<usize>,
    path: String,
}

impl Keys for FlameGraph {
    fn read(&mut self, pairs: &Pairs) {
        self.choices.read(pairs);
    }

    fn write(&self, address: &mut Address) {
        self.choices.write(address);
    }
}

impl View for FlameGraph {
    fn measured(&self) -> &'static [&'static str] {
        &["flame", "flame-body"]
    }

    fn show_choices(&self, dom: &Dom) -> Result<(), JsValue> {
        let find: HtmlInputElement = dom.typed("find")?;
        find.set_value(&self.choices.find);
        Ok(())
    }

    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        if let Some(answer) = self.inbox.take() {
            self.take_answer(answer, scene.shared.range.is_paused());
        }
        self.turn_to(scene);
        self.redraw(scene.dom, scene.info)?;
        self.ask(scene);
        Ok(())
    }

    fn hover(&mut self, scene: &Scene, pointer: &Pointer) -> Result<bool, JsValue> {
        let Some(place) = pointer.within("flames") else {
            return Ok(false);
        };
        scene.dom.place_tip(pointer.place)?;
        self.marked = self.at(place);
        self.show_mark(scene.dom)?;
        self.show_tip(scene.dom, scene.info)
    }

    fn leave(&mut self, dom: &Dom) -> Result<(), JsValue> {
        match self.marked.take() {
            Some(_) => self.show_mark(dom),
            None => Ok(()),
        }
    }

    fn act(&mut self, action: &Action) -> Reply {
        match action {
            Action::Flame => self.choices.is_closed = !self.choices.is_closed,
            Action::Zoom(depth) => self.choices.zoom.truncate(*depth),
            Action::About(_) => self.choices.zoom.clear(),
            _ => return Reply::Ignored,
        }
        Reply::Changed
    }

    fn change(&mut self, id: &str, value: &str) -> Reply {
        if id != "find" {
            return Reply::Ignored;
        }
        value.clone_into(&mut self.choices.find);
        Reply::Changed
    }

    fn click(&mut self, pointer: &Pointer) -> Reply {
        match pointer.within("flames").and_then(|place| self.at(place)) {
            Some(node) => self.zoom_to(node),
            None => Reply::Ignored,
        }
    }

    fn key(&mut self, scene: &Scene, target: &Element, key: &str) -> Result<Reply, JsValue> {
        if target.closest("#flames")?.is_none() {
            return Ok(Reply::Ignored);
        }
        Ok(match key {
            "ArrowUp" | "ArrowDown" | "ArrowLeft" | "ArrowRight" => {
                self.step(scene.dom, scene.info, key)?;
                Reply::Done
            }
            "Enter" => match self.marked {
                Some(node) => self.zoom_to(node),
                None => Reply::Done,
            },
            "Escape" | "Home" if !self.choices.zoom.is_empty() => {
                self.choices.zoom.clear();
                Reply::Changed
            }
            _ => Reply::Ignored,
        })
    }

    fn file(&self, scene: &Scene, what: &str, format: Format) -> Result<Option<File>, JsValue> {
        let Some(profile) = self.shown().filter(|_| what == "flame") else {
            return Ok(None);
        };
        Ok(match format {
            Format::Folded => Some(File::Text(profile.folded.clone())),
            Format::Svg | Format::Png => self.drawn.as_ref().map(|drawn| {
                File::Drawing(draw::of_profile(
                    profile,
                    scene.info,
                    (drawn.boxes.as_slice(), drawn.width),
                    &drawn.find,
                    scene.dom.theme(),
                ))
            }),
            Format::Csv | Format::Copy => None,
        })
    }
}

impl FlameGraph {
    /// Requests the stacks, if it is time.
    fn ask(&mut self, scene: &Scene) {
        let now_ms = js_sys::Date::now();
        let is_due = self.asked_ms.is_none_or(|at| now_ms - at >= REFRESH_MS);
        // A paused flame graph is not updated.
        let is_paused = scene.shared.range.is_paused() && self.profile.is_some();
        // A hidden element has no width.
        let is_recording = scene.info.is_recording();
        let is_there = scene.dom.extent("flame").width > 0 && !is_recording;
        if scene.info.sampler.is_none() && !is_recording {
            let reason = "This host's stacks are not sampled; netto check says why.".to_owned();
            self.profile.get_or_insert(Err(reason));
            return;
        }
        let is_wanted = self.is_open() && is_there && scene.is_live && !is_paused;
        if is_wanted && is_due && !self.is_waiting && scene.dom.is_in_sight("flame") {
            (self.asked_ms, self.is_waiting) = (Some(now_ms), true);
            self.client.ask();
        }
    }

    /// Takes the daemon's answer, or the error.
    fn take_answer(&mut self, answer: Result<FlameResponse, String>, is_paused: bool) {
        self.is_waiting = false;
        // An answer to a request before the pause.
        if is_paused && matches!(self.profile, Some(Ok(_))) {
            return;
        }
        let profile = answer.and_then(Profile::of);
        if self.profile.as_ref() != Some(&profile) {
            self.marked = None;
            self.profile = Some(profile);
            self.part = None;
            self.is_stale = true;
        }
    }

    /// On a component's page, its own stacks are shown, and always.
    fn turn_to(&mut self, scene: &Scene) {
        if self.about != scene.shared.about {
            self.about.clone_from(&scene.shared.about);
            (self.part, self.marked, self.is_stale) = (None, None, true);
        }
        if let (Some(Ok(profile)), None, false) = (&self.profile, &self.part, self.about.is_empty())
        {
            self.part = Some(profile.of_component(scene.info, &self.about));
        }
    }

    fn is_open(&self) -> bool {
        !self.choices.is_closed || !self.about.is_empty()
    }

    /// The profile to show, or why there is none.
    fn outcome(&self) -> Option<&Result<Profile, String>> {
        match (&self.profile, self.about.is_empty()) {
            (Some(Ok(_)), false) => self.part.as_ref(),
            (all, _) => all.as_ref(),
        }
    }

    fn shown(&self) -> Option<&Profile> {
        self.outcome()?.as_ref().ok()
    }

    fn zoom_to(&mut self, node: usize) -> Reply {
        let Some(path) = self.shown().map(|profile| profile.tree.path_to(node)) else {
            return Reply::Ignored;
        };
        self.choices.zoom = path;
        Reply::Changed
    }

    /// Brings the section up to date.
    fn redraw(&mut self, dom: &Dom, info: &Info) -> Result<(), JsValue> {
        for id in ["flame-body", "flame-tools"] {
            dom.set_hidden(id, !self.is_open())?;
        }
        if let Some(button) = dom.root.query_selector("[data-act=flame]")? {
            let is_open = self.is_open().to_string();
            set_attribute(&button, "aria-expanded", &is_open)?;
            button.toggle_attribute_with_force("disabled", !self.about.is_empty())?;
        }
        dom.set_text("flame-what", &model::subject(info, &self.about))?;
        if !self.is_open() || !dom.is_in_sight("flame") {
            return Ok(());
        }
        let note = match self.outcome() {
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
        let Some(Ok(profile)) = self.outcome() else {
            return Ok(());
        };
        let holder = dom.element("flames")?;
        // It has no width before it was shown.
        let width = match dom.extent("flame-body").width {
            0 => holder.client_width().max(0) as u32,
            width => width,
        };
        let width = width.clamp(160, 4000);
        let (zoom, matched) = profile.tree.find(&self.choices.zoom);
        let wanted = Drawn {
            boxes: profile.tree.boxes(zoom, LEAST_PX / f64::from(width)),
            zoom,
            find: self.choices.find.clone(),
            width,
            dark: dom.is_dark(),
        };
        if !is_stale && self.drawn.as_ref() == Some(&wanted) {
            return Ok(());
        }
        let boxes = (wanted.boxes.as_slice(), wanted.width);
        let svg = draw::of_profile(profile, info, boxes, &wanted.find, dom.theme());
        if let Some(place) = holder.query_selector(".drawing")? {
            place.set_inner_html(&svg);
        }
        let found = match self.choices.find.trim() {
            "" => String::new(),
            _ => {
                let named = |node: &model::Node| model::label(info, node);
                let (found, share) = profile.tree.search(&self.choices.find, named);
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
        let path = path_html(profile, info, zoom, &self.choices.zoom[matched..]);
        if path != self.path {
            dom.element("flame-path")?.set_inner_html(&path);
            self.path = path;
        }
        self.drawn = Some(wanted);
        self.show_mark(dom)
    }

    fn at(&self, place: (f64, f64)) -> Option<usize> {
        let drawn = self.drawn.as_ref()?;
        draw::hit(&drawn.boxes, drawn.width, place).map(|flame_box| flame_box.node)
    }

    /// Goes from the marked box to a neighbour, and describes that one.
    fn step(&mut self, dom: &Dom, info: &Info, key: &str) -> Result<(), JsValue> {
        let (Some(profile), Some(drawn)) = (self.shown(), &self.drawn) else {
            return Ok(());
        };
        let tree = &profile.tree;
        let visible = |node: &usize| drawn.boxes.iter().any(|flame_box| flame_box.node == *node);
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
        self.show_tip(dom, info).map(|_| ())
    }

    /// Left, top, width and height of the marked box, pixels.
    fn marked_place(&self) -> Option<(i32, i32, i32, i32)> {
        let (drawn, marked) = (self.drawn.as_ref()?, self.marked?);
        let flame_box = drawn
            .boxes
            .iter()
            .find(|flame_box| flame_box.node == marked)?;
        let (left, top, right, bottom) = draw::place(flame_box, drawn.width);
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

    /// Says in the tip what is marked; whether there is something to say.
    fn show_tip(&self, dom: &Dom, info: &Info) -> Result<bool, JsValue> {
        let tip: Element = dom.element("tip")?;
        let html = self
            .marked
            .zip(self.shown())
            .map(|(at, profile)| draw::tip_html(info, &profile.tree, at));
        if let Some(html) = &html {
            tip.set_inner_html(html);
        }
        tip.toggle_attribute_with_force("hidden", html.is_none())?;
        Ok(html.is_some())
    }
}
