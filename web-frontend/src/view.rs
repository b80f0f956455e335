//! The interface between the page and its views.

use metrics_common::history::History;
use metrics_common::{Info, Snapshot};
use wasm_bindgen::prelude::*;
use web_sys::Element;

use crate::action::{Action, Format};
use crate::axes::LEFT_PX;
use crate::format;
use crate::page::dom::Dom;
use crate::page::save::File;
use crate::recent::ShownTime;
use crate::state::{Keys, Shared};
use crate::timeline::{self, Frame, Mark, Times};

/// Width of a step, pixels, and the most steps: a chart is drawn again with every step, and finer
/// ones would cost more than they show.
const STEP_PX: u32 = 3;
const MOST_STEPS: u32 = 320;

/// The data that a view draws.
pub struct Scene<'a> {
    /// The document.
    pub dom: &'a Dom,
    /// The daemon's description.
    pub info: &'a Info,
    /// The past.
    pub history: &'a History,
    /// The newest interval.
    pub latest: &'a Snapshot,
    /// The time that every view shows, as one interval: the last seconds ([`crate::recent`]), those before the
    /// page was paused, or the selected time.
    pub shown: &'a Snapshot,
    /// What time that is.
    pub time: ShownTime,
    /// The reader's choices for all views.
    pub shared: &'a Shared,
    /// The time at the pointer, milliseconds since the Unix epoch.
    pub cursor_ms: Option<f64>,
    /// Whether the daemon can be queried now.
    pub is_live: bool,
    /// The spans that views mark.
    pub marks: Vec<Mark>,
}

impl Scene<'_> {
    /// The time span for a drawing of this width.
    pub fn frame(&self, width_px: u32, least_ms: f64) -> Frame {
        let latest_ms = match self.history.points() {
            0 => 0.0,
            points => self.history.point_ms(points - 1).1,
        };
        let most = (width_px.saturating_sub(LEFT_PX as u32) / STEP_PX).clamp(20, MOST_STEPS);
        Frame::of(self.shared.range, latest_ms, least_ms, most as usize)
    }

    /// The time of these values: `over the last 12 s`, or `14:05:10 to 14:05:22`.
    pub fn window(&self, values: &Snapshot) -> String {
        let end_ms = values.time_unix_ns as f64 / 1e6;
        let length_ms = values.interval_ns as f64 / 1e6;
        match self.time {
            ShownTime::Now => format::window(values.interval_ns),
            ShownTime::Report => format!("over {}", format::length(values.interval_ns)),
            ShownTime::Selected | ShownTime::Paused | ShownTime::Stale => {
                let offset_ms = self.dom.clock_offset_ms();
                let [from, to] =
                    [end_ms - length_ms, end_ms].map(|ms| timeline::clock(ms, offset_ms, true));
                format!("{from} to {to}")
            }
        }
    }

    /// What a time axis tells.
    pub fn times(&self) -> Times {
        Times {
            offset_ms: self.dom.clock_offset_ms(),
            marks: self.marks.clone(),
        }
    }

    /// The clock time at which the shown time ends.
    pub fn end_clock(&self) -> String {
        let end_ms = self.shown.time_unix_ns as f64 / 1e6;
        timeline::clock(end_ms, self.dom.clock_offset_ms(), true)
    }

    /// Number of CPUs of the host.
    pub fn cpus(&self) -> usize {
        self.shown.cpus.len()
    }
}

/// The position of the pointer, or the focused element.
pub struct Pointer<'a> {
    /// The element under it.
    pub target: &'a Element,
    /// The plot around it, and the position in the plot, pixels.
    pub plot: Option<(&'a Element, (f64, f64))>,
    /// The position in the window, pixels.
    pub place: (f64, f64),
}

impl Pointer<'_> {
    /// The position in the plot with this id, pixels; `None` if it is elsewhere.
    pub fn within(&self, id: &str) -> Option<(f64, f64)> {
        self.plot
            .filter(|(plot, _)| plot.id() == id)
            .map(|(_, place)| place)
    }
}

/// A view's answer to an event.
pub enum Reply {
    /// The event is not for this view.
    Ignored,
    /// The view has handled it; no choice has changed.
    Done,
    /// A choice of the view's own has changed.
    Changed,
    /// The page has to perform this action.
    Act(Action),
}

/// A view of the page; see [`crate::views`] for its parts.
pub trait View: Keys {
    /// Ids of the elements whose position and size its drawing depends on.
    fn measured(&self) -> &'static [&'static str] {
        &[]
    }

    /// Takes a new or changed description of the daemon.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    fn meet(&mut self, _: &Dom, _: &Info) -> Result<(), JsValue> {
        Ok(())
    }

    /// Takes a snapshot; not every snapshot is drawn.
    fn receive(&mut self, _: &Snapshot) {}

    /// Runs about once a second.
    fn every_second(&mut self) {}

    /// Writes its choices into input fields.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    fn show_choices(&self, _: &Dom) -> Result<(), JsValue> {
        Ok(())
    }

    /// Whether the action's choice is the current one; `None` if it is not a choice of this view.
    fn has_taken(&self, _: &Action) -> Option<bool> {
        None
    }

    /// Updates its part of the document.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue>;

    /// Moves the cursor to the time at the pointer.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    fn draw_cursor(&mut self, _: &Scene, _: Option<&Pointer>) -> Result<(), JsValue> {
        Ok(())
    }

    /// Describes the element at the pointer; returns whether the tip was filled.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    fn hover(&mut self, _: &Scene, _: &Pointer) -> Result<bool, JsValue> {
        Ok(false)
    }

    /// Removes marks that are visible only with the tip.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    fn leave(&mut self, _: &Dom) -> Result<(), JsValue> {
        Ok(())
    }

    /// The time at a pixel of one of its plots; `None` for other plots.
    fn ms_at(&self, _plot: &str, _x: f64) -> Option<f64> {
        None
    }

    /// The spans that it marks in all plots over time.
    fn marks(&self) -> &[Mark] {
        &[]
    }

    /// The time span for moving the cursor by keyboard.
    fn frame(&self) -> Option<Frame> {
        None
    }

    /// Performs an action of this view.
    fn act(&mut self, _: &Action) -> Reply {
        Reply::Ignored
    }

    /// Takes the new value of the field with this id.
    fn change(&mut self, _id: &str, _value: &str) -> Reply {
        Reply::Ignored
    }

    /// Handles a click in one of its drawings.
    fn click(&mut self, _: &Pointer) -> Reply {
        Reply::Ignored
    }

    /// Handles a key that was pressed in this element.
    ///
    /// # Errors
    /// If the markup is not what this code was built with.
    fn key(&mut self, _: &Scene, _: &Element, _key: &str) -> Result<Reply, JsValue> {
        Ok(Reply::Ignored)
    }

    /// The file of this name in this format, if the view offers it.
    ///
    /// # Errors
    /// The browser's.
    fn file(&self, _: &Scene, _what: &str, _: Format) -> Result<Option<File>, JsValue> {
        Ok(None)
    }
}
