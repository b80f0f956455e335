//! From the messages of a log to intervals that explain themselves: each with its place on the
//! axis and with its description, to which the notes on the recording are added. Pure.

use std::sync::Arc;

use metrics_common::codec::ServerMessage;
use metrics_common::{Availability, COMPONENTS, ComponentInfo, Info, Snapshot};

use super::tape::TapeClock;
use netto_questions::words;

/// An interval as it is played.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Its end on the axis of the recording, nanoseconds.
    pub at_ns: u64,
    /// What its rows mean, with the notes on the recording.
    pub info: Arc<Info>,
    /// The interval as it was recorded.
    pub snapshot: Snapshot,
}

impl Frame {
    /// Its begin on the axis of the recording, nanoseconds.
    pub fn begin_ns(&self) -> u64 {
        self.at_ns.saturating_sub(self.snapshot.interval_ns)
    }
}

/// What is added to the notes of every description.
#[derive(Debug, Clone, Default)]
pub(super) struct Notes {
    /// Recorded begin and end, nanoseconds since the Unix epoch; `None` while they are looked for.
    pub(super) span_unix_ns: Option<(u64, u64)>,
    /// What is missing, one sentence each.
    pub(super) missing: Arc<[String]>,
}

impl Notes {
    pub(super) fn added_to(&self, mut info: Info) -> Info {
        if let Some((begin, end)) = self.span_unix_ns {
            let mut notes = vec![words::label(&info.hostname, begin, end)];
            notes.extend(self.missing.iter().cloned());
            notes.append(&mut info.notes);
            info.notes = notes;
        }
        info
    }
}

/// Makes intervals of messages.
#[derive(Debug, Default)]
pub(super) struct Narration {
    pub(super) info: Option<Arc<Info>>,
    pub(super) clock: TapeClock,
    pub(super) notes: Notes,
    /// Whether snapshots were explained by this netto's own table.
    pub(super) has_guessed: bool,
}

/// What a message came to.
pub(super) enum Heard {
    Frame(Box<Frame>),
    Unexplained,
    Nothing,
}

impl Narration {
    pub(super) fn hear(&mut self, message: ServerMessage) -> Heard {
        let snapshot = match message {
            ServerMessage::Hello(info) => {
                let info = self.notes.added_to(*info);
                if self.info.as_deref() != Some(&info) {
                    self.info = Some(Arc::new(info));
                }
                return Heard::Nothing;
            }
            ServerMessage::Snapshot(snapshot) => *snapshot,
            _ => return Heard::Nothing,
        };
        if self.info.is_none()
            && let Some(guess) = guessed(&snapshot)
        {
            self.has_guessed = true;
            self.info = Some(Arc::new(self.notes.added_to(guess)));
        }
        let Some(info) = self.info.clone() else {
            return Heard::Unexplained;
        };
        Heard::Frame(Box::new(Frame {
            at_ns: self.clock.advance(&snapshot),
            info,
            snapshot,
        }))
    }
}

/// A description for a snapshot whose own is lost; `None` if its rows are not this netto's.
fn guessed(snapshot: &Snapshot) -> Option<Info> {
    if snapshot.cost().components.len() != COMPONENTS.len() {
        return None;
    }
    let unknown = || Availability::by("unknown");
    Some(Info {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: "unknown".to_owned(),
        hostname: "unknown".to_owned(),
        boot_id: String::new(),
        started_unix_ns: snapshot.time_unix_ns,
        user_period_ms: (snapshot.interval_ns / 1_000_000).max(1),
        frequency_hz: 0,
        sampler: None,
        max_overhead_ratio: None,
        possible_cpus: snapshot.cpus.len() as u32,
        numa_nodes: Vec::new(),
        components: ComponentInfo::table(|_| unknown()),
        probes: Vec::new(),
        missable: Vec::new(),
        power: unknown(),
        instruments: Vec::new(),
        notes: Vec::new(),
    })
}
