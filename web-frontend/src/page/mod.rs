//! The document: takes the daemon's messages and the reader's wishes, and brings
//! the page up to date with the least that has to change. Only what is below
//! this folder touches the DOM.

mod act;
mod dom;
mod flame;
mod heat;
mod now;
mod save;
mod table;
mod time;

use metrics_common::codec::ServerMessage;
use metrics_common::history::History;
use metrics_common::snapshot::{Info, Snapshot};
use wasm_bindgen::prelude::*;
use web_sys::Window;

use self::dom::{Dom, all, set_attribute};
use self::flame::FlameGraph;
use self::heat::HeatMap;
use self::now::Now;
use self::table::Table;
use self::time::{Scene, TimeChart};
use crate::flame::Answer;
use crate::link::{Link, LinkState};
use crate::panels;
use crate::state::{Sort, Unit, ViewState, WINDOW_MINUTES};
use crate::view_model::{self, Tally};

/// Everything that the page holds on to.
pub struct Page {
    dom: Dom,
    /// The connection as the page sees it.
    pub link: Link,
    info: Option<Info>,
    latest: Option<Snapshot>,
    /// What is shown while the page stands still.
    frozen: Option<Snapshot>,
    history: Option<History>,
    tally: Tally,
    state: ViewState,
    now: Now,
    charts: [TimeChart; 2],
    heat: HeatMap,
    table: Table,
    flame: FlameGraph,
    cursor_ms: Option<f64>,
    /// Where a stretch is being chosen: id of the plot, first pixel and moment.
    brush: Option<(String, f64, f64)>,
    introduced: bool,
}

impl Page {
    /// Finds its place in the document.
    ///
    /// # Errors
    /// If this is not netto's page.
    pub fn new(window: Window) -> Result<Self, JsValue> {
        let state = ViewState::from_fragment(&window.location().hash()?);
        Ok(Page {
            dom: Dom::new(window)?,
            link: Link::new(js_sys::Date::now()),
            info: None,
            latest: None,
            frozen: None,
            history: None,
            tally: Tally::default(),
            state,
            now: Now::default(),
            charts: [TimeChart::new("events"), TimeChart::new("parts")],
            heat: HeatMap::default(),
            table: Table::default(),
            flame: FlameGraph::default(),
            cursor_ms: None,
            brush: None,
            introduced: false,
        })
    }

    /// Takes a message; drawing is for later.
    pub fn take(&mut self, message: ServerMessage) {
        self.link.heard(&message, js_sys::Date::now());
        match message {
            ServerMessage::Hello(info) => {
                self.tally.meet(&info);
                let known = self.info.as_ref().zip(self.history.take());
                self.history = Some(view_model::go_on(known, &info));
                self.info = Some(*info);
                self.introduced = false;
                self.table.forget();
            }
            ServerMessage::History(message) => match History::from_message(&message) {
                Ok(mut history) => {
                    if let Some(old) = self.history.take() {
                        history.continue_from(old);
                    }
                    self.history = Some(history);
                }
                Err(error) => {
                    web_sys::console::error_1(&format!("netto: the past: {error}").into())
                }
            },
            ServerMessage::Snapshot(snapshot) => {
                self.tally.add(&snapshot);
                if let Some(history) = &mut self.history {
                    history.push(&snapshot);
                }
                self.latest = Some(*snapshot);
            }
            ServerMessage::Bye(_) | ServerMessage::Gap(_) => {}
        }
    }

    /// Whether the open connection should be given up.
    pub fn is_silent(&self) -> bool {
        let period_ms = self.info.as_ref().map_or(0, |info| info.user_period_ms);
        self.link.is_silent(js_sys::Date::now(), period_ms)
    }

    /// Whether the daemon should be asked for its flame graph now.
    pub fn asks_for_flames(&mut self) -> bool {
        let now_ms = js_sys::Date::now();
        *self.link.state() == LinkState::Live && self.flame.ask(&self.dom, &self.state, now_ms)
    }

    /// Takes the answer; drawing is for later.
    pub fn take_flames(&mut self, answer: Result<Answer, String>) {
        self.flame.take(answer, self.state.paused);
    }

