//! What the reader does: buttons, pointer, keyboard. Changes the state of the
//! view and the address; drawing follows.

use wasm_bindgen::prelude::*;
use web_sys::{Element, HtmlInputElement, HtmlSelectElement};

use super::time::{Scene, show_brush};
use super::{Page, save};
use crate::state::{Sort, Unit, ViewState};

/// A drag shorter than this is a click, pixels.
const SHORTEST_DRAG_PX: f64 = 6.0;

impl Page {
    /// Does what a button says. Says whether the page is to be drawn anew.
    ///
    /// # Errors
    /// The browser's.
    pub fn act(&mut self, act: &str) -> Result<(), JsValue> {
        let (verb, object) = act.split_once(':').unwrap_or((act, ""));
        match verb {
            "event" => self.state.event = object.to_owned(),
            "component" => self.state.component = object.to_owned(),
            "fold" => self.state.toggle_fold(object),
            "live" => self.state.go_live(),
            "pause" => self.state.toggle_pause(js_sys::Date::now()),
            "span" => {
                self.state.span_ms = object.parse().unwrap_or(5.0) * 60_000.0;
            }
            "unit" => {
                let unit = Unit::ALL.iter().find(|(_, name)| *name == object);
                self.state.unit = unit.map_or(self.state.unit, |(unit, _)| *unit);
            }
            "sort" => {
                let sort = Sort::ALL.iter().find(|(_, name)| *name == object);
                self.state.sort = sort.map_or(self.state.sort, |(sort, _)| *sort);
            }
            "flame" => self.state.flame = !self.state.flame,
            "zoom" => self.state.zoom.truncate(object.parse().unwrap_or(0)),
            "save" => return self.save(object),
            _ => return Ok(()),
        }
        self.write_address()
    }

    /// Puts the state into the address, so that it can be copied from there.
    fn write_address(&self) -> Result<(), JsValue> {
        let fragment = self.state.to_fragment();
        let location = self.dom.window.location();
        let url = format!("{}{}#{fragment}", location.pathname()?, location.search()?);
        self.dom
            .window
            .history()?
            .replace_state_with_url(&JsValue::NULL, "", Some(url.as_str()))
    }

    /// Takes the state from the address, which the reader has changed.
    ///
    /// # Errors
    /// The browser's.
    pub fn read_address(&mut self) -> Result<(), JsValue> {
        self.state = ViewState::from_fragment(&self.dom.window.location().hash()?);
        self.show_state()
    }

