//! The three bars and their lists in the document.

use std::rc::Rc;

use metrics_common::{Info, Snapshot};
use wasm_bindgen::prelude::*;
use web_sys::Window;

use super::draw;
use super::legend;
use super::model::{self, Bar, REST};
use super::tip;
use crate::action::{Action, Format};
use crate::page::dom::{Dom, LiveText, action_of, all, set_attribute, set_text};
use crate::page::save::File;
use crate::state::{Keys, Shared};
use crate::view::{Pointer, Reply, Scene, View};

/// Width of the chart below which it is drawn lower, pixels.
const NARROW_PX: u32 = 560;

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(Now::default())
}

/// The state of the bars in the document.
#[derive(Default)]
struct Now {
    bars: Option<[Bar; 3]>,
    size: (u32, u32),
    layout: legend::Layout,
    entries: Vec<LiveText>,
    /// Whether the parts without time are listed, for each bar.
    shows_zeros: [bool; 3],
    /// Under the pointer or the keyboard: number of the bar and key of the segment.
    hovered: Option<(usize, String)>,
}

impl Keys for Now {}

impl View for Now {
    fn measured(&self) -> &'static [&'static str] {
        &["chart"]
    }

    fn act(&mut self, action: &Action) -> Reply {
        let Action::Zeros(number) = action else {
            return Reply::Ignored;
        };
        if let Some(shows) = self.shows_zeros.get_mut(number.wrapping_sub(1)) {
            *shows = !*shows;
        }
        Reply::Done
    }

    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let Scene { dom, info, .. } = *scene;
        let window = scene.window(scene.shown);
        dom.set_text("now-window", &window)?;
        let (event, basis) = (scene.shared.event(), scene.shared.basis);
        let bars = model::bars(info, scene.shown, event, basis);
        let sentence = model::sentence(info, scene.shown, event, basis);
        dom.set_text("now-basis", &sentence)?;
        let width = dom.extent("chart").width.clamp(240, 4000);
        self.size = (width, if width < NARROW_PX { 280 } else { 264 });
        let svg = draw::svg(&bars, dom.theme(), self.size)
            .map_err(|error| JsValue::from(error.to_string()))?;
        dom.set_html("#chart", svg)?;
        self.draw_legend(dom, &bars, scene.shared)?;
        self.bars = Some(bars);
        self.show_tip(dom, info, scene.shown)
    }

    fn hover(&mut self, scene: &Scene, pointer: &Pointer) -> Result<bool, JsValue> {
        self.hovered = match pointer.plot {
            Some(_) => pointer.within("chart").and_then(|place| self.at(place)),
            None => entry_at(pointer)?,
        };
        if self.hovered.is_none() {
            return Ok(false);
        }
        scene.dom.place_tip(pointer.place)?;
        self.show_tip(scene.dom, scene.info, scene.shown)?;
        Ok(true)
    }

    fn leave(&mut self, _: &Dom) -> Result<(), JsValue> {
        self.hovered = None;
        Ok(())
    }

    /// A click on a part of a bar shows its parts.
    fn click(&mut self, pointer: &Pointer) -> Reply {
        match pointer.within("chart").and_then(|place| self.at(place)) {
            Some((1, key)) if key != REST => Reply::Act(Action::Event(key)),
            Some((2, key)) => Reply::Act(Action::About(key)),
            _ => Reply::Ignored,
        }
    }

    fn file(&self, scene: &Scene, what: &str, format: Format) -> Result<Option<File>, JsValue> {
        let (Some(bars), "now", Format::Svg | Format::Png) = (&self.bars, what, format) else {
            return Ok(None);
        };
        let svg = draw::svg(bars, scene.dom.theme(), self.size);
        Ok(svg.ok().map(File::Drawing))
    }
}

/// The entry of a list that the pointer or the keyboard is at: number of the bar and key.
fn entry_at(pointer: &Pointer) -> Result<Option<(usize, String)>, JsValue> {
    let Some(entry) = pointer.target.closest("[data-bar][data-ratio]")? else {
        return Ok(None);
    };
    let number = entry.get_attribute("data-bar").and_then(|n| n.parse().ok());
    let key = entry.get_attribute("data-key").unwrap_or_default();
    Ok(Some((number.unwrap_or(1_usize).saturating_sub(1), key)))
}

impl Now {
    fn draw_legend(&mut self, dom: &Dom, bars: &[Bar; 3], shared: &Shared) -> Result<(), JsValue> {
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
            let Some(Action::Event(slug)) = action_of(&button) else {
                continue;
            };
            let chosen = slug == shared.event();
            set_attribute(
                &button,
                "aria-pressed",
                if chosen { "true" } else { "false" },
            )?;
        }
        for (number, bar) in (1..).zip(bars) {
            let shows = self.shows_zeros[number - 1];
            let zeros = legend::zeros_text(bar, shows);
            if let Some(button) = list.query_selector(&format!("[data-bar-zeros=\"{number}\"]"))? {
                button.toggle_attribute_with_force("hidden", zeros.is_none())?;
                set_text(&button, zeros.as_deref().unwrap_or_default());
                set_attribute(
                    &button,
                    "aria-expanded",
                    if shows { "true" } else { "false" },
                )?;
                let is_folded = zeros.is_some() && !shows;
                if let Some(section) = button.parent_element() {
                    section.toggle_attribute_with_force("data-folded", is_folded)?;
                }
            }
            for (name, text) in [
                ("data-bar-subtitle", bar.subtitle.as_str()),
                ("data-bar-note", bar.note.as_deref().unwrap_or_default()),
            ] {
                if let Some(element) = list.query_selector(&format!("[{name}=\"{number}\"]"))? {
                    set_text(&element, text);
                }
            }
        }
        Ok(())
    }

    /// The segment at a place in the drawing: number of the bar and its key.
    fn at(&self, place: (f64, f64)) -> Option<(usize, String)> {
        let bars = self.bars.as_ref()?;
        let (bar, segment) = draw::hit(bars, self.size, place)?;
        Some((bar, bars[bar].segments[segment].key.clone()))
    }

    /// Updates the tip to the interval.
    fn show_tip(&self, dom: &Dom, info: &Info, snapshot: &Snapshot) -> Result<(), JsValue> {
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
