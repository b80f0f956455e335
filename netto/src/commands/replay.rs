//! `netto replay LOG`: the dashboard of a log.
//!
//! It reads the log, says how far it is, and plugs the player into the daemon; how a log is
//! played is `replay`'s.

use std::io::{IsTerminal, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::daemon::Prepared;
use netto_pipeline::playback::Controls;
use netto_replay::player::Player;
use netto_replay::recording::Recording;

/// Reading that takes longer says how far it is, and again after each of these.
const FIRST_WORD: Duration = Duration::from_secs(1);
const NEXT_WORD: Duration = Duration::from_millis(200);

/// Serves the dashboard of a log until SIGTERM, SIGINT or a failure.
///
/// # Errors
/// If the log cannot be played, or any part of the daemon failed.
pub fn run(prepared: Prepared, log: &Path, is_paused: bool, speed: f64) -> anyhow::Result<()> {
    let mut progress = Progress::new();
    let recording = Recording::open(log, &mut |read, all| progress.tell(read, all))?;
    progress.end();
    for note in recording.missing() {
        tracing::warn!("{note}");
    }
    let facts = recording.facts().clone();
    let controls = Controls::new(facts, !is_paused, speed);
    let mut player = Player::new(Arc::new(recording), controls.clone());
    let info = player
        .first_info()
        .with_context(|| format!("{} has changed while it was read", log.display()))?;
    if let Some(label) = info.notes.first() {
        tracing::info!("{label}");
    }
    prepared.with_replay(controls).serve(info, Box::new(player))
}

/// A line on the terminal, if there is one, while something takes long.
struct Progress {
    is_shown: bool,
    due: Instant,
    has_spoken: bool,
}

impl Progress {
    fn new() -> Self {
        Progress {
            is_shown: std::io::stderr().is_terminal(),
            due: Instant::now() + FIRST_WORD,
            has_spoken: false,
        }
    }

    fn tell(&mut self, read_bytes: u64, all_bytes: u64) {
        if !self.is_shown || Instant::now() < self.due {
            return;
        }
        self.due = Instant::now() + NEXT_WORD;
        self.has_spoken = true;
        let percent = read_bytes.saturating_mul(100) / all_bytes.max(1);
        let _ = write!(std::io::stderr(), "\rreading the log: {percent} % ");
    }

    fn end(&self) {
        if self.has_spoken {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
