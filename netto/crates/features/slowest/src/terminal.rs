//! `netto slowest`: the newest intervals as text.

use metrics_common::sections::MOST_SLOWEST;
use metrics_common::{Info, Snapshot};
use netto_feature::command::Command;
use netto_questions::api::{Refusal, TextView, absence};
use netto_questions::window::Window;

use crate::{api, report};

/// The command.
pub(crate) const COMMAND: Command = Command {
    about: "The slowest softirqs, live or once: of a daemon, or this host",
    arguments: |command| command,
    view: |_| Box::new(View::default()),
    ask: |options| options,
};

#[derive(Default)]
struct View(Window);

impl TextView for View {
    fn push(&mut self, info: &Info, snapshot: Snapshot) -> Result<(), String> {
        match absence(info, crate::NAME) {
            Some(reason) if snapshot.sections.slowest.is_none() => Err(reason.to_owned()),
            _ => {
                self.0.push(&snapshot);
                Ok(())
            }
        }
    }

    fn clear(&mut self) {
        self.0.clear();
    }

    fn text(&self, info: &Info, length_ns: u64) -> String {
        let sum = self.0.sum(length_ns).unwrap_or_default();
        let slowest = sum.sections.slowest.unwrap_or_default();
        let table = report::table(&slowest, MOST_SLOWEST);
        format!("netto slowest · {}\n{table}", info.hostname)
    }

    fn json(&self, info: &Info, length_ns: u64) -> Result<Vec<u8>, Refusal> {
        let sum = self.0.sum(length_ns).unwrap_or_default();
        api::text(info, sum.sections.slowest)
    }
}
