//! Handles buttons, pointer and keyboard: changes the choices and the page's address. The next
//! drawing shows the result. Views handle their own events.

use wasm_bindgen::prelude::*;
use web_sys::{Element, HtmlElement, HtmlInputElement, HtmlSelectElement};

use super::Page;
use super::marks::show_brush;
use super::save;
use crate::action::Action;
use crate::state::{Address, Keys};
use crate::timeline::Frame;
use crate::view::{Pointer, Reply};
use crate::view_info::Pages;

/// A drag shorter than this is a click, pixels.
const SHORTEST_DRAG_PX: f64 = 6.0;

impl Page {
    /// Performs an action.
    ///
    /// # Errors
    /// The browser's.
    pub fn act(&mut self, action: Action) -> Result<(), JsValue> {
        // What it describes may be another thing now.
        self.drop_tip()?;
        match action {
            Action::Event(slug) => self.shared.choose_event(slug),
            // On a component's page, switch to the page of the other component.
            Action::Component(slug) if self.shared.about.is_empty() => self.shared.component = slug,
            Action::About(slug) | Action::Component(slug) => {
                for (_, view) in &mut self.views {
                    view.act(&Action::About(slug.clone()));
                }
                self.shared.about = slug;
            }
            Action::Overview => self.shared.about.clear(),
            Action::Live => self.shared.range.go_live(),
            Action::Pause => self.shared.range.toggle_pause(self.now_ms()),
            Action::Span(minutes) => self.shared.range.span_ms = f64::from(minutes) * 60_000.0,
            Action::OfRange => self.shared.is_of_range = !self.shared.is_of_range,
            Action::Basis(basis) => self.shared.basis = basis,
            Action::Keys => self.shared.has_no_shortcuts = !self.shared.has_no_shortcuts,
            Action::Hide(view) => self.shared.toggle_hidden(&view),
            Action::Jump(view) => {
                self.shared.about.clear();
                self.shared.hidden.retain(|hidden| *hidden != view);
                self.switch.jump = Some(view);
            }
            Action::Save(what, format) => {
                let file = self.with_scene(|views, _, scene| {
                    for (_, view) in views {
                        if let Some(file) = view.file(scene, &what, format)? {
                            return save::give(
                                scene.dom,
                                &scene.info.hostname,
                                &what,
                                format,
                                file,
                            );
                        }
                    }
                    Ok(())
                });
                return file.map(|_| ());
            }
            Action::Play | Action::Speed(_) => {
                for (_, view) in &mut self.views {
                    view.act(&action);
                }
                return Ok(());
            }
            Action::Unit(_)
            | Action::Sort(_)
            | Action::Fold(_)
            | Action::Zeros(_)
            | Action::Flame
            | Action::Owner(_)
            | Action::OwnersBy(_)
            | Action::Zoom(_) => {
                for (_, view) in &mut self.views {
                    if let Reply::Changed = view.act(&action) {
                        break;
                    }
                }
            }
        }
        self.write_address()
    }

    /// Performs a view's reply; returns whether the view handled the event.
    fn heed(&mut self, reply: Reply) -> Result<bool, JsValue> {
        match reply {
            Reply::Ignored => return Ok(false),
            Reply::Done => {}
            Reply::Changed => self.write_address()?,
            Reply::Act(action) => self.act(action)?,
        }
        Ok(true)
    }

    /// Writes the state to the page's address, which can then be copied.
    fn write_address(&self) -> Result<(), JsValue> {
        let mut address = Address::default();
        self.shared.write(&mut address);
        for (_, view) in &self.views {
            view.write(&mut address);
        }
        let location = self.dom.window.location();
        let (path, search) = (location.pathname()?, location.search()?);
        let url = format!("{path}{search}#{}", address.text());
        let history = self.dom.window.history()?;
        // The browser's back button leads to the previous page.
        if self.shared.about != self.switch.shown {
            return history.push_state_with_url(&JsValue::NULL, "", Some(url.as_str()));
        }
        history.replace_state_with_url(&JsValue::NULL, "", Some(url.as_str()))
    }

