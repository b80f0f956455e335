//! Counts input from clients that is not HTTP, and logs it at a limited rate: one line for each
//! would let any client fill the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Least time between two lines.
const PAUSE: Duration = Duration::from_secs(60);

/// Malformed requests since the start.
#[derive(Debug, Default)]
pub struct Malformed {
    total: AtomicU64,
    last: Mutex<LastReport>,
}

#[derive(Debug, Default)]
struct LastReport {
    at: Option<Instant>,
    total: u64,
}

impl Malformed {
    /// Their number.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Counts one, and logs the number if it is time.
    pub fn count(&self, reason: impl std::fmt::Display) {
        if let Some(news) = self.add(Instant::now()) {
            tracing::warn!("{news} could not be understood; the last: {reason}");
        }
    }

    fn add(&self, now: Instant) -> Option<String> {
        let total = self.total.fetch_add(1, Ordering::Relaxed) + 1;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.at.is_some_and(|at| now.duration_since(at) < PAUSE) {
            return None;
        }
        let new = total.saturating_sub(last.total);
        *last = LastReport {
            at: Some(now),
            total,
        };
        Some(match new {
            1 => "1 request".to_owned(),
            new => format!("{new} requests since the last such line"),
        })
    }
}

/// The server's counts of client errors.
#[derive(Debug, Default)]
pub struct ClientCounts {
    /// Requests that were not HTTP.
    pub malformed: Malformed,
    /// Connections that were closed or refused because others needed the slot.
    pub given_away: Arc<AtomicU64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_line_a_minute_with_its_count() {
        let malformed = Malformed::default();
        let start = Instant::now();
        let lines: Vec<_> = (0..1000)
            .filter_map(|at| malformed.add(start + Duration::from_millis(100 * at)))
            .collect();
        assert_eq!(
            lines,
            ["1 request", "600 requests since the last such line"]
        );
        assert_eq!(malformed.total(), 1000);
    }
}
