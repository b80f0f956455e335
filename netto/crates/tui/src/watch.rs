//! Prints a feature's view as lines of text on a terminal, or once as text or JSON.
//!
//! Runs the loop between feed and standard output. Takes neither the screen nor keys, so that it
//! works over any connection; Ctrl+C ends it.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use metrics_common::Info;
use netto_questions::api::TextView;
use netto_questions::figures::{plain_lines, visible_json};
use netto_questions::terminal::{columns, wrapped};

use crate::feed::{Event, Feed};

/// Timeout of the first interval.
const PATIENCE: Duration = Duration::from_secs(30);
/// Moves the cursor to the upper left, and clears the rest of the screen.
const HOME: &str = "\x1b[H\x1b[J";

/// The form of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Updated with each interval; once if standard output is not a terminal.
    Live,
    /// Once as text.
    Once,
    /// Once as JSON.
    Json,
}

/// Shows the newest intervals, covering this length, until the user quits, or once.
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
            Ok(Event::Past(snapshot)) => {
                let info = info.as_ref().context("an interval without a description")?;
                view.push(info, *snapshot)
                    .map_err(|reason| anyhow!(reason))?;
                continue;
            }
            Ok(Event::Snapshot(snapshot)) => *snapshot,
            Ok(Event::Lost(reason) | Event::Ended(reason)) => bail!("{reason}"),
            Err(RecvTimeoutError::Timeout) => {
                bail!("no data received for {} s", PATIENCE.as_secs())
            }
            Err(RecvTimeoutError::Disconnected) => bail!("there is nothing more to show"),
        };
        let info = info.as_ref().context("an interval without a description")?;
        measured_ns = measured_ns.saturating_add(snapshot.interval_ns);
        view.push(info, snapshot)
            .map_err(|reason| anyhow!(reason))?;
        if is_live {
            write(format!("{HOME}{}", shown(view, info, length_ns)).as_bytes())?;
        } else if measured_ns >= length_ns {
            return match form {
                Form::Json => {
                    let json = visible_json(view.json(info, length_ns)?);
                    write(&[json, vec![b'\n']].concat())
                }
                Form::Live | Form::Once => write(shown(view, info, length_ns).as_bytes()),
            };
        }
    }
}

/// The view's text as the terminal has room for it.
fn shown(view: &dyn TextView, info: &Info, length_ns: u64) -> String {
    wrapped(&plain_lines(&view.text(info, length_ns)), columns())
}

fn write(text: &[u8]) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()?;
    Ok(())
}
