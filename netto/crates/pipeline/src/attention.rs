//! Whether somebody reads each interval. On a quiet host that nobody reads, several are one: most of
//! what an interval costs does not depend on its length.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Most periods of one interval, and its longest time.
const MOST_PERIODS: u128 = 4;
const LONGEST: Duration = Duration::from_secs(2);

/// Whether somebody reads each interval. Shared with all threads.
#[derive(Debug, Clone, Default)]
pub struct Attention(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_followed: AtomicBool,
    was_asked: AtomicBool,
}

impl Attention {
    /// Sets whether somebody takes each interval: a dashboard, a terminal or a log.
    pub fn set_followed(&self, is_followed: bool) {
        self.0.is_followed.store(is_followed, Ordering::Relaxed);
    }

    /// Somebody asks now, and may ask again.
    pub fn ask(&self) {
        self.0.was_asked.store(true, Ordering::Relaxed);
    }

    /// Whether somebody takes each interval, or has asked since the previous call.
    pub fn take(&self) -> bool {
        let was_asked = self.0.was_asked.swap(false, Ordering::Relaxed);
        was_asked || self.0.is_followed.load(Ordering::Relaxed)
    }
}

/// How many periods the interval under way has.
#[derive(Debug)]
pub struct Stretch {
    most: u128,
    periods: u128,
}

impl Stretch {
    /// With periods of this length.
    pub fn of(period: Duration) -> Self {
        Stretch {
            most: (LONGEST.as_nanos() / period.as_nanos().max(1)).min(MOST_PERIODS),
            periods: 0,
        }
    }

    /// At the end of a period: whether the interval goes on.
    pub fn goes_on(&mut self, is_read: bool, is_quiet: impl FnOnce() -> bool) -> bool {
        self.periods += 1;
        let goes_on = !is_read && self.periods < self.most && is_quiet();
        if !goes_on {
            self.periods = 0;
        }
        goes_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(period_ms: u64, periods: [(bool, bool); 8]) -> [bool; 8] {
        let mut stretch = Stretch::of(Duration::from_millis(period_ms));
        periods.map(|(is_read, is_quiet)| !stretch.goes_on(is_read, || is_quiet))
    }

    #[test]
    fn four_quiet_periods_that_nobody_reads_are_one_interval_and_others_are_one_each() {
        const QUIET: (bool, bool) = (false, true);
        let (read, busy) = ((true, true), (false, false));
        let (no, yes) = (false, true);
        assert_eq!(ends(500, [QUIET; 8]), [no, no, no, yes, no, no, no, yes]);
        let periods = [QUIET, read, QUIET, QUIET, busy, busy, read, QUIET];
        assert_eq!(ends(500, periods), [no, yes, no, no, yes, yes, yes, no]);
    }

    #[test]
    fn no_interval_is_longer_than_two_seconds_or_its_period() {
        let quiet = [(false, true); 8];
        assert_eq!(ends(50, quiet), ends(500, quiet));
        assert_eq!(ends(1_000, quiet), [false, true].repeat(4)[..]);
        assert_eq!(ends(1_500, quiet), [true; 8]);
        assert_eq!(ends(60_000, quiet), [true; 8]);
    }

    #[test]
    fn who_follows_is_there_until_it_goes_and_who_asks_is_there_once() {
        let attention = Attention::default();
        assert!(!attention.take());
        attention.clone().ask();
        assert_eq!([attention.take(), attention.take()], [true, false]);
        attention.set_followed(true);
        assert!(attention.take() && attention.take());
        attention.set_followed(false);
        assert!(!attention.take());
    }
}
