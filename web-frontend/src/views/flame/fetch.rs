//! Requests the flame graph from the daemon, one request at a time. `model` interprets the answer.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use wasm_bindgen::prelude::*;
use web_sys::{Response, Window};

use super::model::FlameResponse;
use crate::format;
use crate::page::dom::error_message;

/// Relative, because the page's own address may have a path.
const ADDRESS: &str = "api/v1/flamegraph";

/// Requests the stacks, and calls back with the answer or the error.
pub struct FlameClient {
    window: Window,
    on_head: Closure<dyn FnMut(JsValue)>,
    on_body: Closure<dyn FnMut(JsValue)>,
    on_failure: Closure<dyn FnMut(JsValue)>,
    /// Values from the answer's headers.
    head: RefCell<FlameResponse>,
}

impl FlameClient {
    /// Creates the callbacks once, so that requests leave nothing behind.
    pub fn new(
        window: Window,
        done: impl Fn(Result<FlameResponse, String>) + 'static,
    ) -> Rc<FlameClient> {
        let done = Rc::new(done);
        Rc::new_cyclic(|weak: &Weak<FlameClient>| {
            let (weak_client, failed) = (weak.clone(), done.clone());
            let on_head = Closure::new(move |response: JsValue| {
                if let Some(client) = weak_client.upgrade()
                    && let Err(error) = client.take_head(&response.unchecked_into())
                {
                    failed(Err(text_of(&error)));
                }
            });
            let (weak_client, succeeded) = (weak.clone(), done.clone());
            let on_body = Closure::new(move |body: JsValue| {
                if let Some(client) = weak_client.upgrade() {
                    let mut answer = client.head.take();
                    answer.body = body.as_string().unwrap_or_default();
                    succeeded(Ok(answer));
                }
            });
            let on_failure = Closure::new(move |error: JsValue| done(Err(text_of(&error))));
            FlameClient {
                window,
                on_head,
                on_body,
                on_failure,
                head: RefCell::default(),
            }
        })
    }

    /// Sends a request.
    pub fn ask(&self) {
        let asked = self.window.fetch_with_str(ADDRESS);
        let _ = asked.then2(&self.on_head, &self.on_failure);
    }

    fn take_head(&self, response: &Response) -> Result<(), JsValue> {
        let headers = response.headers();
        let number = |name: &str| format::parse_decimal(headers.get(name).ok()??.trim());
        *self.head.borrow_mut() = FlameResponse {
            status: response.status(),
            window_seconds: number("x-netto-window-seconds"),
            left_out: number("x-netto-samples-left-out").map(|count| count as u64),
            body: String::new(),
        };
        let _ = response.text()?.then2(&self.on_body, &self.on_failure);
        Ok(())
    }
}

fn text_of(error: &JsValue) -> String {
    format!("The daemon does not answer: {}.", error_message(error))
}
