//! The playback of a recording in the document. It asks the daemon how the recording stands once a
//! second, since another viewer may have changed that, and after everything that it asks for.

use std::cell::RefCell;
use std::rc::Rc;

use metrics_common::Info;
use wasm_bindgen::prelude::*;
use web_sys::{Element, HtmlInputElement, Window};

use super::fetch::{ReplayAnswer, ReplayClient};
use super::model::{self, Overview, PlaybackMode, PlaybackState};
use crate::action::Action;
use crate::format;
use crate::page::dom::{Dom, set_attribute};
use crate::state::Keys;
use crate::view::{Reply, Scene, View};

/// The view, before anything is shown.
pub fn start(window: &Window, redraw: &Rc<dyn Fn()>) -> Box<dyn View> {
    let inbox: Rc<RefCell<Vec<ReplayAnswer>>> = Rc::default();
    let (arrived, redraw) = (inbox.clone(), redraw.clone());
    let client = ReplayClient::new(window.clone(), move |answer| {
        arrived.borrow_mut().push(answer);
        redraw();
    });
    Box::new(Replay {
        client,
        inbox,
        is_there: false,
        playback: None,
        overview: None,
        failure: None,
        under_way: 0,
        wanted_ms: None,
        is_stale: false,
    })
}

/// What of the playback is in the document.
struct Replay {
    client: ReplayClient,
    /// The daemon's answers, until the next drawing takes them.
    inbox: Rc<RefCell<Vec<ReplayAnswer>>>,
    is_there: bool,
    playback: Option<PlaybackState>,
    overview: Option<Overview>,
    failure: Option<String>,
    /// Questions without an answer.
    under_way: usize,
    /// Where the reader has moved the slider since the last question.
    wanted_ms: Option<f64>,
    /// Whether the overview is not drawn yet.
    is_stale: bool,
}

impl Keys for Replay {}

impl View for Replay {
    fn meet(&mut self, dom: &Dom, info: &Info) -> Result<(), JsValue> {
        // A report is of a recording too, but nobody plays it.
        self.is_there = info.is_recording() && !dom.root.has_attribute("data-standalone");
        dom.set_hidden("replay", !self.is_there)?;
        if self.is_there {
            dom.set_text("replay-what", &model::title(info))?;
            self.ask(ReplayClient::look);
            self.ask(ReplayClient::overview);
        }
        Ok(())
    }

    fn every_second(&mut self) {
        // One at a time, so that a daemon that is slow is not asked ever more.
        if self.is_there && self.under_way == 0 {
            self.ask(ReplayClient::look);
        }
    }

    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        if !self.is_there {
            return Ok(());
        }
        self.take_answers();
        let dom = scene.dom;
        let (Some(playback), Some(overview)) = (&self.playback, &self.overview) else {
            return dom.set_text("replay-state", self.failure.as_deref().unwrap_or(""));
        };
        if std::mem::take(&mut self.is_stale) {
            dom.element("replay-course")?
                .set_inner_html(&overview.svg(playback));
            let slider = dom.element("replay-slider")?;
            set_attribute(&slider, "min", &playback.begin_ms.to_string())?;
            set_attribute(&slider, "max", &playback.end_ms.to_string())?;
            let offset_ms = dom.clock_offset_ms();
            let end = |ms: f64| moment(overview.time_at(ms), offset_ms);
            dom.set_text("replay-begin", &end(playback.begin_ms))?;
            dom.set_text("replay-end", &end(playback.end_ms))?;
        }
        self.show_place(
            dom,
            playback,
            overview,
            scene.latest.time_unix_ns as f64 / 1e6,
        )?;
        dom.set_text("replay-play", model::button(playback.mode))?;
        let state = match &self.failure {
            Some(failure) => failure.as_str(),
            None => model::state_text(playback.mode),
        };
        dom.set_text("replay-state", state)
    }

    fn has_taken(&self, action: &Action) -> Option<bool> {
        match action {
            Action::Speed(times) => {
                let playback = self.playback.as_ref()?;
                Some((playback.speed - f64::from(*times)).abs() < 1e-9)
            }
            _ => None,
        }
    }

    fn act(&mut self, action: &Action) -> Reply {
        match action {
            Action::Play => self.toggle(),
            Action::Speed(times) => self.command(&format!("speed={times}")),
            _ => return Reply::Ignored,
        }
        Reply::Done
    }

    fn change(&mut self, id: &str, value: &str) -> Reply {
        let Some(ms) = format::parse_decimal(value).filter(|_| id == "replay-slider") else {
            return Reply::Ignored;
        };
        self.wanted_ms = Some(ms);
        // While the daemon looks for one place, the reader goes on to the next.
        if self.under_way == 0 {
            self.seek();
        }
        Reply::Act(Action::Live)
    }

    fn key(&mut self, _: &Scene, target: &Element, key: &str) -> Result<Reply, JsValue> {
        let on_button = target.closest("button, a, summary")?.is_some();
        if !self.is_there || on_button || !matches!(key, " " | "p") {
            return Ok(Reply::Ignored);
        }
        self.toggle();
        Ok(Reply::Done)
    }
}

