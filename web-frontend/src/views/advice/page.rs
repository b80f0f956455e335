//! The list of advice in the document.

use std::rc::Rc;

use metrics_common::{Info, Snapshot};
use netto_judges::advice::{LEAST_NS, LastingAdvice};
use wasm_bindgen::prelude::*;
use web_sys::Window;

use super::list;
use crate::action::Format;
use crate::basis::Basis;
use crate::page::dom::{Dom, all};
use crate::page::fetch::Polled;
use crate::page::save::File;
use crate::recent::ShownTime;
use crate::state::Keys;
use crate::view::{Scene, View};

/// The view, before anything is shown.
pub fn start(window: &Window, redraw: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(Advice {
        lasting: LastingAdvice::default(),
        of_daemon: Polled::new(window, redraw, "api/v1/advice?last=10s"),
        is_judged: false,
        basis: None,
    })
}

struct Advice {
    lasting: LastingAdvice,
    /// What the daemon says when the page opens: it has judged for longer.
    of_daemon: Polled,
    /// A judgement each second suffices.
    is_judged: bool,
    /// The unit in which it is said.
    basis: Option<Basis>,
}

impl Keys for Advice {}

impl Advice {
    fn take_answer(&mut self, now_ns: u64) {
        let Some(json) = self.of_daemon.take() else {
            return;
        };
        self.of_daemon.is_wanted = false;
        let rules = json.list("advice");
        let rules: Vec<String> = rules.iter().filter_map(|rule| rule.text("rule")).collect();
        self.lasting.take_over(&rules, now_ns);
        self.is_judged = false;
    }
}

impl View for Advice {
    fn meet(&mut self, dom: &Dom, info: &Info) -> Result<(), JsValue> {
        self.lasting = LastingAdvice::default();
        self.is_judged = false;
        let is_report = dom.root.has_attribute("data-standalone");
        self.of_daemon.is_wanted = !is_report && !info.is_recording();
        Ok(())
    }

    fn receive(&mut self, snapshot: &Snapshot) {
        // Also while the list is hidden, so that it is asked once.
        self.take_answer(snapshot.time_unix_ns);
        self.of_daemon.receive();
    }

    fn every_second(&mut self) {
        self.is_judged = false;
    }

    fn file(&self, _: &Scene, what: &str, _: Format) -> Result<Option<File>, JsValue> {
        let Some(rule) = what.strip_prefix(list::COMMANDS) else {
            return Ok(None);
        };
        let mut said = self.lasting.said();
        let advice = said.find(|(advice, _)| advice.rule == rule);
        Ok(advice.map(|(advice, _)| File::Clipboard(advice.commands.join("\n"))))
    }

    fn draw(&mut self, scene: &Scene) -> Result<(), JsValue> {
        let is_paused = scene.time == ShownTime::Paused;
        let is_selected = scene.time == ShownTime::Selected;
        self.take_answer(scene.latest.time_unix_ns);
        let is_early = scene.shown.interval_ns < LEAST_NS && !self.lasting.says_anything();
        let basis = scene.shared.basis;
        let is_said = self.is_judged && self.basis == Some(basis);
        if (is_said && !is_selected) || is_paused || is_early {
            return Ok(());
        }
        (self.is_judged, self.basis) = (true, Some(basis));
        // The list is written anew whenever a figure of it changes.
        let open = all(&scene.dom.root, "#advice-list details[open]")?;
        let open = open
            .iter()
            .filter_map(|details| details.get_attribute("data-rule"));
        let open: Vec<String> = open.collect();
        let mut at_once = is_selected.then(LastingAdvice::at_once);
        let lasting = at_once.as_mut().unwrap_or(&mut self.lasting);
        lasting.judge_in(scene.shown, &|cpus, of| basis.say_of_host(cpus, of));
        let html = list::of(lasting.said(), scene.shown.time_unix_ns, &open);
        let window = scene.window(scene.shown);
        scene.dom.set_text("advice-window", &window)?;
        scene.dom.set_hidden("advice", html.is_empty())?;
        scene.dom.set_html("#advice-list", html)
    }
}
