//! `netto latency`: how long packets wait inside the stack, on a terminal or as JSON.
//!
//! It owns the loop between feed and standard output. Where intervals come from is `feed`'s, how
//! they look `draw`'s. It takes no screen and no keys, so that it works over any connection:
//! control and C ends it.

mod draw;

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use metrics_common::{Info, Sections, Snapshot};

use super::daemon::{DEFAULT_URL, Daemon};
use super::feed::{Event, Feed};
use super::top::Begun;
use crate::cli::LatencyShowArgs;
use crate::config::Config;
use netto_http::latency::view::{self, Measured, Span};
use netto_report::output::is_closed_pipe;
use netto_report::window::Window;

/// What is shown unless something else is asked for, seconds.
const DEFAULT_SECONDS: u64 = 5;
/// How long to wait for the first interval.
const PATIENCE: Duration = Duration::from_secs(30);
/// Puts the cursor to the upper left and clears what is behind it.
const HOME: &str = "\x1b[H\x1b[J";

/// Shows latency until the user has seen enough, or once.
///
/// Without a daemon named, it is the daemon of this host, or else a measurement of its own, which
/// `measure` begins.
///
/// # Errors
/// If there is nothing to show.
pub fn run(
    config: &Config,
    args: &LatencyShowArgs,
    measure: impl FnOnce() -> anyhow::Result<Begun>,
) -> anyhow::Result<()> {
    let ca_file = args.ca_file.as_deref();
    let mut alive: Option<Box<dyn std::any::Any>> = None;
    let feed = match &args.connect {
        Some(url) => Feed::connect(Daemon::at(url, ca_file)?)?,
        None => match Daemon::at(DEFAULT_URL, None).and_then(Feed::connect) {
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
    let shown = show(&feed, args);
    // The probes go before the process says how it ended.
    drop(alive);
    match shown {
        Err(error) if is_closed_pipe(&error) => Ok(()),
        shown => shown,
    }
}

fn show(feed: &Feed, args: &LatencyShowArgs) -> anyhow::Result<()> {
    let is_live = !args.once && !args.json && io::stdout().is_terminal();
    let length_ns = args.seconds.unwrap_or(DEFAULT_SECONDS) * 1_000_000_000;
    let (mut info, mut window) = (None, Window::default());
    let mut measured_ns = 0_u64;
    loop {
        let snapshot = match feed.events.recv_timeout(PATIENCE) {
            Ok(Event::Info(now)) => {
                info = Some(*now);
                continue;
            }
            Ok(Event::Jump) => {
                window.clear();
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
        if snapshot.sections.latency.is_none() {
            bail!("latency is not measured there: {}", view::reason(info));
        }
        measured_ns = measured_ns.saturating_add(snapshot.interval_ns);
        let sections = Sections {
            latency: snapshot.sections.latency,
            ..Sections::default()
        };
        window.push(&Snapshot {
            sections,
            ..snapshot
        });
        if is_live {
            write(&format!(
                "{HOME}{}",
                text(info, &window, length_ns, args.groups)
            ))?;
        } else if measured_ns >= length_ns {
            return match args.json {
                true => write(&json(info, &window, length_ns)?),
                false => write(&text(info, &window, length_ns, args.groups)),
            };
        }
    }
}

fn write(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

fn text(info: &Info, window: &Window, length_ns: u64, has_groups: bool) -> String {
    let sum = window.sum(length_ns).unwrap_or_default();
    let latency = sum.sections.latency.unwrap_or_default();
    draw::measured(
        info,
        &latency,
        sum.interval_ns.max(1) as f64 / 1e9,
        has_groups,
    )
}

/// What `/api/v1/latency` would answer, on one line.
fn json(info: &Info, window: &Window, length_ns: u64) -> anyhow::Result<String> {
    let of = |length_ns| {
        let sum = window.sum(length_ns).unwrap_or_default();
        let mut span = Span::default();
        span.add(&sum);
        (span, sum.sections.latency.unwrap_or_default())
    };
    let ((span, sum), (newest_span, newest)) = (of(length_ns), of(0));
    let measured = Measured {
        span,
        sum,
        newest_span,
        newest,
    };
    let json = view::json(Some(&measured), info).map_err(|reason| anyhow!(reason))?;
    Ok(String::from_utf8_lossy(&json).into_owned() + "\n")
}
