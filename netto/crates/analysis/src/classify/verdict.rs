//! What a classifier says of a stack, and what it remembers of one that it knows, in few bytes.

use metrics_common::COMPONENTS;

use crate::families::Family;

/// Whose time a sample belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleOwner {
    /// The component (index in the table) whose time it is: what the clock says,
    /// or what the stack shows inside of that.
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

/// An [`SampleOwner`], or nobody, in two bytes.
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

/// A stack that a classifier knows, by a number of its own. Numbers count up from 0; in another
/// epoch they are those of other stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackId {
    /// Changes when all stacks are forgotten.
    pub epoch: u64,
    /// The stack's number.
    pub number: usize,
}

/// What is known of a stack, in whichever clock kind it was taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Verdict {
    pub(super) ruling: Ruling,
    pub(super) is_io_thread: bool,
    /// Of a softirq's stack: whether it shows the softirq.
    pub(super) shows_softirq: bool,
    /// Whether it shows that the packet at hand has met its socket.
    pub(super) has_met_socket: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Ruling {
    /// It shows whose it is, and perhaps the family of a shared call.
    Clear(Packed, Option<(u8, Family)>),
    /// It ends in a shared call: whose it is if that is the Internet's, local, or not known.
    Shared(u8, [Packed; 3]),
}

pub(super) const NOBODYS: Verdict = Verdict {
    ruling: Ruling::Clear(NOBODY, None),
    is_io_thread: false,
    shows_softirq: false,
    has_met_socket: false,
};