    /// Handles a field's new value.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn change(&mut self, target: &Element) -> Result<(), JsValue> {
        let value = match target.dyn_ref::<HtmlSelectElement>() {
            Some(select) => select.value(),
            None => target.unchecked_ref::<HtmlInputElement>().value(),
        };
        let id = target.id();
        for at in 0..self.views.len() {
            let reply = self.views[at].1.change(&id, &value);
            if self.heed(reply)? {
                break;
            }
        }
        Ok(())
    }

    /// Handles the pointer (or the focus) moving over an element.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn hover(&mut self, target: &Element, place: (f64, f64)) -> Result<(), JsValue> {
        let plot = target.closest("[data-plot]")?;
        let plot = plot.as_ref().map(|plot| (plot, inner(plot, place)));
        let pointer = Pointer {
            target,
            plot,
            place,
        };
        self.cursor_ms = plot.and_then(|(plot, (x, _))| self.ms_at(&plot.id(), x));
        if let (Some((plot, (x, _))), Some((id, from_x, _))) = (plot, &self.brush)
            && *id == plot.id()
        {
            show_brush(plot, Some((*from_x, x)))?;
        }
        let has_tip = self.with_scene(|views, _, scene| {
            let mut has_tip = false;
            for (_, view) in views.iter_mut() {
                if has_tip || !view.hover(scene, &pointer)? {
                    view.leave(scene.dom)?;
                } else {
                    has_tip = true;
                }
                view.draw_cursor(scene, Some(&pointer))?;
            }
            Ok(has_tip)
        })?;
        if has_tip == Some(true) {
            return self.dom.tie_tip(target);
        }
        self.dom.set_hidden("tip", true)
    }

    fn ms_at(&self, plot: &str, x: f64) -> Option<f64> {
        self.views.iter().find_map(|(_, view)| view.ms_at(plot, x))
    }

    fn draw_cursors(&mut self) -> Result<(), JsValue> {
        self.with_scene(|views, _, scene| {
            views
                .iter_mut()
                .try_for_each(|(_, view)| view.draw_cursor(scene, None))
        })
        .map(|_| ())
    }

    /// The pointer is pressed.
    ///
    /// # Errors
    /// The browser's.
    pub fn press(&mut self, target: &Element, place: (f64, f64)) -> Result<(), JsValue> {
        let Some(plot) = target.closest("[data-plot=\"time\"]")? else {
            return Ok(());
        };
        let (x, _) = inner(&plot, place);
        if let Some(ms) = self.ms_at(&plot.id(), x) {
            self.brush = Some((plot.id(), x, ms));
        }
        Ok(())
    }

    /// Handles the release of the pointer: selects the time span it was dragged over, or else
    /// handles a click.
    ///
    /// # Errors
    /// The browser's.
    pub fn release(&mut self, target: &Element, place: (f64, f64)) -> Result<(), JsValue> {
        if let Some((id, from_x, from_ms)) = self.brush.take() {
            let plot = self.dom.element(&id)?;
            show_brush(&plot, None)?;
            let (x, _) = inner(&plot, place);
            if (x - from_x).abs() >= SHORTEST_DRAG_PX
                && let Some(to_ms) = self.ms_at(&id, x)
            {
                self.shared.range.zoom_to(from_ms, to_ms);
                return self.write_address();
            }
            return Ok(());
        }
        let Some(plot) = target.closest("[data-plot]")? else {
            return Ok(());
        };
        let pointer = Pointer {
            target,
            plot: Some((&plot, inner(&plot, place))),
            place,
        };
        for at in 0..self.views.len() {
            let reply = self.views[at].1.click(&pointer);
            if self.heed(reply)? {
                break;
            }
        }
        Ok(())
    }

    /// Handles a key; returns whether it had a meaning here.
    ///
    /// # Errors
    /// The browser's.
    pub fn key(&mut self, target: &Element, key: &str) -> Result<bool, JsValue> {
        if target.closest("input, select, textarea")?.is_some() {
            return Ok(false);
        }
        let reply = self.with_scene(|views, _, scene| {
            for (_, view) in views {
                match view.key(scene, target, key)? {
                    Reply::Ignored => {}
                    meant => return Ok(meant),
                }
            }
            Ok(Reply::Ignored)
        })?;
        if self.heed(reply.unwrap_or(Reply::Ignored))? {
            return Ok(true);
        }
        let in_plot = target.closest("[data-plot=\"time\"]")?.is_some();
        let on_button = target.closest("button, a, summary")?.is_some();
        let is_heard = in_plot || !self.shared.has_no_shortcuts;
        match key {
            _ if !is_heard && key != "Escape" => return Ok(false),
            "Escape"
                if self
                    .dom
                    .root
                    .query_selector(":popover-open")
                    .is_ok_and(|popover| popover.is_some()) =>
            {
                return Ok(false);
            }
            "?" => self.dom.typed::<HtmlElement>("keys-button")?.click(),
            "p" | " " if !on_button => self.act(Action::Pause)?,
            // Where it would do no more than that.
            "Escape" if self.has_tip()? && self.shared.range.until_ms().is_none() => {
                self.drop_tip()?;
            }
            "Escape" if !self.shared.about.is_empty() => self.act(Action::Overview)?,
            "Escape" | "l" if !on_button => self.act(Action::Live)?,
            "1" => self.act(Action::Span(1))?,
            "5" => self.act(Action::Span(5))?,
            "ArrowLeft" if in_plot => self.step_cursor(-1.0)?,
            "ArrowRight" if in_plot => self.step_cursor(1.0)?,
            "+" if in_plot => self.zoom(0.25)?,
            "-" if in_plot => self.zoom(1.0)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn has_tip(&self) -> Result<bool, JsValue> {
        Ok(!self.dom.element("tip")?.has_attribute("hidden"))
    }

    /// Removes the tip: the pointer has left, or what was under it has changed.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    pub fn drop_tip(&mut self) -> Result<(), JsValue> {
        for (_, view) in &mut self.views {
            view.leave(&self.dom)?;
        }
        self.dom.set_hidden("tip", true)
    }

    /// The time span of the charts on this page.
    fn frame(&self) -> Option<Frame> {
        let is_overview = self.shared.about.is_empty();
        let views = self.views.iter();
        let mut there = views.filter(|(info, _)| info.pages != Pages::Component || !is_overview);
        there.find_map(|(_, view)| view.frame())
    }

    /// Moves the cursor by this many steps of the charts.
    fn step_cursor(&mut self, steps: f64) -> Result<(), JsValue> {
        let Some(frame) = self.frame() else {
            return Ok(());
        };
        let half = frame.step_ms / 2.0;
        let from = self.cursor_ms.unwrap_or(frame.to_ms() - half);
        let to = from + steps * frame.step_ms;
        self.cursor_ms = Some(to.clamp(frame.from_ms + half, frame.to_ms() - half));
        self.draw_cursors()
    }

    /// Zooms to the span around the cursor, this share of the length to either side.
    fn zoom(&mut self, share: f64) -> Result<(), JsValue> {
        let Some(frame) = self.frame() else {
            return Ok(());
        };
        let middle = self.cursor_ms.unwrap_or(frame.to_ms());
        let half = self.shared.range.span_ms * share;
        self.shared.range.zoom_to(middle - half, middle + half);
        self.write_address()
    }
}

/// Converts a position in the window to one in a plot.
fn inner(plot: &Element, (x, y): (f64, f64)) -> (f64, f64) {
    let bounds = plot.get_bounding_client_rect();
    (x - bounds.left(), y - bounds.top())
}
