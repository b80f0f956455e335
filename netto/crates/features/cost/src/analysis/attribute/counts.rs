//! Samples of one CPU, counted by classification.

use metrics_common::component::CLOCK_KINDS;
use metrics_common::{COMPONENTS, Kind, Source};

use netto_analysis::classify::SampleOwner;
use netto_estimate::design_effect::Mass;

/// Samples of one CPU in one interval. The weight of each is in samples that stand for one period of its CPU.
#[derive(Debug, Clone)]
pub struct StackCounts {
    /// Number of all.
    taken: u64,
    /// By clock kind.
    pub(super) kinds: [Mass; CLOCK_KINDS],
    /// By clock kind and event.
    events: Vec<Mass>,
    /// By event, in all clock kinds.
    pub(super) of_event: Vec<Mass>,
    /// Their number.
    pub(super) numbers: Vec<u32>,
    /// By sampled part.
    pub(super) parts: Vec<Mass>,
    /// Of io_uring threads, by [`Request`].
    pub(super) requests: [f64; 2],
    /// Samples of the RX softirq whose stacks alone show it.
    shown: Mass,
}

impl Default for StackCounts {
    fn default() -> Self {
        let rows = vec![Mass::default(); COMPONENTS.len()];
        StackCounts {
            taken: 0,
            kinds: [Mass::default(); CLOCK_KINDS],
            events: vec![Mass::default(); CLOCK_KINDS * COMPONENTS.len()],
            of_event: rows.clone(),
            numbers: vec![0; COMPONENTS.len()],
            parts: rows,
            requests: [0.0; 2],
            shown: Mass::default(),
        }
    }
}

impl StackCounts {
    /// Adds a sample of this weight, taken in clock kind `kind`.
    pub fn add(&mut self, kind: u8, owner: Option<SampleOwner>, weight: f64) {
        let Some(of_kind) = self.kinds.get_mut(usize::from(kind)) else {
            return;
        };
        self.taken += 1;
        of_kind.add(weight);
        if let Some(SampleOwner { event, part }) = owner {
            self.events[usize::from(kind) * COMPONENTS.len() + event].add(weight);
            self.of_event[event].add(weight);
            self.numbers[event] += 1;
            if let Some(part) = part {
                self.parts[part].add(weight);
            }
        }
    }

    /// Adds the request of an io_uring thread's sample, which has been added already.
    pub fn add_request(&mut self, request: Request, weight: f64) {
        self.requests[request as usize] += weight;
    }

    /// Adds a sample of the RX softirq that shows it without the clock, and has been added
    /// already.
    pub fn add_shown(&mut self, weight: f64) {
        self.shown.add(weight);
    }

    /// Samples of the RX softirq that show it without the clock.
    pub fn shown(&self) -> Mass {
        self.shown
    }

    /// Resets all counts, keeping the memory.
    pub fn clear(&mut self) {
        // Most CPUs have none in most intervals.
        if self.taken == 0 {
            return;
        }
        self.taken = 0;
        self.kinds = [Mass::default(); CLOCK_KINDS];
        self.events.fill(Mass::default());
        self.of_event.fill(Mass::default());
        self.numbers.fill(0);
        self.parts.fill(Mass::default());
        self.requests = [0.0; 2];
        self.shown = Mass::default();
    }

    /// Total number of samples.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether any sample is of what only samples show: networking, and io_uring's threads that look for
    /// requests, which become networking with the first socket.
    pub fn has_networking_or_spinning(&self) -> bool {
        let is_wanted = |event| {
            is_networking(event)
                || matches!(COMPONENTS[event].kind, Kind::Timed(Source::IoWorker, _))
        };
        let mut events = self.numbers.iter().enumerate();
        events.any(|(event, &number)| number > 0 && is_wanted(event))
    }

    /// Samples in one clock kind, by event.
    pub(super) fn of_kind(&self, kind: usize) -> &[Mass] {
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
