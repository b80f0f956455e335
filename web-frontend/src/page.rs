//! The document: takes the daemon's messages and brings the page up to date
//! with the least that has to change. The only module that touches the DOM.

use metrics_common::codec::ServerMessage;
use metrics_common::snapshot::{Info, Snapshot};
use wasm_bindgen::prelude::*;
use web_sys::{Document, Element, Node, Window};

use crate::bars::{self, Bar};
use crate::link::{Link, LinkState};
use crate::plot::{self, Theme};
use crate::view_model::{self, Tally};
use crate::{legend, panels, table};

/// The event whose parts the third bar shows.
const FOCUS: &str = "rx_softirq";
/// Below this width of the chart, in pixels, it is drawn lower.
const NARROW_PX: u32 = 560;

/// A place in the document whose text changes, with what it says now.
struct LiveText {
    holder: Element,
    text: Node,
    shown: String,
}

impl LiveText {
    /// `text_in` is the element inside `holder` that carries the text.
    fn new(holder: Element, text_in: &Element) -> Self {
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

    fn show(&mut self, text: String) {
        if self.shown != text {
            self.text.set_node_value(Some(&text));
            self.shown = text;
        }
    }
}

/// A cell of the table, with the attributes that it has now.
struct LiveCell {
    text: LiveText,
    ns: Option<u128>,
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

/// Everything that the page holds on to.
pub struct Page {
    window: Window,
    document: Document,
    root: Element,
    /// The connection as the page sees it.
    pub link: Link,
    info: Option<Info>,
    latest: Option<Snapshot>,
    tally: Tally,
    table: Option<table::Layout>,
    cells: Vec<LiveCell>,
    legend: legend::Layout,
    entries: Vec<LiveText>,
}

impl Page {
    /// Finds its place in the document.
    ///
    /// # Errors
    /// If this is not netto's page.
    pub fn new(window: Window) -> Result<Self, JsValue> {
        let document = window.document().ok_or("there is no document")?;
        let root = document
            .get_element_by_id("netto")
            .ok_or("the page has no #netto")?;
        Ok(Page {
            window,
            document,
            root,
            link: Link::new(js_sys::Date::now()),
            info: None,
            latest: None,
            tally: Tally::default(),
            table: None,
            cells: Vec::new(),
            legend: Vec::new(),
            entries: Vec::new(),
        })
    }

    /// Takes a message; drawing is for later.
    pub fn take(&mut self, message: ServerMessage) {
        self.link.heard(&message, js_sys::Date::now());
        match message {
            ServerMessage::Hello(info) => {
                self.tally.meet(&info);
                self.info = Some(*info);
                self.latest = None;
                self.table = None;
            }
            ServerMessage::Snapshot(snapshot) => {
                self.tally.add(&snapshot);
                self.latest = Some(*snapshot);
            }
            ServerMessage::Bye(_) => {}
        }
    }

    /// Whether the open connection should be given up.
    pub fn is_silent(&self) -> bool {
        let period_ms = self.info.as_ref().map_or(0, |info| info.user_period_ms);
        self.link.is_silent(js_sys::Date::now(), period_ms)
    }

    /// Brings the document up to date.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn draw(&mut self) -> Result<(), JsValue> {
        if let Some(info) = self.info.take() {
            let drawn = self.draw_info(&info).and_then(|()| self.draw_latest(&info));
            self.info = Some(info);
            drawn?;
        }
        self.draw_link()
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
        self.set_text("link", &word)?;
        let banner = self.element("banner")?;
        if banner.text_content().as_deref() != Some(alarm.as_deref().unwrap_or("")) {
            banner.set_text_content(alarm.as_deref());
            banner.toggle_attribute_with_force("hidden", alarm.is_none())?;
        }
        set_attribute(&self.root, "data-state", state.name())
    }

    /// What only changes with the daemon.
    fn draw_info(&mut self, info: &Info) -> Result<(), JsValue> {
        if self.table.is_some() || self.latest.is_none() {
            return Ok(());
        }
        self.set_text("host", &info.hostname)?;
        self.set_text("kernel", &format!("Linux {}", info.kernel))?;
        self.set_text("version", &format!("netto {}", info.version))?;
        self.set_list("notes", &panels::notes_html(info))?;
        self.set_list("missing", &panels::missing_html(info))
    }

    fn draw_latest(&mut self, info: &Info) -> Result<(), JsValue> {
        let Some(snapshot) = self.latest.take() else {
            return Ok(());
        };
        let drawn = self.draw_snapshot(info, &snapshot);
        self.latest = Some(snapshot);
        drawn
    }