    /// Brings the document up to date.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn draw(&mut self) -> Result<(), JsValue> {
        self.dom.measure();
        self.draw_link()?;
        self.draw_controls()?;
        let (Some(info), Some(latest), Some(history)) = (&self.info, &self.latest, &self.history)
        else {
            return Ok(());
        };
        if !std::mem::replace(&mut self.introduced, true) {
            introduce(&self.dom, info)?;
        }
        if !self.state.paused {
            self.frozen = None;
        } else if self.frozen.is_none() {
            self.frozen = Some(latest.clone());
        }
        let dom = &self.dom;
        let shown = self.frozen.as_ref().unwrap_or(latest);
        self.now.headline(dom, info, latest, history)?;
        // What is out of sight rests, but is never empty: a search finds it.
        if self.now.is_empty() || dom.is_in_sight("now") {
            self.now.draw(dom, info, shown, &self.state)?;
        }
        let scene = Scene {
            dom,
            info,
            history,
            state: &self.state,
            cpus: shown.cpus.len(),
            cursor_ms: self.cursor_ms,
        };
        for chart in &mut self.charts {
            if chart.chart().is_none() || dom.is_in_sight(chart.id) {
                chart.draw(&scene)?;
            }
        }
        if self.heat.map().is_none() || dom.is_in_sight("percpu") {
            self.heat.draw(&scene)?;
        }
        if self.table.is_empty() || dom.is_in_sight("components") {
            self.table.draw(dom, info, shown, &self.state)?;
        }
        self.flame.draw(dom, info, &self.state)?;
        let status = view_model::status(info, latest, &self.tally);
        let html = panels::status_html(&status);
        let list = dom.element("status")?;
        if list.inner_html() != html {
            list.set_inner_html(&html);
        }
        // Last, so that who reads it reads values of this interval.
        set_attribute(&dom.root, "data-sequence", &shown.sequence.to_string())
    }

    fn draw_link(&self) -> Result<(), JsValue> {
        let state = self.link.state();
        let (word, alarm) = match state {
            LinkState::Connecting => ("connecting…".to_owned(), None),
            LinkState::Live => ("live".to_owned(), None),
            LinkState::Lost { reason } => (
                "connection lost".to_owned(),
                Some(match self.info {
                    Some(_) => {
                        format!("Connection lost: {reason}. Trying again; the values are old.")
                    }
                    None => format!("No connection: {reason}. Trying again."),
                }),
            ),
        };
        let alarm = alarm
            .or_else(|| view_model::version_note(self.info.as_ref()?, env!("CARGO_PKG_VERSION")));
        self.dom.set_text("link", &word)?;
        let banner = self.dom.element("banner")?;
        if banner.text_content().as_deref() != Some(alarm.as_deref().unwrap_or("")) {
            banner.set_text_content(alarm.as_deref());
            banner.toggle_attribute_with_force("hidden", alarm.is_none())?;
        }
        set_attribute(&self.dom.root, "data-state", state.name())
    }

    /// Shows which of the choices are taken.
    fn draw_controls(&self) -> Result<(), JsValue> {
        let state = &self.state;
        let named = |key: &str, on: bool| (key.to_owned(), on);
        let mut taken = vec![
            named("pause", state.paused),
            named("live", state.until_ms.is_none()),
        ];
        for minutes in WINDOW_MINUTES {
            let on = (state.span_ms - f64::from(minutes) * 60_000.0).abs() < 1.0;
            taken.push(named(&format!("span:{minutes}"), on));
        }
        for (unit, name) in Unit::ALL {
            taken.push(named(&format!("unit:{name}"), unit == state.unit));
        }
        for (sort, name) in Sort::ALL {
            taken.push(named(&format!("sort:{name}"), sort == state.sort));
        }
        for button in all(&self.dom.root, "[data-choice]")? {
            let act = button.get_attribute("data-act").unwrap_or_default();
            let on = taken.iter().any(|(key, on)| *key == act && *on);
            set_attribute(&button, "aria-pressed", if on { "true" } else { "false" })?;
        }
        let mode = match (state.paused, state.until_ms) {
            (true, _) => "paused",
            (false, Some(_)) => "zoomed",
            (false, None) => "live",
        };
        set_attribute(&self.dom.root, "data-mode", mode)
    }

    fn scene_parts(&self) -> Option<(&Info, &History, &Snapshot)> {
        let latest = self.frozen.as_ref().or(self.latest.as_ref())?;
        Some((self.info.as_ref()?, self.history.as_ref()?, latest))
    }
}

/// What only changes with the daemon.
fn introduce(dom: &Dom, info: &Info) -> Result<(), JsValue> {
    dom.set_text("host", &info.hostname)?;
    dom.set_text("kernel", &format!("Linux {}", info.kernel))?;
    dom.set_text("version", &format!("netto {}", info.version))?;
    dom.set_hidden("demo", !info.is_demonstration())?;
    dom.set_list("notes", &panels::notes_html(info))?;
    dom.set_list("missing", &panels::missing_html(info))
}
