//! A feature's view on a terminal as lines of text, or once as text or JSON.
//!
//! It owns the loop between feed and standard output. It takes no screen and no keys, so that it
//! works over any connection: control and C ends it.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use netto_questions::api::TextView;

use crate::feed::{Event, Feed};

/// How long to wait for the first interval.
const PATIENCE: Duration = Duration::from_secs(30);
/// Puts the cursor to the upper left and clears what is behind it.
const HOME: &str = "\x1b[H\x1b[J";

/// How it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Anew with each interval; once where nobody looks at a terminal.
    Live,
    /// Once, for people.
    Once,
    /// Once, for programs.
    Json,
}

/// Shows the newest intervals that last so long until the user has seen enough, or once.
///
/// # Errors
/// If there is nothing to show.
pub fn run(feed: &Feed, view: &mut dyn TextView, length_ns: u64, form: Form) -> anyhow::Result<()> {
    let is_live = form == Form::Live && io::stdout().is_terminal();
    let (mut info, mut measured_ns) = (None, 0_u64);
    loop {
        let snapshot = match feed.events.recv_timeout(PATIENCE) {
            Ok(Event::Info(now)) => {
                info = Some(*now);
                continue;
            }
            Ok(Event::Jump) => {
                view.clear();
                continue;
            }
            Ok(Event::Snapshot(snapshot)) => *snapshot,
            Ok(Event::Lost(reason) | Event::Ended(reason)) => bail!("{reason}"),
            Err(RecvTimeoutError::Timeout) => {
                bail!("nothing has come for {} s", PATIENCE.as_secs())
            }
            Err(RecvTimeoutError::Disconnected) => bail!("there is nothing more to show"),
        };
        let info = info.as_ref().context("an interval without a description")?;
        measured_ns = measured_ns.saturating_add(snapshot.interval_ns);
        view.push(info, snapshot)
            .map_err(|reason| anyhow!(reason))?;
        if is_live {
            write(format!("{HOME}{}", view.text(info, length_ns)).as_bytes())?;
        } else if measured_ns >= length_ns {
            return match form {
                Form::Json => write(&[view.json(info, length_ns)?, vec![b'\n']].concat()),
                Form::Live | Form::Once => write(view.text(info, length_ns).as_bytes()),
            };
        }
    }
}

fn write(text: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()?;
    Ok(())
}
