//! `netto top`: the page's essentials on a terminal.
//!
//! It owns the loop between feed, model and terminal. Where intervals come from is `feed`'s,
//! what is shown `model`'s, how that looks `draw`'s.

mod draw;
mod line;
pub mod model;
mod owners;
mod terminal;

use std::time::Duration;

use anyhow::Context;
use metrics_common::Info;

use self::model::{Key, Link, Model};
use self::terminal::{Screens, Wish};
use crate::cli::TopArgs;
use crate::commands::daemon::{DEFAULT_URL, Daemon};
use crate::commands::feed::{Event, Feed};
use crate::config::Config;
use netto_pipeline::trace_analyzer::SnapshotSource;

/// How long a key or an interval may wait to be seen.
const PATIENCE: Duration = Duration::from_millis(50);

/// A measurement that has begun, and what must live as long as it does.
pub type Begun = (Info, Box<dyn SnapshotSource>, Box<dyn std::any::Any>);

/// Shows the terminal's dashboard until the user has seen enough.
///
/// Without a daemon or a log named, it is the daemon of this host, or else a measurement of its
/// own, which `measure` begins.
///
/// # Errors
/// If there is no terminal, or nothing to show.
pub fn run(
    config: &Config,
    args: &TopArgs,
    measure: impl FnOnce() -> anyhow::Result<Begun>,
) -> anyhow::Result<()> {
    terminal::must_be_there()?;
    let ca_file = args.ca_file.as_deref();
    let mut alive: Option<Box<dyn std::any::Any>> = None;
    let feed = match (&args.connect, &args.replay) {
        (_, Some(log)) => Feed::replay(log, args.speed.unwrap_or(1.0))?,
        (Some(url), None) => Feed::connect(Daemon::at(url, ca_file)?)?,
        (None, None) => match Daemon::at(DEFAULT_URL, None).and_then(Feed::connect) {
            Ok(feed) => feed,
            Err(absence) => {
                let (info, source, guard) = measure().with_context(|| {
                    format!("{absence:#}, and this process cannot measure by itself")
                })?;
                alive = Some(guard);
                Feed::measure(info, source, config.user_period)?
            }
        },
    };
    let screens = Screens::take()?;
    let outcome = show(screens, &feed);
    // The probes go after the terminal is back and before the process says how it ended.
    drop(alive);
    outcome
}

fn show(mut screens: Screens, feed: &Feed) -> anyhow::Result<()> {
    let mut model = Model::default();
    let mut is_stale = true;
    loop {
        while let Ok(event) = feed.events.try_recv() {
            take(&mut model, event);
            is_stale = true;
        }
        if std::mem::take(&mut is_stale) {
            screens.show(&model.screen())?;
        }
        let Some(wish) = screens.wish(PATIENCE)? else {
            continue;
        };
        is_stale = true;
        match wish {
            Wish::Quit => return Ok(()),
            Wish::Redraw => {}
            Wish::Faster => feed.change_speed(10.0),
            Wish::Slower => feed.change_speed(0.1),
            Wish::Key(key) => {
                model.press(key);
                if key == Key::Pause {
                    feed.pause(model.is_paused());
                }
            }
        }
    }
}

fn take(model: &mut Model, event: Event) {
    match event {
        Event::Info(info) => model.meet(*info),
        Event::Jump => model.forget(),
        Event::Snapshot(snapshot) => model.receive(&snapshot),
        Event::Lost(reason) => model.set_link(Link::Lost(reason)),
        Event::Ended(reason) => model.set_link(Link::Ended(reason)),
    }
}
