//! `netto top`: the essentials of the page on a terminal.
//!
//! Runs the loop between `feed` (source), `model` (content) and `draw` (appearance).

mod draw;
pub mod model;
mod terminal;

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::bail;
use netto_questions::api::Breakdown;

use self::model::{Key, Model, SourceState};
use self::terminal::{Action, Screens};
use crate::feed::{Event, Feed};

/// Longest delay of a key or an interval.
const PATIENCE: Duration = Duration::from_millis(50);
/// How long nothing may come of a daemon that was lost: it may be restarting.
const ABSENCE: Duration = Duration::from_millis(2_500);

/// Shows the terminal's dashboard until the user quits, or `has_ended` is set. A component's time can be
/// divided by these breakdowns.
///
/// # Errors
/// If there is no terminal, or nothing to show.
pub fn run(
    breakdowns: Vec<Breakdown>,
    has_ended: &'static AtomicBool,
    open: impl FnOnce() -> anyhow::Result<Feed>,
) -> anyhow::Result<()> {
    terminal::must_be_there()?;
    let feed = open()?;
    // The terminal is restored before the feed ends.
    show(Screens::take(has_ended)?, Model::new(breakdowns), &feed)
}

fn show(mut screens: Screens, mut model: Model, feed: &Feed) -> anyhow::Result<()> {
    let (mut is_stale, mut is_known) = (true, false);
    let (mut last_sign, mut lost) = (Instant::now(), None);
    loop {
        while let Ok(event) = feed.events.try_recv() {
            match &event {
                Event::Lost(reason) if !is_known => bail!("{reason}"),
                Event::Lost(reason) => lost = Some(reason.clone()),
                event => {
                    is_known |= matches!(event, Event::Info(_));
                    (last_sign, lost) = (Instant::now(), None);
                }
            }
            take(&mut model, event);
            is_stale = true;
        }
        if let Some(reason) = lost.take_if(|_| last_sign.elapsed() > ABSENCE) {
            bail!("{reason}");
        }
        if std::mem::take(&mut is_stale) {
            screens.show(&model.screen())?;
        }
        let Some(action) = screens.action(PATIENCE)? else {
            continue;
        };
        is_stale = true;
        match action {
            Action::Close if model.close() => {}
            Action::Close | Action::Quit => return Ok(()),
            Action::Redraw => {}
            Action::Faster => feed.change_speed(10.0),
            Action::Slower => feed.change_speed(0.1),
            Action::Key(key) => {
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
        Event::Past(_) => {}
        Event::Snapshot(snapshot) => model.receive(&snapshot),
        Event::Lost(reason) => model.set_link(SourceState::Lost(reason)),
        Event::Ended(reason) => model.set_link(SourceState::Ended(reason)),
    }
}
