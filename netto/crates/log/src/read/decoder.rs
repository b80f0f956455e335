//! Decodes the messages of a log into intervals with their descriptions. Pure.

use std::sync::Arc;

use metrics_common::codec::{Gap, ServerMessage, Stacks};
use metrics_common::{Availability, COMPONENTS, ComponentInfo, Info, Snapshot};
use netto_log_format::Digest;

/// The meaning of a message.
#[derive(Debug)]
pub enum Event {
    /// One interval, and the description of its rows.
    Interval(Arc<Info>, Box<Snapshot>),
    /// An interval whose description is lost, with rows unknown to this netto.
    Undescribed(Box<Snapshot>),
    /// The sums of consecutive intervals; only where digests are read.
    Digest(Box<Digest>),
    /// Snapshots that could not be written.
    Gap(Gap),
    /// Sampled stacks.
    Stacks(Box<Stacks>),
}

/// Decodes messages in order.
#[derive(Debug, Default)]
pub struct MessageDecoder {
    info: Option<Arc<Info>>,
    is_guess: bool,
    undescribed: u64,
}

impl MessageDecoder {
    /// Starts in the middle of a log, where this description applies.
    pub fn within(info: Arc<Info>) -> Self {
        MessageDecoder {
            info: Some(info),
            ..Self::default()
        }
    }

    /// The description that applies now.
    pub fn info(&self) -> Option<&Arc<Info>> {
        self.info.as_ref()
    }

    /// Whether that is this netto's own, because the log has lost it.
    pub fn is_guess(&self) -> bool {
        self.is_guess
    }

    /// Number of intervals without a description.
    pub fn undescribed(&self) -> u64 {
        self.undescribed
    }

    /// Decodes a message; `None` if it only changes the meaning of the next ones.
    pub fn decode(&mut self, message: ServerMessage) -> Option<Event> {
        match message {
            ServerMessage::Hello(info) => {
                if self.info.as_deref() != Some(&*info) {
                    self.info = Some(Arc::new(*info));
                }
                self.is_guess = false;
                None
            }
            ServerMessage::Snapshot(snapshot) => Some(self.interval(snapshot)),
            ServerMessage::Gap(gap) => Some(Event::Gap(gap)),
            ServerMessage::Stacks(stacks) => Some(Event::Stacks(stacks)),
            ServerMessage::History(_) | ServerMessage::Bye(_) => None,
        }
    }

    fn interval(&mut self, snapshot: Box<Snapshot>) -> Event {
        if self.info.is_none() {
            self.undescribed += 1;
            self.info = guess(&snapshot).map(Arc::new);
            self.is_guess = self.info.is_some();
        }
        match &self.info {
            Some(info) => Event::Interval(info.clone(), snapshot),
            None => Event::Undescribed(snapshot),
        }
    }
}

/// A description for an interval whose own is lost; `None` if its rows are not this netto's.
fn guess(snapshot: &Snapshot) -> Option<Info> {
    if snapshot.cost().components.len() != COMPONENTS.len() {
        return None;
    }
    let unknown = || "unknown".to_owned();
    Some(Info {
        version: unknown(),
        kernel: unknown(),
        hostname: unknown(),
        boot_id: String::new(),
        started_unix_ns: snapshot.time_unix_ns,
        user_period_ms: (snapshot.interval_ns / 1_000_000).max(1),
        frequency_hz: 0,
        sampler: None,
        max_overhead_ratio: None,
        possible_cpus: snapshot.cpus.len() as u32,
        numa_nodes: Vec::new(),
        components: ComponentInfo::table(|_| Availability::by("unknown")),
        probes: Vec::new(),
        missable: Vec::new(),
        power: match snapshot.sections.power {
            Some(_) => Availability::by("unknown"),
            None => Availability::missing("the log has lost its description"),
        },
        instruments: Vec::new(),
        notes: Vec::new(),
    })
}
