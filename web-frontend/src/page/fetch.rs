//! Requests to the daemon whose answers are JSON or bytes, and what is read of such an answer.

use std::cell::Cell;
use std::rc::{Rc, Weak};

use js_sys::{Array, Reflect};
use wasm_bindgen::prelude::*;
use web_sys::{RequestInit, Response, Window};

use super::dom::error_message;

/// What an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// An object.
    Json,
    /// An `ArrayBuffer`.
    Bytes,
}

/// Sends requests and passes the answers on.
pub struct Client {
    window: Window,
    body: Body,
    on_head: Closure<dyn FnMut(JsValue)>,
    on_body: Closure<dyn FnMut(JsValue)>,
    on_refusal: Closure<dyn FnMut(JsValue)>,
    on_failure: Closure<dyn FnMut(JsValue)>,
}

impl Client {
    /// Creates the callbacks once, so that requests leave nothing behind. `done` gets the answer, or why there
    /// is none.
    pub fn new(
        window: Window,
        body: Body,
        done: impl Fn(Result<JsValue, String>) + 'static,
    ) -> Rc<Self> {
        let done = Rc::new(done);
        Rc::new_cyclic(|weak: &Weak<Client>| {
            let (weak_client, failed) = (weak.clone(), done.clone());
            let on_head = Closure::new(move |response: JsValue| {
                if let Some(client) = weak_client.upgrade()
                    && let Err(error) = client.take_head(&response.unchecked_into())
                {
                    failed(Err(error_message(&error)));
                }
            });
            let (succeeded, refused) = (done.clone(), done.clone());
            let on_body = Closure::new(move |body: JsValue| succeeded(Ok(body)));
            let on_refusal = Closure::new(move |text: JsValue| {
                refused(Err(text.as_string().unwrap_or_default()));
            });
            let on_failure = Closure::new(move |error: JsValue| done(Err(error_message(&error))));
            Client {
                window,
                body,
                on_head,
                on_body,
                on_refusal,
                on_failure,
            }
        })
    }

    /// Asks an address, which is relative, as the page's own may have a path of its own.
    pub fn send(&self, address: &str, method: &str) {
        let options = RequestInit::new();
        options.set_method(method);
        let asked = self.window.fetch_with_str_and_init(address, &options);
        let _ = asked.then2(&self.on_head, &self.on_failure);
    }

    /// Reads the body; that of a refusal is a text.
    fn take_head(&self, response: &Response) -> Result<(), JsValue> {
        let _ = match self.body {
            _ if !response.ok() => response.text()?.then2(&self.on_refusal, &self.on_failure),
            Body::Json => response.json()?.then2(&self.on_body, &self.on_failure),
            Body::Bytes => response
                .array_buffer()?
                .then2(&self.on_body, &self.on_failure),
        };
        Ok(())
    }
}

/// Time between two requests for the same, milliseconds.
const EVERY_MS: f64 = 3_000.0;

/// An answer that is asked for again and again, while the daemon sends intervals: one that is gone is not
/// asked.
pub struct Polled {
    client: Rc<Client>,
    address: &'static str,
    /// The newest answer, until somebody takes it.
    inbox: Rc<Cell<Option<JsValue>>>,
    /// Whether it is asked for.
    pub is_wanted: bool,
    /// When it was asked for last.
    asked_ms: f64,
    /// One at a time, so that a daemon that is slow is not asked ever more.
    is_under_way: Rc<Cell<bool>>,
}

impl Polled {
    /// Nothing is asked for before somebody wants it.
    pub fn new(window: &Window, redraw: &Rc<dyn Fn()>, address: &'static str) -> Self {
        let inbox: Rc<Cell<Option<JsValue>>> = Rc::default();
        let is_under_way: Rc<Cell<bool>> = Rc::default();
        let (arrived, redraw, ended) = (inbox.clone(), redraw.clone(), is_under_way.clone());
        let client = Client::new(window.clone(), Body::Json, move |answer| {
            ended.set(false);
            // Without an answer, what is known stays.
            if let Ok(json) = answer {
                arrived.set(Some(json));
                redraw();
            }
        });
        Polled {
            client,
            address,
            inbox,
            is_wanted: false,
            asked_ms: 0.0,
            is_under_way,
        }
    }

    /// Asks if it is time; called with each interval.
    pub fn receive(&mut self) {
        let now_ms = js_sys::Date::now();
        let is_due = now_ms - self.asked_ms >= EVERY_MS;
        if self.is_wanted && is_due && !self.is_under_way.replace(true) {
            self.asked_ms = now_ms;
            self.client.send(self.address, "GET");
        }
    }

    /// The newest answer, once.
    pub fn take(&self) -> Option<Json> {
        self.inbox.take().map(Json)
    }
}

/// An object of an answer.
pub struct Json(pub JsValue);

impl Json {
    /// The object with this key; undefined if there is none.
    pub fn at(&self, key: &str) -> Json {
        Json(Reflect::get(&self.0, &key.into()).unwrap_or_default())
    }

    /// The text with this key.
    pub fn text(&self, key: &str) -> Option<String> {
        self.at(key).0.as_string()
    }

    /// The number with this key.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.at(key).0.as_f64()
    }

    /// The list with this key; empty if there is none.
    pub fn list(&self, key: &str) -> Vec<Json> {
        let list = self.at(key).0.dyn_into::<Array>().unwrap_or_default();
        list.iter().map(Json).collect()
    }
}