    fn draw_snapshot(&mut self, info: &Info, snapshot: &Snapshot) -> Result<(), JsValue> {
        let share = match view_model::headline(info, snapshot) {
            Some(headline) => {
                let share = format!("{} %", headline.host_percent);
                let bound = if headline.at_least { "at least " } else { "" };
                self.set_text("bound", bound)?;
                self.set_text("share", &share)?;
                let cpus = snapshot.cpus.len();
                let worth = format!("{} CPUs' worth, of {cpus} CPUs", headline.cpus);
                self.set_text("cpus", &worth)?;
                let power = headline
                    .power
                    .map_or(String::new(), |watts| format!("≈ {watts}"));
                self.set_text("power", &power)?;
                share
            }
            None => {
                for id in ["bound", "cpus", "power"] {
                    self.set_text(id, "")?;
                }
                self.set_text("share", "unavailable")?;
                "unavailable".to_owned()
            }
        };
        self.document
            .set_title(&format!("{share} networking · {} · netto", info.hostname));

        let bars = bars::bars(info, snapshot, FOCUS);
        self.draw_chart(&bars)?;
        self.draw_legend(&bars)?;
        self.draw_table(info, snapshot)?;
        let status = view_model::status(info, snapshot, &self.tally);
        self.element("status")?
            .set_inner_html(&panels::status_html(&status));
        // Last, so that who reads it reads values of this interval.
        set_attribute(&self.root, "data-sequence", &snapshot.sequence.to_string())
    }

    fn draw_chart(&self, bars: &[Bar; 3]) -> Result<(), JsValue> {
        let chart = self.element("chart")?;
        let width = chart.client_width().clamp(240, 4000) as u32;
        let height = if width < NARROW_PX { 280 } else { 340 };
        let dark = self
            .window
            .match_media("(prefers-color-scheme: dark)")?
            .is_some_and(|query| query.matches());
        let theme = if dark { Theme::DARK } else { Theme::LIGHT };
        let svg = plot::svg(bars, theme, (width, height))
            .map_err(|error| JsValue::from(error.to_string()))?;
        chart.set_inner_html(&svg);
        Ok(())
    }

    fn draw_legend(&mut self, bars: &[Bar; 3]) -> Result<(), JsValue> {
        let list = self.element("legend")?;
        let layout = legend::layout(bars);
        if layout != self.legend {
            list.set_inner_html(&legend::html(bars));
            self.entries = all(&list, "[data-ratio]")?
                .into_iter()
                .map(|entry| {
                    let value = entry.query_selector(".value")?.ok_or("no .value")?;
                    Ok(LiveText::new(entry, &value))
                })
                .collect::<Result<_, JsValue>>()?;
            self.legend = layout;
        }
        for (live, entry) in self.entries.iter_mut().zip(legend::entries(bars)) {
            set_attribute(&live.holder, "data-ratio", &entry.ratio.to_string())?;
            live.show(entry.text);
        }
        for (number, bar) in (1..).zip(bars) {
            for (name, text) in [
                ("data-bar-subtitle", Some(bar.subtitle.as_str())),
                ("data-bar-note", bar.note.as_deref()),
            ] {
                if let Some(element) = list.query_selector(&format!("[{name}=\"{number}\"]"))? {
                    element.set_text_content(text);
                }
            }
        }
        Ok(())
    }

    fn draw_table(&mut self, info: &Info, snapshot: &Snapshot) -> Result<(), JsValue> {
        let layout = match self.table.take() {
            Some(layout) if layout.fits(info, snapshot) => layout,
            _ => {
                let layout = table::Layout::of(info, snapshot);
                let holder = self.element("table")?;
                holder.set_inner_html(&layout.html(info));
                self.cells = all(&holder, "[data-ns]")?
                    .into_iter()
                    .map(|cell| LiveCell {
                        text: LiveText::new(cell.clone(), &cell),
                        ns: None,
                        level: None,
                    })
                    .collect();
                layout
            }
        };
        let cells = layout.cells(snapshot, &self.tally);
        for (live, cell) in self.cells.iter_mut().zip(cells) {
            live.show(cell)?;
        }
        self.table = Some(layout);
        Ok(())
    }

    fn element(&self, id: &str) -> Result<Element, JsValue> {
        self.document
            .get_element_by_id(id)
            .ok_or_else(|| format!("the page has no #{id}").into())
    }

    fn set_text(&self, id: &str, text: &str) -> Result<(), JsValue> {
        let element = self.element(id)?;
        if element.text_content().as_deref() != Some(text) {
            element.set_text_content(Some(text));
        }
        Ok(())
    }

    /// Fills a list and shows the section around it only if there is something in it.
    fn set_list(&self, id: &str, html: &str) -> Result<(), JsValue> {
        let list = self.element(id)?;
        list.set_inner_html(html);
        if let Some(section) = list.closest("section")? {
            section.toggle_attribute_with_force("hidden", html.is_empty())?;
        }
        Ok(())
    }
}

fn set_attribute(element: &Element, name: &str, value: &str) -> Result<(), JsValue> {
    if element.get_attribute(name).as_deref() != Some(value) {
        element.set_attribute(name, value)?;
    }
    Ok(())
}

fn all(within: &Element, selector: &str) -> Result<Vec<Element>, JsValue> {
    let found = within.query_selector_all(selector)?;
    (0..found.length())
        .filter_map(|index| found.item(index))
        .map(|node| node.dyn_into::<Element>().map_err(JsValue::from))
        .collect()
}
