//! The progress of a command, on a terminal only, and only if it takes longer than a second.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time before the bar appears.
const PATIENCE: Duration = Duration::from_secs(1);
const BETWEEN: Duration = Duration::from_millis(100);
const WIDTH: u64 = 30;

/// A bar on standard error.
pub(super) struct Progress {
    done: Arc<AtomicU64>,
    all: u64,
    began: Instant,
    drawn: Option<Instant>,
    is_seen: bool,
    calls: u32,
}

impl Progress {
    /// Of this many bytes; `done` is counted elsewhere.
    pub(super) fn of(done: Arc<AtomicU64>, all: u64) -> Self {
        Progress {
            done,
            all,
            began: Instant::now(),
            drawn: None,
            is_seen: std::io::stderr().is_terminal(),
            calls: 0,
        }
    }

    /// Draws the bar if it is time.
    pub(super) fn tick(&mut self) {
        self.calls = self.calls.wrapping_add(1);
        if !self.is_seen || !self.calls.is_multiple_of(64) || self.began.elapsed() < PATIENCE {
            return;
        }
        if self.drawn.is_some_and(|drawn| drawn.elapsed() < BETWEEN) {
            return;
        }
        self.drawn = Some(Instant::now());
        let done = self.done.load(Ordering::Relaxed).min(self.all);
        let line = line(done, self.all, self.began.elapsed());
        // A closed terminal needs no bar.
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(done: u64, all: u64, elapsed: Duration) -> String {
    let share = done as f64 / all.max(1) as f64;
    let filled = (share * WIDTH as f64) as usize;
    let left = if share > 0.0 {
        elapsed.as_secs_f64() * (1.0 - share) / share
    } else {
        0.0
    };
    format!(
        "reading {}{} {:.0} %, {left:.0} s left",
        "█".repeat(filled),
        "░".repeat((WIDTH as usize).saturating_sub(filled)),
        share * 100.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_as_long_as_what_is_done() {
        let half = line(50, 100, Duration::from_secs(3));
        assert!(
            half.contains(&"█".repeat(15)) && half.contains("50 %, 3 s left"),
            "{half}"
        );
        assert!(line(0, 0, Duration::ZERO).contains("0 %"));
    }
}
