//! Samples of one CPU, counted by classification.

use metrics_common::component::CLOCK_KINDS;
use metrics_common::{COMPONENTS, Kind, Source};

use netto_analysis::classify::SampleOwner;

/// Samples of one CPU in one interval.
#[derive(Debug, Clone)]
pub struct StackCounts {
    /// By clock kind.
    pub(super) kinds: [u32; CLOCK_KINDS],
    /// By clock kind and event.
    events: Vec<u32>,
    /// By event, in all clock kinds.
    pub(super) of_event: Vec<u32>,
    /// By sampled part.
    pub(super) parts: Vec<u32>,
    /// Of io_uring threads, by [`Request`].
    pub(super) requests: [u32; 2],
    /// Samples of the RX softirq whose stacks alone show it.
    shown: u32,
}

impl Default for StackCounts {
    fn default() -> Self {
        StackCounts {
            kinds: [0; CLOCK_KINDS],
            events: vec![0; CLOCK_KINDS * COMPONENTS.len()],
            of_event: vec![0; COMPONENTS.len()],
            parts: vec![0; COMPONENTS.len()],
            requests: [0; 2],
            shown: 0,
        }
    }
}

impl StackCounts {
    /// Counts a sample taken in clock kind `kind`.
    pub fn add(&mut self, kind: u8, owner: Option<SampleOwner>) {
        let Some(count) = self.kinds.get_mut(usize::from(kind)) else {
            return;
        };
        *count += 1;
        if let Some(SampleOwner { event, part }) = owner {
            self.events[usize::from(kind) * COMPONENTS.len() + event] += 1;
            self.of_event[event] += 1;
            if let Some(part) = part {
                self.parts[part] += 1;
            }
        }
    }

    /// Counts the request of an io_uring thread's sample, which has been added already.
    pub fn add_request(&mut self, request: Request) {
        self.requests[request as usize] += 1;
    }

    /// Counts a sample of the RX softirq that shows it without the clock, and has been added
    /// already.
    pub fn add_shown(&mut self) {
        self.shown += 1;
    }

    /// Samples of the RX softirq that show it without the clock.
    pub fn shown(&self) -> u32 {
        self.shown
    }

    /// Resets all counts, keeping the memory.
    pub fn clear(&mut self) {
        // Most CPUs have none in most intervals.
        if self.taken() == 0 {
            return;
        }
        self.kinds = [0; CLOCK_KINDS];
        self.events.fill(0);
        self.of_event.fill(0);
        self.parts.fill(0);
        self.requests = [0; 2];
        self.shown = 0;
    }

    /// Total number of samples.
    pub fn taken(&self) -> u64 {
        self.kinds.iter().map(|&count| u64::from(count)).sum()
    }

    /// Whether any sample is of what only samples show: networking, and io_uring's threads that look for
    /// requests, which become networking with the first socket.
    pub fn has_networking_or_spinning(&self) -> bool {
        let is_wanted = |event| {
            is_networking(event)
                || matches!(COMPONENTS[event].kind, Kind::Timed(Source::IoWorker, _))
        };
        let mut events = self.of_event.iter().enumerate();
        events.any(|(event, &count)| count > 0 && is_wanted(event))
    }

    /// Samples in one clock kind, by event.
    pub(super) fn of_kind(&self, kind: usize) -> &[u32] {
        &self.events[kind * COMPONENTS.len()..][..COMPONENTS.len()]
    }
}

/// The request of an io_uring thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Sends, receives, connections and the like.
    Network,
    /// Anything else.
    Other,
}

impl Request {
    /// The kind of request that a sample of this event shows; `None` for softirqs and for the
    /// thread's own work for all requests.
    pub fn of(event: usize) -> Option<Self> {
        match COMPONENTS[event].kind {
            Kind::Timed(Source::Softirq(_) | Source::NicInterrupt | Source::IoWorker, _)
            | Kind::Carved(Source::Softirq(_), _) => None,
            Kind::Carved(Source::IoWorker, _) if is_networking(event) => None,
            _ if is_networking(event) => Some(Request::Network),
            _ => Some(Request::Other),
        }
    }
}

/// Whether an event is part of networking.
pub fn is_networking(event: usize) -> bool {
    COMPONENTS[event].parent == Some("network")
}
