//! The playback state of a replay: the commands of its viewers, and its progress.
//!
//! All viewers of one replay share it. HTTP writes commands here and reads the status; the player,
//! on a thread of its own, takes the commands and reports. Neither waits for the other, and of
//! several seeks only the last counts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::overview::OverviewTable;

/// Allowed playback speeds, as multiples of the recorded speed.
pub const SPEEDS: std::ops::RangeInclusive<f64> = 0.1..=1000.0;

/// The constant facts of a replay.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// Begin and end on the axis of the recording, nanoseconds.
    pub span_ns: (u64, u64),
    /// Number of snapshots.
    pub snapshots: u64,
    /// Networking's share over the whole recording.
    pub overview: OverviewTable,
}

/// The mode of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The position advances.
    Playing,
    /// The position is held.
    Paused,
    /// The recording is at its end.
    Ended,
}

/// A command of a viewer; a field that is `None` leaves its value unchanged.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Command {
    /// Play or pause. At the end, play starts again from the beginning.
    pub playing: Option<bool>,
    /// Speed as a multiple of the recorded speed, within [`SPEEDS`].
    pub speed: Option<f64>,
    /// Position to seek to on the axis, milliseconds since the Unix epoch.
    pub seek_unix_ms: Option<u64>,
}

/// How a replay stands (`netto replay` only).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Status {
    /// Begin of the recording on its axis, milliseconds since the Unix epoch.
    pub begin_unix_ms: u64,
    /// End of the recording.
    pub end_unix_ms: u64,
    /// The current position, or that of a pending seek.
    pub position_unix_ms: u64,
    /// End of the interval that was shown last, by the recorded clock; 0 before the first.
    pub time_unix_ms: u64,
    /// Whether it plays.
    pub state: Mode,
    /// Speed as a multiple of the recorded speed.
    #[cfg_attr(feature = "schema", schemars(range(min = 0.1, max = 1000.0)))]
    pub speed: f64,
    /// Number of snapshots.
    pub snapshots: u64,
}

/// The target for the player.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Orders {
    /// Whether to play.
    pub playing: bool,
    /// The speed.
    pub speed: f64,
    /// Pending seek, nanoseconds on the axis; returned once.
    pub seek_ns: Option<u64>,
}

#[derive(Debug)]
struct PlaybackState {
    orders: Orders,
    ended: bool,
    position_ns: u64,
    time_unix_ns: u64,
}

/// A handle to the state; copies share it.
#[derive(Debug, Clone)]
pub struct Controls {
    facts: Arc<Facts>,
    state: Arc<Mutex<PlaybackState>>,
}

impl Controls {
    /// At the beginning, about to show its first interval.
    pub fn new(facts: Facts, playing: bool, speed: f64) -> Self {
        let begin_ns = facts.span_ns.0;
        Controls {
            facts: Arc::new(facts),
            state: Arc::new(Mutex::new(PlaybackState {
                orders: Orders {
                    playing,
                    speed,
                    seek_ns: Some(begin_ns),
                },
                ended: false,
                position_ns: begin_ns,
                time_unix_ns: 0,
            })),
        }
    }

    fn state(&self) -> MutexGuard<'_, PlaybackState> {
        // Each change is a few plain stores: none can be left half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The constant facts.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Applies a command of a viewer.
    pub fn ask(&self, command: Command) {
        let mut state = self.state();
        let (begin_ns, end_ns) = self.facts.span_ns;
        if let Some(ms) = command.seek_unix_ms {
            // The end of that millisecond: an interval that ends within it is shown.
            let ns = ms.saturating_mul(1_000_000).saturating_add(999_999);
            state.orders.seek_ns = Some(ns.clamp(begin_ns, end_ns));
            state.ended = false;
        }
        if let Some(speed) = command.speed {
            state.orders.speed = speed.clamp(*SPEEDS.start(), *SPEEDS.end());
        }
        if let Some(playing) = command.playing {
            if playing && state.ended {
                state.orders.seek_ns = Some(begin_ns);
                state.ended = false;
            }
            state.orders.playing = playing;
        }
    }

    /// How it stands.
    pub fn status(&self) -> Status {
        let state = self.state();
        let ms = |ns: u64| ns / 1_000_000;
        Status {
            begin_unix_ms: ms(self.facts.span_ns.0),
            end_unix_ms: ms(self.facts.span_ns.1),
            position_unix_ms: ms(state.orders.seek_ns.unwrap_or(state.position_ns)),
            time_unix_ms: ms(state.time_unix_ns),
            state: match (state.ended, state.orders.playing) {
                (true, _) => Mode::Ended,
                (false, true) => Mode::Playing,
                (false, false) => Mode::Paused,
            },
            speed: state.orders.speed,
            snapshots: self.facts.snapshots,
        }
    }

    /// The pending orders for the player.
    pub fn take_orders(&self) -> Orders {
        let mut state = self.state();
        Orders {
            seek_ns: state.orders.seek_ns.take(),
            ..state.orders
        }
    }

    /// Records the player's position, the time of the last interval, and whether it has ended.
    pub fn report(&self, position_ns: u64, time_unix_ns: Option<u64>, is_over: bool) {
        let mut state = self.state();
        state.position_ns = position_ns;
        if let Some(time_unix_ns) = time_unix_ns {
            state.time_unix_ns = time_unix_ns;
        }
        // A viewer may have asked for another place meanwhile.
        if is_over && state.orders.seek_ns.is_none() {
            state.ended = true;
            state.orders.playing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overview::Overview;

    fn controls() -> Controls {
        let facts = Facts {
            span_ns: (5_000_000, 90_000_000),
            snapshots: 7,
            overview: Overview::new(0).view(),
        };
        Controls::new(facts, true, 1.0)
    }

    fn seek(ms: u64) -> Command {
        Command {
            seek_unix_ms: Some(ms),
            ..Command::default()
        }
    }

    #[test]
    fn of_several_places_only_the_last_counts_and_only_once() {
        let controls = controls();
        controls.ask(seek(20));
        controls.ask(seek(30));
        assert_eq!(controls.status().position_unix_ms, 30);
        assert_eq!(controls.take_orders().seek_ns, Some(30_999_999));
        assert_eq!(controls.take_orders().seek_ns, None);
    }

    #[test]
    fn a_place_outside_of_the_recording_is_its_nearest_end() {
        let controls = controls();
        for (wanted, expected) in [(0, 5_000_000), (u64::MAX, 90_000_000)] {
            controls.ask(seek(wanted));
            assert_eq!(controls.take_orders().seek_ns, Some(expected));
        }
    }

    #[test]
    fn at_the_end_it_stops_and_going_on_means_from_the_beginning() {
        let controls = controls();
        controls.take_orders();
        controls.report(90_000_000, Some(90_000_000), true);
        assert_eq!(controls.status().state, Mode::Ended);
        assert!(!controls.take_orders().playing);
        controls.ask(Command {
            playing: Some(true),
            ..Command::default()
        });
        assert_eq!(controls.status().state, Mode::Playing);
        assert_eq!(controls.take_orders().seek_ns, Some(5_000_000));
    }

    #[test]
    fn whoever_asks_while_the_end_is_reported_is_heard() {
        let controls = controls();
        controls.take_orders();
        controls.ask(seek(10));
        controls.report(90_000_000, None, true);
        assert_eq!(controls.status().state, Mode::Playing);
        assert_eq!(controls.take_orders().seek_ns, Some(10_999_999));
    }
}
