//! A classifier's result for a stack, and its compact form in the cache.

use metrics_common::COMPONENTS;

use crate::families::Family;

/// The component that a sample belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleOwner {
    /// The event (index in the table): the one of the clock, or a more specific one shown by the
    /// stack.
    pub event: usize,
    /// The sampled part of it; `None` if no stage marker was met.
    pub part: Option<usize>,
}

impl SampleOwner {
    pub(super) fn packed(self) -> Packed {
        Packed {
            event: self.event as u8,
            part: self.part.map_or(NOTHING, |part| part as u8),
        }
    }
}

/// A [`SampleOwner`], or none, in two bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packed {
    event: u8,
    part: u8,
}

/// No row of the table.
const NOTHING: u8 = u8::MAX;
const _: () = assert!(COMPONENTS.len() < NOTHING as usize);

pub(super) const NOBODY: Packed = Packed {
    event: NOTHING,
    part: NOTHING,
};

impl Packed {
    pub(super) fn owner(self) -> Option<SampleOwner> {
        (self.event != NOTHING).then_some(SampleOwner {
            event: usize::from(self.event),
            part: (self.part != NOTHING).then_some(usize::from(self.part)),
        })
    }
}

/// The number of a cached stack. Numbers count up from 0 in each epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackId {
    /// Changes when the cache is emptied.
    pub epoch: u64,
    /// The stack's number.
    pub number: usize,
}

/// The cached result for a stack.
#[derive(Debug, Clone, Copy)]
pub(super) struct Verdict {
    pub(super) ruling: Ruling,
    pub(super) is_io_thread: bool,
    /// Of a softirq's stack: whether it shows the softirq.
    pub(super) shows_softirq: bool,
    /// Whether it shows that the packet's socket is known.
    pub(super) has_met_packet: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Ruling {
    /// The stack shows the owner, and perhaps the family of a shared call.
    Clear(Packed, Option<(u8, Family)>),
    /// The stack ends in a shared call: its owner if the family is Internet, local, or unknown.
    Shared(u8, [Packed; 3]),
}

pub(super) const NOBODYS: Verdict = Verdict {
    ruling: Ruling::Clear(NOBODY, None),
    is_io_thread: false,
    shows_softirq: false,
    has_met_packet: false,
};
