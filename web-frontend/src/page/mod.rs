//! Updates the document from the daemon's messages and the reader's input, through the views. Only
//! this folder and the `page` of each view access the DOM.

mod act;
pub mod chart;
pub mod dom;
pub mod fetch;
pub mod marks;
pub mod save;
mod selected;
pub mod simple;
mod switch;

use std::rc::Rc;

use metrics_common::codec::ServerMessage;
use metrics_common::history::History;
use metrics_common::{Info, Snapshot};
use wasm_bindgen::prelude::*;
use web_sys::Window;

use self::dom::{Dom, action_of, all, set_attribute};
use self::selected::Selected;
use self::switch::PageSwitch;
use crate::action::Action;
use crate::connection::{Connection, ConnectionState};
use crate::pace::Pace;
use crate::recent::ShownTime;
use crate::recent::{Recent, RecentSpan};
use crate::state::{Keys, Pairs, Shared};
use crate::timeline::clock;
use crate::view::{Scene, View};
use crate::view_info::{Pages, ViewInfo};
use crate::view_model;
use crate::views;

/// The state of the page.
pub struct Page {
    dom: Dom,
    /// The connection as the page sees it.
    pub connection: Connection,
    pace: Pace,
    /// What the page keeps of the daemon's messages.
    received: Received,
    shared: Shared,
    selected: Selected,
    views: Vec<(&'static ViewInfo, Box<dyn View>)>,
    cursor_ms: Option<f64>,
    /// The selection in progress: id of the plot, first pixel and time.
    brush: Option<(String, f64, f64)>,
    introduced: bool,
    /// Names of the views that were drawn on this page.
    drawn: Vec<&'static str>,
    switch: PageSwitch,
    redraw: Rc<dyn Fn()>,
}

/// What the page keeps of the daemon's messages.
#[derive(Default)]
struct Received {
    info: Option<Info>,
    latest: Option<Snapshot>,
    recent: Recent,
    /// Whether `now` contains all that was received.
    is_summed: bool,
    /// The part of `recent` that is shown as now.
    now: Option<RecentSpan>,
    /// The content while the page is paused.
    frozen: Option<RecentSpan>,
    history: Option<History>,
}

impl Page {
    /// Finds its place in the document.
    ///
    /// # Errors
    /// If this is not netto's page.
    pub fn new(window: Window, redraw: &Rc<dyn Fn()>) -> Result<Self, JsValue> {
        let views = views::all(&window, redraw);
        let mut page = Page {
            selected: Selected::new(window.clone(), redraw),
            dom: Dom::new(window)?,
            connection: Connection::new(js_sys::Date::now()),
            pace: Pace::default(),
            received: Received::default(),
            shared: Shared::default(),
            views,
            cursor_ms: None,
            brush: None,
            introduced: false,
            drawn: Vec::new(),
            switch: PageSwitch::default(),
            redraw: redraw.clone(),
        };
        page.read_address()?;
        Ok(page)
    }

    /// Stores a message; the next drawing shows it. Returns whether it should be drawn now.
    pub fn receive(&mut self, message: ServerMessage) -> bool {
        let now_ms = js_sys::Date::now();
        let was_live = *self.connection.state() == ConnectionState::Live;
        self.connection.received(&message, now_ms);
        // The reader of a recording chooses its pace.
        let is_regular = was_live && matches!(message, ServerMessage::Snapshot(_));
        let is_recording = self.received.info.as_ref().is_some_and(Info::is_recording);
        self.store(message);
        is_recording || self.pace.arrives(now_ms) || !is_regular
    }

    fn store(&mut self, message: ServerMessage) {
        let received = &mut self.received;
        match message {
            ServerMessage::Hello(info) => {
                self.selected.ask_again_if_missing();
                received.recent.forget();
                let before = received.info.as_ref().zip(received.history.take());
                received.history = Some(view_model::continued_history(before, &info));
                received.info = Some(*info);
                self.introduced = false;
            }
            ServerMessage::History(message) => {
                // It follows the daemon's description.
                let Some(info) = &received.info else { return };
                match History::from_message(info, &message) {
                    Ok(mut history) => {
                        if let Some(old) = received.history.take() {
                            history.continue_from(old);
                        }
                        received.history = Some(history);
                    }
                    Err(error) => {
                        web_sys::console::error_1(&format!("netto: the past: {error}").into())
                    }
                }
            }
            ServerMessage::Snapshot(snapshot) => {
                for (_, view) in &mut self.views {
                    view.receive(&snapshot);
                }
                if let Some(history) = &mut received.history {
                    history.push(&snapshot);
                }
                if let Some(info) = &received.info {
                    received.recent.push(info, (*snapshot).clone());
                    received.is_summed = false;
                }
                received.latest = Some(*snapshot);
            }
            ServerMessage::Bye(_) | ServerMessage::Gap(_) | ServerMessage::Stacks(_) => {}
        }
    }

