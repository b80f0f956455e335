//! The player: a recording as a source of snapshots, at the pace that its viewers request.
//!
//! Each step yields at most one snapshot. If several intervals have ended since the last step,
//! because it plays faster than real time, they are summed, so that sums over the output equal
//! those of the recording. Intervals with different descriptions, or with a pause of the daemon
//! between them, are not summed. Times without data are skipped. Snapshots are renumbered, because
//! receivers require increasing numbers.

use std::iter::Peekable;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::bail;
use metrics_common::history::{History, LEAST_COVERED_NS};
use metrics_common::{Info, Snapshot};

use super::recording::{Reading, Recording};
use super::timeline::Frame;
use metrics_common::Folded;
use netto_pipeline::playback::Controls;
use netto_pipeline::profile::OpenProfile;
use netto_pipeline::trace_analyzer::{SnapshotSource, StackSource, Update};

/// Interval of the player's steps.
pub const PERIOD: Duration = Duration::from_millis(100);
/// Longest real time between two steps; more means that the machine was suspended.
const LONGEST_STEP: Duration = Duration::from_secs(1);
/// Longest reading time in a step; the rest is read in the next.
const READING_TIME: Duration = Duration::from_millis(80);
/// Time without data from which it is skipped.
const SILENCE_NS: u64 = 2_000_000_000;

/// The player; see the head of this file.
pub struct Player {
    recording: Arc<Recording>,
    controls: Controls,
    reading: Peekable<Reading>,
    info: Option<Arc<Info>>,
    sequence: u64,
    position_ns: u64,
    last_step: Option<Instant>,
}

/// Few logs hold stacks, and those once a minute.
struct NoStacks;

/// What is said of them.
const NO_STACKS: &str =
    "stacks are not played; `netto report --format folded` or `pprof` reads those of a log";

impl StackSource for NoStacks {
    fn folded(&self) -> anyhow::Result<Folded> {
        bail!(NO_STACKS)
    }

    fn begin_profile(self: Arc<Self>) -> anyhow::Result<Box<dyn OpenProfile>> {
        bail!(NO_STACKS)
    }
}

impl SnapshotSource for Player {
    fn stacks(&self) -> Arc<dyn StackSource> {
        Arc::new(NoStacks)
    }

    /// The next interval of the recording, regardless of its viewers.
    fn next_snapshot(&mut self) -> anyhow::Result<Snapshot> {
        match self.reading.next() {
            Some(frame) => {
                self.position_ns = frame.at_ns;
                Ok(self.number(frame.snapshot))
            }
            None => bail!("the recording is over"),
        }
    }

    fn next_step(&mut self) -> anyhow::Result<Update> {
        let now = Instant::now();
        let last = self.last_step.replace(now).unwrap_or(now);
        Ok(self.step(now.duration_since(last).min(LONGEST_STEP)))
    }
}

impl Player {
    /// A player at the beginning of a recording.
    pub fn new(recording: Arc<Recording>, controls: Controls) -> Self {
        let reading = recording.read_from(0).peekable();
        let position_ns = recording.facts().span_ns.0;
        Player {
            recording,
            controls,
            reading,
            info: None,
            sequence: 0,
            position_ns,
            last_step: None,
        }
    }

    /// The description of the first interval.
    pub fn first_info(&mut self) -> Option<Info> {
        let first = self.reading.peek()?;
        Some(self.recording.presented(&first.info))
    }

