//! The line that shows how far sending is: on a terminal only, after a second.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use metrics_common::text::count;

const PATIENCE: Duration = Duration::from_secs(1);
const BETWEEN: Duration = Duration::from_millis(200);

/// How far it is.
#[derive(Debug, Clone, Copy)]
pub struct State {
    /// Packets so far.
    pub packets: u64,
    /// How late the last packet was, if it was waited for.
    pub late_ns: Option<u64>,
    /// What is done of all, 0 to 1, as far as that can be told.
    pub share: Option<f64>,
}

/// A line on standard error.
pub struct Progress {
    began: Instant,
    drawn: Option<(Instant, u64)>,
    is_seen: bool,
}

impl Progress {
    /// Begins now.
    pub fn new() -> Self {
        Progress {
            began: Instant::now(),
            drawn: None,
            is_seen: std::io::stderr().is_terminal(),
        }
    }

    /// Draws the line if it is time.
    pub fn tick(&mut self, now: Instant, state: impl FnOnce() -> State) {
        if !self.is_seen || now < self.began + PATIENCE {
            return;
        }
        let (before, packets_before) = self.drawn.unwrap_or((self.began, 0));
        if self.drawn.is_some() && now < before + BETWEEN {
            return;
        }
        let state = state();
        let since = (now - before).as_secs_f64().max(1e-9);
        let rate = (state.packets - packets_before) as f64 / since;
        let line = line(state, rate, now - self.began);
        self.drawn = Some((now, state.packets));
        // A closed terminal needs no line.
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

fn line(state: State, rate: f64, elapsed: Duration) -> String {
    let late = state.late_ns.map_or(String::new(), |ns| {
        format!(", {:.0} µs late", ns as f64 / 1e3)
    });
    let left = state
        .share
        .filter(|share| *share > 0.0)
        .map_or(String::new(), |share| {
            let left = elapsed.as_secs_f64() * (1.0 - share).max(0.0) / share;
            format!(", {:.0} %, {left:.0} s left", share.min(1.0) * 100.0)
        });
    let [packets, rate] = [state.packets, rate.round() as u64].map(count);
    format!("{packets} packets, {rate}/s{late}{left}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_is_known() {
        let state = State {
            packets: 500,
            late_ns: Some(7000),
            share: Some(0.25),
        };
        let text = line(state, 100.0, Duration::from_secs(5));
        assert_eq!(text, "500 packets, 100/s, 7 µs late, 25 %, 15 s left");
        let state = State {
            late_ns: None,
            share: None,
            ..state
        };
        assert_eq!(
            line(state, 9.6, Duration::from_secs(5)),
            "500 packets, 10/s"
        );
        let state = State {
            packets: 2_500_000,
            ..state
        };
        let text = line(state, 139_876.4, Duration::from_secs(18));
        assert_eq!(
            text.replace('\u{202f}', "'"),
            "2'500'000 packets, 139'876/s"
        );
    }
}
