//! Flows in the order of their starts, out of records that are nearly so: collectors write a
//! record when its flow has ended.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::flow::Flow;

/// Flows by their starts, those of the same start in the order of the file.
struct Waiting {
    start_ns: u64,
    number: u64,
    flow: Flow,
}

impl Waiting {
    fn key(&self) -> (u64, u64) {
        (self.start_ns, self.number)
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    /// The earliest is the greatest, which a heap gives first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// Flows that are put in order.
pub struct InOrder<I> {
    source: I,
    waiting: BinaryHeap<Waiting>,
    look_ahead: usize,
    taken: u64,
    last_ns: u64,
    moved: u64,
}

impl<I: Iterator<Item = Flow>> InOrder<I> {
    /// Looks so many records ahead, at least one.
    pub fn new(source: I, look_ahead: usize) -> Self {
        InOrder {
            source,
            waiting: BinaryHeap::new(),
            look_ahead: look_ahead.max(1),
            taken: 0,
            last_ns: 0,
            moved: 0,
        }
    }

    /// Flows that came after later ones had begun, and were moved to these.
    pub fn moved(&self) -> u64 {
        self.moved
    }
}

impl<I: Iterator<Item = Flow>> Iterator for InOrder<I> {
    type Item = Flow;

    fn next(&mut self) -> Option<Flow> {
        while self.waiting.len() < self.look_ahead
            && let Some(flow) = self.source.next()
        {
            self.waiting.push(Waiting {
                start_ns: flow.start_ns(),
                number: self.taken,
                flow,
            });
            self.taken += 1;
        }
        let mut flow = self.waiting.pop()?.flow;
        if flow.start_ns() < self.last_ns {
            flow.begin_at(self.last_ns);
            self.moved += 1;
        }
        self.last_ns = flow.start_ns();
        Some(flow)
    }
}