    /// Whether the open connection should be closed.
    ///
    /// A paused recording is silent; its own view reports a lost daemon.
    pub fn is_silent(&self) -> bool {
        let info = self.received.info.as_ref();
        if info.is_some_and(Info::is_recording) {
            return false;
        }
        let period_ms = info.map_or(0, |info| info.user_period_ms);
        self.connection.is_silent(js_sys::Date::now(), period_ms)
    }

    /// Runs about once a second. Returns whether data should be drawn that has waited for more.
    pub fn every_second(&mut self) -> bool {
        for (_, view) in &mut self.views {
            view.every_second();
        }
        self.pace.is_last(js_sys::Date::now())
    }

    /// The present, milliseconds since the Unix epoch; for a recording, its current time.
    fn now_ms(&self) -> f64 {
        match (&self.received.info, &self.received.latest) {
            (Some(info), Some(latest)) if info.is_recording() => latest.time_unix_ns as f64 / 1e6,
            _ => js_sys::Date::now(),
        }
    }

    /// Brings the document up to date.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn draw(&mut self) -> Result<(), JsValue> {
        let begun_ms = js_sys::Date::now();
        let drawn = self.update();
        self.pace.has_drawn(js_sys::Date::now() - begun_ms);
        drawn
    }

    fn update(&mut self) -> Result<(), JsValue> {
        self.switch.begin(&self.dom, &self.shared.about)?;
        let measured = self.views.iter().flat_map(|(_, view)| view.measured());
        self.dom.measure(measured.copied());
        // Before the first change, which would make the browser lay out the page again.
        let sights = self.views.iter();
        let sights = sights.map(|(entry, _)| self.dom.is_view_in_sight(entry.name));
        let sights = sights.collect::<Result<Vec<bool>, JsValue>>()?;
        // Not before the daemon has said whether it plays a recording.
        if let Some(info) = &self.received.info {
            let obstacle = if self.is_report() {
                Some(selected::OF_A_REPORT)
            } else {
                info.is_recording().then_some(selected::OF_A_RECORDING)
            };
            let latest = self.received.latest.as_ref();
            let latest_ms = latest.map(|latest| latest.time_unix_ns as f64 / 1e6);
            let wanted = self.shared.time_of_figures(latest_ms);
            let is_moving = self.shared.is_moving();
            self.selected.follow(wanted, is_moving, obstacle);
        }
        self.received.sum_recent();
        self.follow_leader();
        self.received.freeze(self.shared.range.is_paused());
        self.draw_link()?;
        self.draw_controls()?;
        if let (Some(info), false) = (&self.received.info, self.introduced) {
            self.introduced = true;
            self.drawn.clear();
            introduce(&self.dom, info)?;
            for (_, view) in &mut self.views {
                view.meet(&self.dom, info)?;
            }
        }
        let mut drawn = std::mem::take(&mut self.drawn);
        if self.switch.is_other() {
            drawn.clear();
        }
        let _ = self.with_scene(|views, shared, scene| {
            let sections = &scene.latest.sections;
            for ((entry, view), is_in_sight) in views.iter_mut().zip(sights) {
                let is_shown = entry.is_shown(sections, shared);
                scene
                    .dom
                    .show_view(entry.name, entry.has_data(sections), is_shown)?;
                // Views out of sight are not updated, but never empty: the browser's search finds
                // their texts.
                let is_new = !drawn.contains(&entry.name);
                if is_shown && (is_new || is_in_sight || entry.pages == Pages::Every) {
                    view.draw(scene)?;
                    if is_new {
                        drawn.push(entry.name);
                    }
                }
                let has_data = entry.has_data(sections);
                scene.dom.list_section(entry.name, has_data, is_shown)?;
            }
            // Last, so that a test that reads it finds values of this interval.
            let sequence = scene.shown.sequence.to_string();
            set_attribute(&scene.dom.root, "data-sequence", &sequence)
        })?;
        self.drawn = drawn;
        if self.switch.end(&self.dom, !self.drawn.is_empty())? {
            // Positions were measured on the previous page.
            (self.redraw)();
        }
        let received = &self.received;
        let shown = self.selected.span().or(received.frozen.as_ref());
        let shown = shown.or(received.now.as_ref());
        let first = shown.map_or_else(String::new, |shown| shown.first_sequence.to_string());
        set_attribute(&self.dom.root, "data-first-sequence", &first)
    }