impl Replay {
    fn ask(&mut self, question: impl FnOnce(&ReplayClient)) {
        self.under_way += 1;
        question(&self.client);
    }

    fn command(&mut self, command: &str) {
        self.ask(|client| client.ask(command));
    }

    fn toggle(&mut self) {
        let playing =
            self.playback.as_ref().map(|playback| playback.mode) == Some(PlaybackMode::Playing);
        self.command(&format!("playing={}", !playing));
    }

    fn seek(&mut self) {
        if let Some(ms) = self.wanted_ms.take() {
            self.command(&format!("seek_unix_ms={:.0}", ms.max(0.0)));
        }
    }

    fn take_answers(&mut self) {
        for answer in self.inbox.take() {
            self.under_way = self.under_way.saturating_sub(1);
            match answer {
                ReplayAnswer::PlaybackState(playback) => {
                    self.failure = None;
                    self.is_stale |= self.playback.is_none();
                    self.playback = Some(playback);
                }
                ReplayAnswer::Overview(overview) => {
                    self.overview = Some(overview);
                    self.is_stale = true;
                }
                ReplayAnswer::Failed(cause) => {
                    self.failure = Some(format!("cannot ask the daemon: {cause}"));
                }
            }
        }
        if self.under_way == 0 {
            self.seek();
        }
    }

    /// Puts the slider where the recording is, unless the reader is moving it.
    fn show_place(
        &self,
        dom: &Dom,
        playback: &PlaybackState,
        overview: &Overview,
        latest_ms: f64,
    ) -> Result<(), JsValue> {
        let offset_ms = dom.clock_offset_ms();
        // The newest interval is ahead of the last answer while it plays.
        let is_next = latest_ms >= playback.position_ms && latest_ms <= playback.end_ms;
        let (at_ms, time_ms) = match self.wanted_ms {
            Some(ms) => (ms, overview.time_at(ms)),
            None if playback.mode == PlaybackMode::Playing && is_next => (latest_ms, latest_ms),
            None => (playback.position_ms, overview.time_at(playback.position_ms)),
        };
        let text = moment(time_ms, offset_ms);
        dom.set_text("replay-time", &text)?;
        let slider: HtmlInputElement = dom.typed("replay-slider")?;
        set_attribute(&slider, "aria-valuetext", &text)?;
        if self.wanted_ms.is_none() && self.under_way == 0 {
            slider.set_value_as_number(at_ms);
        }
        Ok(())
    }
}

/// Day and time on the reader's clock: `2026-11-22 09:24:33`.
fn moment(unix_ms: f64, offset_ms: f64) -> String {
    let local_ms = unix_ms + offset_ms;
    // Beyond, there are no dates.
    if !(0.0..8.64e15).contains(&local_ms) {
        return format!("{:.0} s", unix_ms / 1e3);
    }
    let text = String::from(js_sys::Date::new(&local_ms.into()).to_iso_string());
    text.get(..19).unwrap_or(&text).replace('T', " ")
}
