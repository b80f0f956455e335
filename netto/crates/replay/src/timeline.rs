//! The timeline of a recording: the recorded clock, made monotonic.
//!
//! A host's clock may have been set during the recording. Where it went back, or ahead by more than
//! a day, the timeline advances by the interval's length. Everywhere else it is the recorded time,
//! in nanoseconds since the Unix epoch. Pure.

use std::sync::Arc;

use metrics_common::{Info, Snapshot};

/// Longest pause of the daemon; a longer step means that the clock was set.
const LONGEST_PAUSE_NS: u64 = 24 * 3_600_000_000_000;

/// An interval on the timeline.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Its end on the timeline of the recording, nanoseconds.
    pub at_ns: u64,
    /// The description of its rows.
    pub info: Arc<Info>,
    /// The recorded interval.
    pub snapshot: Snapshot,
}

impl Frame {
    /// Its begin on the timeline, nanoseconds.
    pub fn begin_ns(&self) -> u64 {
        self.at_ns.saturating_sub(self.snapshot.interval_ns)
    }
}

/// Follows a recording, one snapshot after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MonotonicTimeline {
    /// Recorded time and timeline position of the last snapshot.
    last: Option<(u64, u64)>,
}

impl MonotonicTimeline {
    /// Assigns the next interval its time.
    pub fn frame(&mut self, info: Arc<Info>, snapshot: Snapshot) -> Frame {
        Frame {
            at_ns: self.advance(&snapshot),
            info,
            snapshot,
        }
    }

    /// The end of the next snapshot on the timeline, nanoseconds.
    fn advance(&mut self, snapshot: &Snapshot) -> u64 {
        let time_ns = snapshot.time_unix_ns;
        let at_ns = match self.last {
            None => time_ns,
            Some((before_ns, at_ns)) => match time_ns.checked_sub(before_ns) {
                Some(step_ns) if (1..=LONGEST_PAUSE_NS).contains(&step_ns) => {
                    at_ns.saturating_add(step_ns)
                }
                _ => at_ns.saturating_add(snapshot.interval_ns.min(LONGEST_PAUSE_NS)),
            },
        };
        self.last = Some((time_ns, at_ns));
        at_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(times: &[u64]) -> Vec<u64> {
        let mut timeline = MonotonicTimeline::default();
        let place = |&time_unix_ns: &u64| {
            timeline.advance(&Snapshot {
                time_unix_ns,
                interval_ns: 10,
                ..Snapshot::default()
            })
        };
        times.iter().map(place).collect()
    }

    #[test]
    fn the_timeline_is_the_recorded_time_as_long_as_that_goes_forward() {
        assert_eq!(places(&[100, 110, 121, 500]), [100, 110, 121, 500]);
    }

    #[test]
    fn a_clock_that_was_set_moves_the_timeline_by_an_interval() {
        assert_eq!(places(&[100, 50, 60, 60]), [100, 110, 120, 130]);
        let leap = 100 + LONGEST_PAUSE_NS + 1;
        assert_eq!(places(&[100, leap, leap + 10]), [100, 110, 120]);
        assert_eq!(places(&[u64::MAX, 0, 7]), [u64::MAX; 3]);
    }
}
