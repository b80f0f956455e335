//! Whether somebody reads each interval, and how many periods an interval has. It has several while nobody
//! reads it, on a quiet host or under a steady load, and where its work would otherwise cost too much. Most
//! of what an interval costs does not depend on its length.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// Most periods of one interval, and its longest time.
const MOST_PERIODS: u128 = 8;
const LONGEST: Duration = Duration::from_secs(4);

/// The longest time of an interval with periods of this length.
pub fn longest(period: Duration) -> Duration {
    period.max(LONGEST)
}

/// Most periods of one interval, with periods of this length.
fn most_periods(period: Duration) -> u32 {
    let fit = (LONGEST.as_nanos() / period.as_nanos().max(1)).clamp(1, MOST_PERIODS);
    u32::try_from(fit).unwrap_or(u32::MAX)
}

/// Most periods of an interval that somebody reads: half as many.
pub fn most_read_periods(period: Duration) -> u32 {
    (most_periods(period) / 2).max(1)
}

/// Whether somebody reads each interval. Shared with all threads.
#[derive(Debug, Clone, Default)]
pub struct Attention(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_followed: AtomicBool,
    was_asked: AtomicBool,
    woken: Notify,
}

impl Attention {
    /// Sets whether somebody takes each interval: a dashboard, a terminal or a log.
    pub fn set_followed(&self, is_followed: bool) {
        let was_followed = self.0.is_followed.swap(is_followed, Ordering::Relaxed);
        if is_followed && !was_followed {
            self.0.woken.notify_one();
        }
    }

    /// Whether somebody takes each interval.
    pub fn is_followed(&self) -> bool {
        self.0.is_followed.load(Ordering::Relaxed)
    }

    /// Somebody asks now, and may ask again.
    pub fn ask(&self) {
        if !self.0.was_asked.swap(true, Ordering::Relaxed) {
            self.0.woken.notify_one();
        }
    }

    /// Waits until somebody begins to take each interval, or asks.
    pub async fn begun(&self) {
        self.0.woken.notified().await;
    }

    /// Whether somebody takes each interval, or has asked since the previous call.
    pub fn take(&self) -> bool {
        let was_asked = self.0.was_asked.swap(false, Ordering::Relaxed);
        was_asked || self.is_followed()
    }
}

/// How many periods the interval under way has.
#[derive(Debug)]
pub struct Stretch {
    most: u32,
    periods: u32,
}

impl Stretch {
    /// With periods of this length.
    pub fn of(period: Duration) -> Self {
        Stretch {
            most: most_periods(period),
            periods: 0,
        }
    }

    /// After how many periods to look again. `settled_periods`: those of the interval that begins now, if
    /// its source knows them; an interval under way is looked at after each period.
    pub fn pause(&self, settled_periods: Option<u32>) -> u32 {
        settled_periods
            .filter(|_| self.periods == 0)
            .map_or(1, |periods| periods.clamp(1, self.most))
    }

    /// After some periods: whether the interval goes on. `periods`: how many its source wants it to have.
    pub fn goes_on(&mut self, passed: u32, periods: impl FnOnce() -> u32) -> bool {
        self.periods = self.periods.saturating_add(passed);
        let has_room = |most: u32| self.periods < most;
        let goes_on = has_room(self.most) && has_room(periods());
        if !goes_on {
            self.periods = 0;
        }
        goes_on
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const QUIET: u32 = u32::MAX;

    fn ends(period_ms: u64, wanted: &[u32]) -> Vec<bool> {
        let mut stretch = Stretch::of(Duration::from_millis(period_ms));
        let ends = |&wanted: &_| !stretch.goes_on(1, || wanted);
        wanted.iter().map(ends).collect()
    }

    /// Which of 16 quiet periods end an interval.
    fn quiet_ends(period_ms: u64) -> Vec<usize> {
        let ends = ends(period_ms, &[QUIET; 16]);
        (1..=16).filter(|period| ends[period - 1]).collect()
    }

    #[test]
    fn an_interval_ends_with_the_first_period_after_which_its_source_wants_no_more() {
        let (no, yes) = (false, true);
        let wanted = [QUIET, 1, QUIET, QUIET, 1, 1, 1, QUIET];
        assert_eq!(ends(500, &wanted), [no, yes, no, no, yes, yes, yes, no]);
    }

    #[test]
    fn intervals_have_as_many_periods_as_their_source_wants() {
        let (no, yes) = (false, true);
        assert_eq!(ends(500, &[3; 7]), [no, no, yes, no, no, yes, no]);
        assert_eq!(ends(500, &[3, 3, 1]), [no, no, yes]);
        assert_eq!(ends(2_500, &[3; 2]), [yes, yes]);
    }

    #[test]
    fn a_settled_interval_is_looked_at_when_it_ends_and_any_other_after_each_period() {
        let mut stretch = Stretch::of(Duration::from_millis(500));
        assert_eq!(stretch.pause(Some(6)), 6);
        assert_eq!(stretch.pause(Some(u32::MAX)), 8);
        assert_eq!(
            [None, Some(0)].map(|settled| stretch.pause(settled)),
            [1; 2]
        );
        assert!(!stretch.goes_on(6, || 6));
        assert!(stretch.goes_on(2, || 6));
        assert_eq!(stretch.pause(Some(6)), 1, "somebody asked after two");
        let long = Stretch::of(Duration::from_secs(60));
        assert_eq!(long.pause(Some(6)), 1);
    }

    #[test]
    fn no_interval_is_longer_than_eight_periods_and_four_seconds_or_its_period() {
        assert_eq!(quiet_ends(50), [8, 16]);
        assert_eq!(quiet_ends(500), [8, 16]);
        assert_eq!(quiet_ends(1_000), [4, 8, 12, 16]);
        assert_eq!(quiet_ends(1_500).len(), 8);
        assert_eq!(quiet_ends(2_500).len(), 16);
        assert_eq!(quiet_ends(60_000).len(), 16);
    }

    #[test]
    fn who_begins_to_read_wakes_once() {
        let attention = Attention::default();
        let is_woken = || attention.begun().now_or_never().is_some();
        assert!(!is_woken());
        attention.ask();
        attention.ask();
        assert_eq!([is_woken(), is_woken()], [true, false]);
        attention.take();
        attention.ask();
        assert!(is_woken());
        attention.set_followed(true);
        attention.set_followed(true);
        assert_eq!([is_woken(), is_woken()], [true, false]);
        attention.set_followed(false);
        assert!(!is_woken());
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
