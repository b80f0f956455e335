//! The headline and the three bars in the document.

use metrics_common::history::History;
use metrics_common::snapshot::{Info, Snapshot};
use wasm_bindgen::prelude::*;

use super::dom::{Dom, LiveText, all, set_attribute};
use crate::bars::{self, Bar, Rgb};
use crate::charts::{self, Trend};
use crate::plot;
use crate::state::ViewState;
use crate::view_model::{self, index_of};
use crate::{areas, format, legend, tip};

/// Below this width of the chart, in pixels, it is drawn lower.
const NARROW_PX: u32 = 560;

/// What of the bars is in the document.
#[derive(Default)]
pub struct Now {
    bars: Option<[Bar; 3]>,
    size: (u32, u32),
    layout: legend::Layout,
    entries: Vec<LiveText>,
    spark: String,
    /// Under the pointer or the keyboard: number of the bar and key of the segment.
    hovered: Option<(usize, String)>,
}

impl Now {
    /// Whether nothing is shown yet.
    pub fn is_empty(&self) -> bool {
        self.bars.is_none()
    }

    /// Says what the interval is about.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn headline(
        &mut self,
        dom: &Dom,
        info: &Info,
        snapshot: &Snapshot,
        history: &History,
    ) -> Result<(), JsValue> {
        let share = match view_model::headline(info, snapshot) {
            Some(headline) => {
                let share = format!("{} %", headline.host_percent);
                let bound = if headline.at_least { "at least " } else { "" };
                dom.set_text("bound", bound)?;
                dom.set_text("share", &share)?;
                let cpus = snapshot.cpus.len();
                let worth = format!("{} CPUs' worth, of {cpus} CPUs", headline.cpus);
                dom.set_text("cpus", &worth)?;
                let power = headline.power.map_or(String::new(), |w| format!("≈ {w}"));
                dom.set_text("power", &power)?;
                share
            }
            None => {
                for id in ["bound", "cpus", "power"] {
                    dom.set_text(id, "")?;
                }
                dom.set_text("share", "unavailable")?;
                "unavailable".to_owned()
            }
        };
        dom.document()
            .set_title(&format!("{share} networking · {} · netto", info.hostname));
        let trend = charts::trend(info, history, snapshot.cpus.len());
        self.trend(dom, info, &trend)
    }

    fn trend(&mut self, dom: &Dom, info: &Info, trend: &Trend) -> Result<(), JsValue> {
        let change = trend.change.map_or(String::new(), charts::change_text);
        dom.set_text("change", &change)?;
        let leader = |leader: &Option<(String, f64)>| match leader {
            Some((label, share)) => format!("{label} {} %", format::percent(*share)),
            None => String::new(),
        };
        dom.set_text("lead-event", &leader(&trend.event))?;
        dom.set_text("lead-part", &leader(&trend.part))?;
        dom.set_hidden("leads", trend.event.is_none())?;
        let color = index_of(info, view_model::HEADLINE).map_or(Rgb(0x80, 0x80, 0x80), |i| {
            Rgb::parse(&info.components[i].color)
        });
        let svg = areas::sparkline(&trend.course, color, (180, 40))
            .map_err(|error| JsValue::from(error.to_string()))?;
        if svg != self.spark {
            dom.element("spark")?.set_inner_html(&svg);
            self.spark = svg;
        }
        Ok(())
    }

    /// Draws the bars of an interval, and their legends.
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
        let bars = bars::bars(info, snapshot, &state.event);
        let chart = dom.element("chart")?;
        let width = dom.extent("chart").width.clamp(240, 4000);
        self.size = (width, if width < NARROW_PX { 280 } else { 340 });
        let svg = plot::svg(&bars, dom.theme(), self.size)
            .map_err(|error| JsValue::from(error.to_string()))?;
        chart.set_inner_html(&svg);
        self.draw_legend(dom, &bars, state)?;
        self.bars = Some(bars);
        self.show_tip(dom, info, snapshot)
    }

    /// The bars as they are now, as a drawing.
    pub fn svg(&self, dom: &Dom) -> Option<String> {
        plot::svg(self.bars.as_ref()?, dom.theme(), self.size).ok()
    }

    fn draw_legend(
        &mut self,
        dom: &Dom,
        bars: &[Bar; 3],
        state: &ViewState,
    ) -> Result<(), JsValue> {
        let list = dom.element("legend")?;
        let layout = legend::layout(bars);
        if layout != self.layout {
            list.set_inner_html(&legend::html(bars));
            self.entries = all(&list, "[data-ratio]")?
                .into_iter()
                .map(|entry| {
                    let value = entry.query_selector(".value")?.ok_or("no .value")?;
                    Ok(LiveText::new(entry, &value))
                })
                .collect::<Result<_, JsValue>>()?;
            self.layout = layout;
        }
        for (live, entry) in self.entries.iter_mut().zip(legend::entries(bars)) {
            set_attribute(&live.holder, "data-ratio", &entry.ratio.to_string())?;
            live.show(entry.text);
        }
        for button in all(&list, "[data-act]")? {
            let act = button.get_attribute("data-act").unwrap_or_default();
            let chosen = act == format!("event:{}", state.event)
                || act == format!("component:{}", state.component);
            set_attribute(
                &button,
                "aria-pressed",
                if chosen { "true" } else { "false" },
            )?;
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

    /// The segment at a place in the drawing: number of the bar and its key.
    pub fn at(&self, x: f64, y: f64) -> Option<(usize, String)> {
        let bars = self.bars.as_ref()?;
        let (bar, segment) = plot::hit(bars, self.size, (x, y))?;
        Some((bar, bars[bar].segments[segment].key.clone()))
    }

    /// Points at a segment, or at none.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn hover(
        &mut self,
        dom: &Dom,
        segment: Option<(usize, String)>,
        place: (f64, f64),
    ) -> Result<(), JsValue> {
        self.hovered = segment;
        let tip = dom.element("tip")?;
        if self.hovered.is_none() {
            tip.toggle_attribute_with_force("hidden", true)?;
            return Ok(());
        }
        dom.place_tip(place)
    }

    /// Brings the tip up to date with the interval.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn show_tip(&self, dom: &Dom, info: &Info, snapshot: &Snapshot) -> Result<(), JsValue> {
        let (Some(bars), Some((number, key))) = (&self.bars, &self.hovered) else {
            return Ok(());
        };
        let bar = &bars[(*number).min(2)];
        let segment = bar.segments.iter().find(|segment| segment.key == *key);
        let tip = dom.element("tip")?;
        if let Some(segment) = segment {
            tip.set_inner_html(&tip::html(info, snapshot, bar, segment));
        }
        tip.toggle_attribute_with_force("hidden", segment.is_none())?;
        Ok(())
    }
}
