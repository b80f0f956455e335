//! The list of advice in the document.

use std::rc::Rc;

use metrics_common::Info;
use netto_judges::advice::{LEAST_NS, LastingAdvice};
use wasm_bindgen::prelude::*;
use web_sys::Window;

use super::list;
use crate::page::dom::{Dom, all};
use crate::state::Keys;
use crate::view::{Scene, ShownTime, View};

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(Advice::default())
}

#[derive(Default)]
struct Advice {
    lasting: LastingAdvice,
    /// A judgement each second suffices.
    is_judged: bool,
}

impl Keys for Advice {}

impl View for Advice {
    fn meet(&mut self, _: &Dom, _: &Info) -> Result<(), JsValue> {
        *self = Advice::default();
        Ok(())
    }

    fn every_second(&mut self) {
        self.is_judged = false;
    }

    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let is_paused = scene.shown.sequence != scene.now.sequence;
        let is_selected = scene.time == ShownTime::Selected;
        if (self.is_judged && !is_selected) || is_paused || scene.judged.interval_ns < LEAST_NS {
            return Ok(());
        }
        self.is_judged = true;
        // The list is written anew whenever a figure of it changes.
        let open = all(&scene.dom.root, "#advice-list details[open]")?;
        let open = open
            .iter()
            .filter_map(|details| details.get_attribute("data-rule"));
        let open: Vec<String> = open.collect();
        let mut at_once = is_selected.then(LastingAdvice::at_once);
        let lasting = at_once.as_mut().unwrap_or(&mut self.lasting);
        lasting.judge(scene.judged);
        let html = list::of(lasting.said(), scene.judged.time_unix_ns, &open);
        let window = scene.window(scene.judged);
        scene.dom.set_text("advice-window", &window)?;
        for id in ["advice", "jump-advice"] {
            scene.dom.set_hidden(id, html.is_empty())?;
        }
        scene.dom.set_html("#advice-list", html)
    }
}
