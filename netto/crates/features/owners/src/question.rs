//! What the analyzer asks the thread that looks for names, and what that answers.

use std::sync::Arc;

use super::analysis::pods::Pod;
use super::kernel::processes;

/// So many questions wait for an answer, and so many answers to be taken.
pub(crate) const MOST_ASKED: usize = 4096;

/// Where packets came from or went to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Interface {
    /// Inode of the network namespace.
    pub(crate) netns: u64,
    /// By which they came, and went; 0 if not at all.
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl Interface {
    /// What it is called for people; where an interface has no name, by number.
    pub(crate) fn name(self, mut name_of: impl FnMut(u32) -> Option<String>) -> String {
        let mut name = |index: u32| name_of(index).unwrap_or_else(|| format!("interface {index}"));
        match (self.from, self.to) {
            (_, 0) => format!("received by {}", name(self.from)),
            (0, _) => format!("sent by {}", name(self.to)),
            _ => format!("forwarded to {}", name(self.to)),
        }
    }
}

/// What somebody wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Asked {
    /// The path of the group of this number.
    Group(u64),
    /// The pod of this identity.
    Pod(u128),
    /// The process that holds the socket of this inode.
    Holder(u64),
    /// What an interface is called, and who is behind it.
    Interface(Interface),
}

/// A question, and in which group the answer is likely.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) asked: Asked,
    pub(crate) group: Option<Box<[u8]>>,
}

/// An answer. `None`: it was looked for and is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The path of a group.
    Group(u64, Option<Box<[u8]>>),
    /// What a pod is called.
    Pod(u128, Option<Pod>),
    /// Who held a socket at a time on CLOCK_MONOTONIC.
    Holder {
        socket: u64,
        process: Option<Arc<processes::Process>>,
        at_ns: u64,
    },
    /// What an interface was called at a time, and the group of who is behind it.
    Interface {
        interface: Interface,
        name: String,
        group: Option<Vec<u8>>,
        at_ns: u64,
    },
    /// Why processes of some sockets are not known.
    Refused(String),
}