    /// The event whose parts are shown, unless the reader has chosen one.
    fn follow_leader(&mut self) {
        if let (Some(info), Some(now)) = (&self.received.info, &self.received.now)
            && !self.shared.range.is_paused()
            && self.shared.range.selected().is_none()
            && let Some(leads) =
                view_model::leading_event(info, &now.snapshot, &self.shared.leading)
        {
            self.shared.leading = leads;
        }
    }

    /// Calls `with` with the views and their data; `None` without data.
    fn with_scene<T>(
        &mut self,
        act: impl FnOnce(
            &mut [(&'static ViewInfo, Box<dyn View>)],
            &Shared,
            &Scene,
        ) -> Result<T, JsValue>,
    ) -> Result<Option<T>, JsValue> {
        let received = &self.received;
        let (Some(info), Some(latest), Some(now), Some(history)) = (
            &received.info,
            &received.latest,
            &received.now,
            &received.history,
        ) else {
            return Ok(None);
        };
        let state = self.connection.state();
        let (selected, frozen) = (self.selected.span(), received.frozen.as_ref());
        let scene = Scene {
            dom: &self.dom,
            info,
            history,
            latest,
            shown: &selected.or(frozen).unwrap_or(now).snapshot,
            time: match (selected, frozen, state) {
                (Some(_), ..) => ShownTime::Selected,
                (None, Some(_), _) => ShownTime::Paused,
                _ if self.is_report() => ShownTime::Report,
                (None, None, ConnectionState::Lost { .. }) => ShownTime::Stale,
                _ => ShownTime::Now,
            },
            shared: &self.shared,
            cursor_ms: self.cursor_ms,
            is_live: *state == ConnectionState::Live,
            marks: {
                let all = self.views.iter().map(|(_, view)| view.marks());
                all.collect::<Vec<_>>().concat()
            },
        };
        act(&mut self.views, &self.shared, &scene).map(Some)
    }

    fn is_report(&self) -> bool {
        self.dom.root.has_attribute("data-standalone")
    }

    fn draw_link(&self) -> Result<(), JsValue> {
        let info = self.received.info.as_ref();
        let state = self.connection.state();
        let (word, alarm) = match state {
            ConnectionState::Connecting => ("connecting…".to_owned(), None),
            ConnectionState::Live if self.is_report() => {
                ("none: this is a report".to_owned(), None)
            }
            ConnectionState::Live if info.is_some_and(Info::is_recording) => {
                ("recording".to_owned(), None)
            }
            ConnectionState::Live => ("live".to_owned(), None),
            ConnectionState::Lost { reason } => (
                "connection lost".to_owned(),
                Some(match info {
                    Some(_) => {
                        format!("Connection lost: {reason}. Trying again; the values are old.")
                    }
                    None => format!("No connection: {reason}. Trying again."),
                }),
            ),
        };
        let alarm = alarm.or_else(|| view_model::version_note(info?, env!("CARGO_PKG_VERSION")));
        self.dom.set_text("link", &word)?;
        let banner = self.dom.element("banner")?;
        if banner.text_content().as_deref() != Some(alarm.as_deref().unwrap_or("")) {
            banner.set_text_content(alarm.as_deref());
            banner.toggle_attribute_with_force("hidden", alarm.is_none())?;
        }
        set_attribute(&self.dom.root, "data-state", state.name())
    }

    /// Marks the current choices.
    fn draw_controls(&self) -> Result<(), JsValue> {
        for button in all(&self.dom.root, "[data-choice]")? {
            let on = action_of(&button).is_some_and(|action| self.has_taken(&action));
            set_attribute(&button, "aria-pressed", if on { "true" } else { "false" })?;
        }
        set_attribute(&self.dom.root, "data-mode", self.shared.range.mode())?;
        let reason = self.selected.reason_missing();
        self.dom.set_text("mode", &self.mode_words(reason))?;
        let found = match (self.selected.span(), reason) {
            (Some(_), _) => "shown",
            (None, Some(_)) => "missing",
            (None, None) => "",
        };
        set_attribute(&self.dom.root, "data-selected", found)
    }

    /// What is said beside the choices of time: when it is not now, of what time figures are.
    fn mode_words(&self, reason: Option<&str>) -> String {
        let clock_of = |span: &RecentSpan| {
            let ms = span.snapshot.time_unix_ns as f64 / 1e6;
            clock(ms, self.dom.clock_offset_ms(), true)
        };
        let received = &self.received;
        if let (ConnectionState::Lost { .. }, Some(now)) = (self.connection.state(), &received.now)
        {
            return format!("connection lost: the last values are of {}", clock_of(now));
        }
        match (&received.frozen, reason) {
            (Some(frozen), _) => format!("paused at {}", clock_of(frozen)),
            (None, reason) => reason.unwrap_or_default().to_owned(),
        }
    }

    fn has_taken(&self, action: &Action) -> bool {
        let range = &self.shared.range;
        match action {
            Action::Basis(basis) => self.shared.basis == *basis,
            Action::Pause => range.is_paused(),
            Action::OfRange => self.shared.is_of_range,
            Action::Keys => !self.shared.has_no_shortcuts,
            Action::Live => {
                let is_lost = matches!(self.connection.state(), ConnectionState::Lost { .. });
                range.until_ms().is_none() && !is_lost
            }
            Action::Span(minutes) => (range.span_ms - f64::from(*minutes) * 60_000.0).abs() < 1.0,
            // The button is pressed while the view is shown.
            Action::Hide(view) => !self.shared.hidden.contains(view),
            other => self
                .views
                .iter()
                .find_map(|(_, view)| view.has_taken(other))
                .unwrap_or(false),
        }
    }

    /// Takes the state from the address that the reader has changed.
    ///
    /// # Errors
    /// The browser's.
    pub fn read_address(&mut self) -> Result<(), JsValue> {
        let pairs = Pairs::of(&self.dom.window.location().hash()?);
        self.shared.read(&pairs);
        for (_, view) in &mut self.views {
            view.read(&pairs);
        }
        Ok(())
    }

    /// Writes the state into input fields; the next drawing scrolls to the section named in the address.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn show_state(&mut self) -> Result<(), JsValue> {
        for (_, view) in &self.views {
            view.show_choices(&self.dom)?;
        }
        if !self.shared.view.is_empty() {
            self.switch.jump = Some(self.shared.view.clone());
        }
        Ok(())
    }
}

impl Received {
    /// Sums the recent intervals that are shown as now, once for each drawing.
    fn sum_recent(&mut self) {
        if !std::mem::replace(&mut self.is_summed, true) {
            self.now = self.recent.shown();
        }
    }

    /// Keeps the content while the page is paused.
    fn freeze(&mut self, is_paused: bool) {
        if !is_paused {
            self.frozen = None;
        } else if self.frozen.is_none() {
            self.frozen.clone_from(&self.now);
        }
    }
}

/// Shows data that changes only with the daemon's description.
fn introduce(dom: &Dom, info: &Info) -> Result<(), JsValue> {
    dom.set_text("host", &info.hostname)?;
    dom.set_text("kernel", &format!("Linux {}", info.kernel))?;
    dom.set_text("version", &format!("netto {}", info.version))?;
    dom.set_hidden("demo", !info.is_demonstration())?;
    // A recording's end is not the present.
    let is_recording = info.is_recording();
    dom.root
        .toggle_attribute_with_force("data-recording", is_recording)?;
    if let Some(live) = dom.root.query_selector("[data-act=live]")? {
        live.set_text_content(Some(if is_recording { "Follow" } else { "Live" }));
    }
    Ok(())
}