    /// Puts the state into the fields that the reader writes to, and begins
    /// with the section that the address names.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn show_state(&self) -> Result<(), JsValue> {
        let filter: HtmlInputElement = self.dom.typed("filter")?;
        filter.set_value(&self.state.filter);
        let find: HtmlInputElement = self.dom.typed("find")?;
        find.set_value(&self.state.find);
        if let Ok(section) = self.dom.element(&self.state.view) {
            section.scroll_into_view();
        }
        Ok(())
    }

    /// A field has another value.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn change(&mut self, target: &Element) -> Result<(), JsValue> {
        match target.id().as_str() {
            "filter" => {
                let field: &HtmlInputElement = target.unchecked_ref();
                self.state.filter = field.value();
            }
            "find" => {
                let field: &HtmlInputElement = target.unchecked_ref();
                self.state.find = field.value();
            }
            "component" => {
                let field: &HtmlSelectElement = target.unchecked_ref();
                self.state.component = field.value();
            }
            _ => return Ok(()),
        }
        self.write_address()
    }

    /// The pointer (or the keyboard, by what it has reached) is over something.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn hover(&mut self, target: &Element, (x, y): (f64, f64)) -> Result<(), JsValue> {
        let plot = target.closest("[data-plot]")?;
        let mut segment = None;
        self.cursor_ms = None;
        let mut heat_y = None;
        let mut flame_at = None;
        if let Some(plot) = &plot {
            let place = plot.get_bounding_client_rect();
            let (inner_x, inner_y) = (x - place.left(), y - place.top());
            match plot.id().as_str() {
                "chart" => segment = self.now.at(inner_x, inner_y),
                "flames" => flame_at = Some((inner_x, inner_y)),
                id => self.cursor_ms = self.ms_at(id, inner_x),
            }
            if plot.id() == "heat" {
                heat_y = Some(inner_y);
            }
            if let Some((id, from_x, _)) = &self.brush
                && *id == plot.id()
            {
                show_brush(plot, Some((*from_x, inner_x)))?;
            }
        } else if let Some(entry) = target.closest("[data-bar][data-ratio]")? {
            let number = entry.get_attribute("data-bar").and_then(|n| n.parse().ok());
            let key = entry.get_attribute("data-key").unwrap_or_default();
            segment = Some((number.unwrap_or(1_usize) - 1, key));
        }
        self.now.hover(&self.dom, segment, (x, y))?;
        let Some((info, _, latest)) = self.scene_parts() else {
            return Ok(());
        };
        self.now.show_tip(&self.dom, info, latest)?;
        match (flame_at, &self.info) {
            (Some(at), Some(info)) => {
                self.dom.place_tip((x, y))?;
                self.flame.hover(&self.dom, info, at)?;
            }
            _ => self.flame.leave(&self.dom)?,
        }
        self.draw_cursors(heat_y)
    }

    fn ms_at(&self, id: &str, x: f64) -> Option<f64> {
        match self.charts.iter().find(|chart| chart.id == id) {
            Some(chart) => chart.ms_at(x),
            None => self.heat.ms_at(x),
        }
    }

    fn draw_cursors(&mut self, heat_y: Option<f64>) -> Result<(), JsValue> {
        let latest = self.frozen.as_ref().or(self.latest.as_ref());
        let (Some(info), Some(history), Some(latest)) = (&self.info, &self.history, latest) else {
            return Ok(());
        };
        let scene = Scene {
            dom: &self.dom,
            info,
            history,
            state: &self.state,
            cpus: latest.cpus.len(),
            cursor_ms: self.cursor_ms,
        };
        for chart in &mut self.charts {
            chart.draw_cursor(&scene)?;
        }
        self.heat.draw_cursor(&scene, heat_y)
    }

    /// The pointer is pressed.
    ///
    /// # Errors
    /// The browser's.
    pub fn press(&mut self, target: &Element, x: f64) -> Result<(), JsValue> {
        let Some(plot) = target.closest("[data-plot=\"time\"]")? else {
            return Ok(());
        };
        let inner_x = x - plot.get_bounding_client_rect().left();
        if let Some(ms) = self.ms_at(&plot.id(), inner_x) {
            self.brush = Some((plot.id(), inner_x, ms));
        }
        Ok(())
    }

    /// The pointer is let go; what it was dragged over becomes the stretch shown.
    /// Over a bar, a click descends into the part under it.
    ///
    /// # Errors
    /// The browser's.
    pub fn release(&mut self, target: &Element, (x, y): (f64, f64)) -> Result<(), JsValue> {
        if let Some((id, from_x, from_ms)) = self.brush.take() {
            let plot = self.dom.element(&id)?;
            show_brush(&plot, None)?;
            let inner_x = x - plot.get_bounding_client_rect().left();
            if (inner_x - from_x).abs() >= SHORTEST_DRAG_PX
                && let Some(to_ms) = self.ms_at(&id, inner_x)
            {
                self.state.zoom_to(from_ms, to_ms);
                return self.write_address();
            }
            return Ok(());
        }
        if let Some(plot) = target.closest("#flames")? {
            let place = plot.get_bounding_client_rect();
            if let Some(path) = self.flame.path_at(x - place.left(), y - place.top()) {
                self.state.zoom = path;
                return self.write_address();
            }
        }
        if let Some(plot) = target.closest("#chart")? {
            let place = plot.get_bounding_client_rect();
            match self.now.at(x - place.left(), y - place.top()) {
                Some((1, key)) if key != crate::bars::REST => {
                    return self.act(&format!("event:{key}"));
                }
                Some((2, key)) => return self.act(&format!("component:{key}")),
                _ => {}
            }
        }
        Ok(())
    }

    /// A key is pressed; says whether it meant something here.
    ///
    /// # Errors
    /// The browser's.
    pub fn key(&mut self, target: &Element, key: &str) -> Result<bool, JsValue> {
        if target.closest("input, select, textarea")?.is_some() {
            return Ok(false);
        }
        if target.closest("#flames")?.is_some() && self.flame_key(key)? {
            return Ok(true);
        }
        let plot = target.closest("[data-plot=\"time\"]")?;
        let on_button = target.closest("button, a, summary")?.is_some();
        match key {
            "p" | " " if !on_button => self.act("pause")?,
            "Escape" if self.now_is_hovered()? => {
                self.now.hover(&self.dom, None, (0.0, 0.0))?;
            }
            "Escape" | "l" if !on_button => self.act("live")?,
            "1" | "5" => self.act(&format!("span:{key}"))?,
            "ArrowLeft" | "ArrowRight" if plot.is_some() => {
                let step = if key == "ArrowLeft" { -1.0 } else { 1.0 };
                if let Some(frame) = self.charts.iter().find_map(|chart| chart.frame()) {
                    let from = self
                        .cursor_ms
                        .unwrap_or(frame.to_ms() - frame.step_ms / 2.0);
                    let to = from + step * frame.step_ms;
                    let (first, last) = (frame.from_ms, frame.to_ms() - frame.step_ms / 2.0);
                    self.cursor_ms = Some(to.clamp(first + frame.step_ms / 2.0, last));
                    self.draw_cursors(None)?;
                }
            }
            "+" | "-" if plot.is_some() => {
                if let Some(frame) = self.charts.iter().find_map(|chart| chart.frame()) {
                    let middle = self.cursor_ms.unwrap_or(frame.to_ms());
                    let half = self.state.span_ms * if key == "+" { 0.25 } else { 1.0 };
                    self.state.zoom_to(middle - half, middle + half);
                    self.write_address()?;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A key is pressed in the flame graph; says whether it meant something there.
    fn flame_key(&mut self, key: &str) -> Result<bool, JsValue> {
        match key {
            "ArrowUp" | "ArrowDown" | "ArrowLeft" | "ArrowRight" => {
                if let Some(info) = &self.info {
                    self.flame.step(&self.dom, info, key)?;
                }
            }
            "Enter" => {
                if let Some(path) = self.flame.marked_path() {
                    self.state.zoom = path;
                    self.write_address()?;
                }
            }
            "Escape" | "Home" if !self.state.zoom.is_empty() => {
                self.state.zoom.clear();
                self.write_address()?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn now_is_hovered(&self) -> Result<bool, JsValue> {
        Ok(!self.dom.element("tip")?.has_attribute("hidden"))
    }

    fn save(&self, what: &str) -> Result<(), JsValue> {
        let Some((info, _, latest)) = self.scene_parts() else {
            return Ok(());
        };
        save::save(
            &save::Shown {
                dom: &self.dom,
                info,
                latest,
                now: &self.now,
                charts: &self.charts,
                heat: &self.heat,
                flame: &self.flame,
            },
            what,
        )
    }
}
