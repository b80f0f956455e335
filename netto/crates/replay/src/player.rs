//! The player: a recording as a source of snapshots, at the pace that its viewers ask for.
//!
//! At each step it gives at most one snapshot. Where several intervals have ended since the
//! last step, because it plays faster than was recorded, they are added up to one: so sums
//! over what it gave are those of the recording. Intervals are never added up across another
//! description or a pause of the daemon. Where nothing was recorded, nothing is waited for.
//! Snapshots are numbered anew, since those who take them know only numbers that grow.

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
use netto_pipeline::trace_analyzer::{SnapshotSource, StackSource, Update};

/// How often the player looks what is due.
pub const PERIOD: Duration = Duration::from_millis(100);
/// So much of the host's time may pass between two steps; more was a suspended machine.
const LONGEST_STEP: Duration = Duration::from_secs(1);
/// Reading takes at most so much of a step; what is due then comes with the next.
const READING_TIME: Duration = Duration::from_millis(80);
/// Where nothing was recorded for longer, it goes on at once.
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

/// A log holds no stacks.
struct NoStacks;

impl StackSource for NoStacks {
    fn folded(&self) -> anyhow::Result<Folded> {
        bail!("a recording holds no stacks, so there is no flame graph")
    }
}

impl SnapshotSource for Player {
    fn stacks(&self) -> Arc<dyn StackSource> {
        Arc::new(NoStacks)
    }

    /// The next interval of the recording, whatever its viewers ask for.
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

    /// What is due after so much time.
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
        // What is left for the next step is not skipped.
        let waits = self
            .reading
            .peek()
            .is_some_and(|next| next.at_ns <= until_ns);
        if !waits && !is_over {
            self.position_ns = self.position_ns.max(until_ns);
        }
        self.give(sum, None, is_over)
    }

    /// Goes to a place, with the past of that place.
    fn go_to(&mut self, to_ns: u64) -> Update {
        let from_ns = to_ns.saturating_sub(LEAST_COVERED_NS);
        self.reading = self.recording.read_from(from_ns).peekable();
        let mut past = Past::default();
        let mut last: Option<Frame> = None;
        // The first interval is shown even where the place is before its end.
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

    /// Reports where it is, and makes a step of what is to be shown.
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
            .is_some_and(|known| Arc::ptr_eq(known, &frame.info));
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

/// What was before the place that is gone to.
#[derive(Default)]
struct Past(Option<(Arc<Info>, History)>);

impl Past {
    fn push(&mut self, frame: Frame) {
        let mut history = std::mem::take(self).into_history(&frame.info);
        // Numbers that grow are all that a history asks for.
        history.push(&Snapshot {
            sequence: history.last_sequence() + 1,
            ..frame.snapshot
        });
        self.0 = Some((frame.info, history));
    }

    /// The history under this description.
    fn into_history(self, info: &Arc<Info>) -> History {
        match self.0 {
            Some((own, history)) if Arc::ptr_eq(&own, info) => history,
            Some((_, older)) => {
                let mut fresh = History::new(info);
                fresh.continue_from(older);
                fresh
            }
            None => History::new(info),
        }
    }
}
