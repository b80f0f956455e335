//! Requests to the daemon that control the playback of a recording.

use std::rc::Rc;

use wasm_bindgen::prelude::*;
use web_sys::Window;

use super::model::{Overview, PlaybackMode, PlaybackState};
use crate::page::fetch::{Body, Client, Json};

const PLAYBACK: &str = "api/v1/replay";
const OVERVIEW: &str = "api/v1/replay/course";

/// What the daemon answers.
pub enum ReplayAnswer {
    /// The state of the playback.
    PlaybackState(PlaybackState),
    /// Its overview.
    Overview(Overview),
    /// The request failed, for this reason.
    Failed(String),
}

/// Sends requests and passes the answers on.
pub struct ReplayClient(Rc<Client>);

impl ReplayClient {
    /// A client that calls back with each answer.
    pub fn new(window: Window, done: impl Fn(ReplayAnswer) + 'static) -> ReplayClient {
        ReplayClient(Client::new(window, Body::Json, move |answer| {
            let lost = || ReplayAnswer::Failed("it plays no recording any more".to_owned());
            done(match answer {
                Ok(json) => read(json).unwrap_or_else(lost),
                Err(error) => ReplayAnswer::Failed(error),
            });
        }))
    }

    /// Asks for the state of the playback.
    pub fn look(&self) {
        self.0.send(PLAYBACK, "GET");
    }

    /// Asks for its overview.
    pub fn overview(&self) {
        self.0.send(OVERVIEW, "GET");
    }

    /// Sends a command, as a query.
    pub fn ask(&self, command: &str) {
        self.0.send(&format!("{PLAYBACK}?{command}"), "POST");
    }
}

fn read(json: JsValue) -> Option<ReplayAnswer> {
    let json = Json(json);
    let number = |key: &str| json.number(key);
    let list = |key: &str| -> Vec<Option<f64>> {
        let items = json.list(key).into_iter();
        items.map(|item| item.0.as_f64()).collect()
    };
    if let Some(state) = json.text("state") {
        return Some(ReplayAnswer::PlaybackState(PlaybackState {
            begin_ms: number("begin_unix_ms")?,
            end_ms: number("end_unix_ms")?,
            position_ms: number("position_unix_ms")?,
            mode: PlaybackMode::named(&state)?,
            speed: number("speed")?,
        }));
    }
    Some(ReplayAnswer::Overview(Overview {
        begin_ms: number("begin_unix_ms")?,
        step_ms: number("step_ms")?,
        mean: list("mean_ratio"),
        peak: list("peak_ratio"),
        time_ms: list("time_unix_ms"),
    }))
}