    /// The update after this much time.
    pub fn step(&mut self, elapsed: Duration) -> Update {
        let orders = self.controls.take_orders();
        if let Some(to_ns) = orders.seek_ns {
            return self.go_to(to_ns);
        }
        if !orders.playing {
            return Update::default();
        }
        let begun = Instant::now();
        let length_ns = (elapsed.as_nanos() as f64 * orders.speed) as u64;
        let mut until_ns = self.position_ns.saturating_add(length_ns);
        let mut sum: Option<Frame> = None;
        while let Some(next) = self.reading.peek() {
            if sum.is_none() && next.begin_ns() > self.position_ns.saturating_add(SILENCE_NS) {
                self.position_ns = next.begin_ns();
                until_ns = self.position_ns.saturating_add(length_ns);
            }
            if next.at_ns > until_ns || sum.as_ref().is_some_and(|sum| !continues(sum, next)) {
                break;
            }
            let Some(next) = self.reading.next() else {
                break;
            };
            self.position_ns = self.position_ns.max(next.at_ns);
            match &mut sum {
                None => sum = Some(next),
                Some(sum) => {
                    sum.snapshot.add(&next.snapshot);
                    sum.at_ns = next.at_ns;
                }
            }
            if begun.elapsed() > READING_TIME {
                until_ns = self.position_ns;
            }
        }
        let is_over = self.reading.peek().is_none();
        // Intervals left for the next step are not skipped.
        let waits = self
            .reading
            .peek()
            .is_some_and(|next| next.at_ns <= until_ns);
        if !waits && !is_over {
            self.position_ns = self.position_ns.max(until_ns);
        }
        self.give(sum, None, is_over)
    }

    /// Seeks to a time, with the preceding history.
    fn go_to(&mut self, to_ns: u64) -> Update {
        let from_ns = to_ns.saturating_sub(LEAST_COVERED_NS);
        self.reading = self.recording.read_from(from_ns).peekable();
        let mut past = Past::default();
        let mut last: Option<Frame> = None;
        // The first interval is shown even if the time is before its end.
        while let Some(next) = self
            .reading
            .next_if(|next| next.at_ns <= to_ns || last.is_none())
        {
            if let Some(before) = last.replace(next)
                && before.at_ns >= from_ns
            {
                past.push(before);
            }
        }
        self.position_ns = last.as_ref().map_or(to_ns, |last| to_ns.max(last.at_ns));
        let history = last.as_ref().map(|last| {
            let mut history = past.into_history(&last.info);
            history.restart_sequence();
            history
        });
        let is_over = self.reading.peek().is_none();
        self.give(last, history, is_over)
    }

    /// Reports the position, and returns the update to show.
    fn give(&mut self, frame: Option<Frame>, past: Option<History>, is_over: bool) -> Update {
        let time_unix_ns = frame.as_ref().map(|frame| frame.snapshot.time_unix_ns);
        self.controls
            .report(self.position_ns, time_unix_ns, is_over);
        let Some(frame) = frame else {
            return Update::default();
        };
        let is_known = self
            .info
            .as_ref()
            .is_some_and(|info| Arc::ptr_eq(info, &frame.info));
        let info = (!is_known).then(|| self.recording.presented(&frame.info));
        self.info = Some(frame.info);
        Update {
            info,
            past,
            snapshot: Some(self.number(frame.snapshot)),
        }
    }

    fn number(&mut self, snapshot: Snapshot) -> Snapshot {
        self.sequence += 1;
        Snapshot {
            sequence: self.sequence,
            ..snapshot
        }
    }
}

/// Whether an interval may be added to those before it.
fn continues(sum: &Frame, next: &Frame) -> bool {
    let pause_ns = next.begin_ns().saturating_sub(sum.at_ns);
    Arc::ptr_eq(&sum.info, &next.info) && pause_ns <= next.snapshot.interval_ns
}

/// Collects the history before the time sought.
#[derive(Default)]
struct Past(Option<(Arc<Info>, History)>);

impl Past {
    fn push(&mut self, frame: Frame) {
        let mut history = std::mem::take(self).into_history(&frame.info);
        // A history only requires increasing numbers.
        history.push(&Snapshot {
            sequence: history.last_sequence() + 1,
            ..frame.snapshot
        });
        self.0 = Some((frame.info, history));
    }

    /// The history under this description.
    fn into_history(self, info: &Arc<Info>) -> History {
        match self.0 {
            Some((known_info, history)) if Arc::ptr_eq(&known_info, info) => history,
            Some((_, older)) => {
                let mut fresh = History::new(info);
                fresh.continue_from(older);
                fresh
            }
            None => History::new(info),
        }
    }
}
