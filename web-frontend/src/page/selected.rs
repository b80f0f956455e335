//! The time that the reader has selected, as one interval: the daemon adds up what it keeps of it.

use std::cell::Cell;
use std::rc::Rc;

use js_sys::Uint8Array;
use metrics_common::Snapshot;
use metrics_common::codec::{self, ServerMessage};
use wasm_bindgen::prelude::*;
use web_sys::Window;

use super::fetch::{Body, Client};
use crate::recent::RecentSpan;

/// A report has no daemon.
pub const OF_A_REPORT: &str = "a report's other figures are of all its time";
/// What plays a recording keeps nothing.
pub const OF_A_RECORDING: &str = "a recording's other figures are of the moment that is played";

/// See the head of this file.
pub struct Selected {
    client: Rc<Client>,
    /// The newest answer, until the next drawing takes it.
    inbox: Rc<Cell<Option<Result<JsValue, String>>>>,
    /// The selected time, milliseconds since the Unix epoch.
    wanted: Option<(f64, f64)>,
    found: Option<Result<RecentSpan, String>>,
}

impl Selected {
    /// Nothing is selected.
    pub fn new(window: Window, redraw: &Rc<dyn Fn()>) -> Self {
        let inbox: Rc<Cell<Option<Result<JsValue, String>>>> = Rc::default();
        let (arrived, redraw) = (inbox.clone(), redraw.clone());
        let client = Client::new(window, Body::Bytes, move |answer| {
            arrived.set(Some(answer));
            redraw();
        });
        Selected {
            client,
            inbox,
            wanted: None,
            found: None,
        }
    }

    /// Asks for this time, if it is another one and nothing speaks against it, and takes the answer. One that moves
    /// on is shown until its next answer is there.
    pub fn follow(&mut self, wanted: Option<(f64, f64)>, is_moving: bool, obstacle: Option<&str>) {
        if wanted != self.wanted {
            if !is_moving {
                self.found = None;
            }
            self.wanted = wanted;
            self.inbox.take();
            match (wanted, obstacle) {
                (Some(_), Some(obstacle)) => self.found = Some(Err(obstacle.to_owned())),
                (Some((from_ms, to_ms)), None) => {
                    let [from, to] = [from_ms, to_ms].map(|ms| ms / 1e3);
                    let address = format!("api/v1/span?from={from:.3}&to={to:.3}");
                    self.client.send(&address, "GET");
                }
                (None, _) => {}
            }
        }
        let (Some(answer), Some(wanted)) = (self.inbox.take(), wanted) else {
            return;
        };
        self.found = match answer.and_then(|bytes| snapshot_of(&bytes)) {
            // The answer to an earlier question.
            Ok(snapshot) if !ends_in(&snapshot, wanted) => return,
            Ok(snapshot) => Some(Ok(RecentSpan {
                first_sequence: snapshot.sequence,
                snapshot,
            })),
            Err(reason) => Some(Err(reason)),
        };
    }

    /// The daemon is there anew: it may have what it had not.
    pub fn ask_again_if_missing(&mut self) {
        if self.span().is_none() {
            self.wanted = None;
        }
    }

    /// What is to be shown.
    pub fn span(&self) -> Option<&RecentSpan> {
        self.found.as_ref()?.as_ref().ok()
    }

    /// Why there is nothing to be shown of the selected time.
    pub fn reason_missing(&self) -> Option<&str> {
        let found = self.found.as_ref()?;
        found.as_ref().err().map(String::as_str)
    }
}

fn snapshot_of(bytes: &JsValue) -> Result<Snapshot, String> {
    match codec::decode(&Uint8Array::new(bytes).to_vec()) {
        Ok(ServerMessage::Snapshot(snapshot)) => Ok(*snapshot),
        Ok(ServerMessage::Gap(gap)) => Err(gap.reason),
        Ok(_) => Err("the answer is no interval".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn ends_in(snapshot: &Snapshot, (from_ms, to_ms): (f64, f64)) -> bool {
    let end_ms = snapshot.time_unix_ns as f64 / 1e6;
    // Moments are asked for in whole milliseconds.
    (from_ms - 1.0..=to_ms + 1.0).contains(&end_ms)
}
