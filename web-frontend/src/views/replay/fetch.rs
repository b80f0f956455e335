//! Requests to the daemon that control the playback of a recording.

use std::rc::{Rc, Weak};

use js_sys::Reflect;
use wasm_bindgen::prelude::*;
use web_sys::{RequestInit, Response, Window};

use super::model::{Overview, PlaybackMode, PlaybackState};
use crate::page::dom::error_message;

/// Relative, as the page's own address may have a path of its own.
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
pub struct ReplayClient {
    window: Window,
    on_head: Closure<dyn FnMut(JsValue)>,
    on_json: Closure<dyn FnMut(JsValue)>,
    on_failure: Closure<dyn FnMut(JsValue)>,
}

impl ReplayClient {
    /// Creates the callbacks once, so that requests leave nothing behind.
    pub fn new(window: Window, done: impl Fn(ReplayAnswer) + 'static) -> Rc<ReplayClient> {
        let done = Rc::new(done);
        Rc::new_cyclic(|weak: &Weak<ReplayClient>| {
            let (own, failed) = (weak.clone(), done.clone());
            let on_head = Closure::new(move |response: JsValue| {
                if let Some(client) = own.upgrade()
                    && let Err(error) = client.take_head(&response.unchecked_into())
                {
                    failed(ReplayAnswer::Failed(error_message(&error)));
                }
            });
            let told = done.clone();
            let on_json = Closure::new(move |json: JsValue| {
                let lost = || ReplayAnswer::Failed("it plays no recording any more".to_owned());
                told(read(&json).unwrap_or_else(lost));
            });
            let on_failure = Closure::new(move |error: JsValue| {
                done(ReplayAnswer::Failed(error_message(&error)))
            });
            ReplayClient {
                window,
                on_head,
                on_json,
                on_failure,
            }
        })
    }

    /// Asks for the state of the playback.
    pub fn look(&self) {
        self.send(PLAYBACK, "GET");
    }

    /// Asks for its overview.
    pub fn overview(&self) {
        self.send(OVERVIEW, "GET");
    }

    /// Sends a command, as a query.
    pub fn ask(&self, command: &str) {
        self.send(&format!("{PLAYBACK}?{command}"), "POST");
    }

    fn send(&self, address: &str, method: &str) {
        let options = RequestInit::new();
        options.set_method(method);
        let asked = self.window.fetch_with_str_and_init(address, &options);
        let _ = asked.then2(&self.on_head, &self.on_failure);
    }

    /// Reads the body as JSON; that of a refusal is none, which fails.
    fn take_head(&self, response: &Response) -> Result<(), JsValue> {
        let _ = response.json()?.then2(&self.on_json, &self.on_failure);
        Ok(())
    }
}

fn read(json: &JsValue) -> Option<ReplayAnswer> {
    let value = |key: &str| Reflect::get(json, &key.into()).ok();
    let number = |key: &str| value(key)?.as_f64();
    let list = |key: &str| -> Option<Vec<Option<f64>>> {
        let list: js_sys::Array = value(key)?.dyn_into().ok()?;
        Some(list.iter().map(|item| item.as_f64()).collect())
    };
    if let Some(state) = value("state").and_then(|state| state.as_string()) {
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
        mean: list("mean_ratio")?,
        peak: list("peak_ratio")?,
        time_ms: list("time_unix_ms")?,
    }))
}
