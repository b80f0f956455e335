//! `netto ticks`: the newest intervals as text.

use std::fmt::Write as _;

use clap::{ArgMatches, Args, FromArgMatches};
use metrics_common::latency::words::{bars, time};
use metrics_common::{Info, Snapshot};
use netto_feature::command::Command;
use netto_questions::api::{Refusal, TextView};
use netto_questions::window::Window;

use crate::api;

/// The command.
pub(crate) const COMMAND: Command = Command {
    about: "Ticks and raised softirqs, live or once: of a daemon, or this host",
    arguments: TicksArgs::augment_args,
    view: |matches: &ArgMatches| {
        let has_bars = TicksArgs::from_arg_matches(matches).is_ok_and(|own| own.bars);
        let window = Window::default();
        Box::new(View { window, has_bars })
    },
    ask: |options| options,
};

/// Arguments of the command.
#[derive(Debug, Args)]
struct TicksArgs {
    /// Show the times between softirqs as bars, too
    #[arg(long)]
    bars: bool,
}

struct View {
    window: Window,
    has_bars: bool,
}

impl TextView for View {
    fn push(&mut self, _: &Info, snapshot: Snapshot) -> Result<(), String> {
        self.window.push(&snapshot);
        Ok(())
    }

    fn clear(&mut self) {
        self.window.clear();
    }

    fn text(&self, info: &Info, length_ns: u64) -> String {
        let sum = self.window.sum(length_ns).unwrap_or_default();
        let ticks = sum.sections.ticks.unwrap_or_default();
        let (host, count, raised) = (&info.hostname, ticks.count, ticks.raised);
        let mut text = format!("netto ticks · {host}\n\n{count} ticks, {raised} softirqs raised\n");
        for gaps in &ticks.gaps {
            let half = gaps.histogram.percentile(0.5);
            let half = half.map_or("–".to_owned(), |half| time(half.ns));
            let bars = match self.has_bars {
                true => bars(&gaps.histogram),
                false => String::new(),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:8}{half:>9}  {bars}", gaps.vector);
        }
        text
    }

    fn json(&self, info: &Info, length_ns: u64) -> Result<Vec<u8>, Refusal> {
        let sum = self.window.sum(length_ns).unwrap_or_default();
        api::text(info, sum.sections.ticks)
    }
}
