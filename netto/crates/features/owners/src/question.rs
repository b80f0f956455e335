//! The requests of the analyzer to the resolver's thread, and the answers.

use std::sync::Arc;

use super::analysis::pods::Pod;
use super::kernel::processes;

/// Capacity of the queues of requests and of answers.
pub(crate) const MOST_ASKED: usize = 4096;

/// The path of packets through interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Interface {
    /// Inode of the network namespace.
    pub(crate) netns: u64,
    /// Index of the interface by which they came, and went; 0 if none.
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl Interface {
    /// The name for people; an interface without a name is shown by index.
    pub(crate) fn name(self, mut name_of: impl FnMut(u32) -> Option<String>) -> String {
        let mut name = |index: u32| name_of(index).unwrap_or_else(|| format!("interface {index}"));
        match (self.from, self.to) {
            (_, 0) => format!("received by {}", name(self.from)),
            (0, _) => format!("sent by {}", name(self.to)),
            _ => format!("forwarded to {}", name(self.to)),
        }
    }
}

/// The subject of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    /// The path of the group of this number.
    Group(u64),
    /// The pod of this identity.
    Pod(u128),
    /// The process that holds the socket of this inode.
    Holder(u64),
    /// The name of an interface, and the owner behind it.
    Interface(Interface),
}

/// A request, and the group in which the answer is likely.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) asked: Subject,
    pub(crate) group: Option<Box<[u8]>>,
}

/// An answer. `None`: searched for and not found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The path of a group.
    Group(u64, Option<Box<[u8]>>),
    /// The name of a pod.
    Pod(u128, Option<Pod>),
    /// The holder of a socket at a time on CLOCK_MONOTONIC.
    Holder {
        socket: u64,
        process: Option<Arc<processes::Process>>,
        at_ns: u64,
    },
    /// The name of an interface at a time, and the group of the owner behind it.
    Interface {
        interface: Interface,
        name: String,
        group: Option<Vec<u8>>,
        at_ns: u64,
    },
    /// Why processes of some sockets are not known.
    Refused(String),
}
