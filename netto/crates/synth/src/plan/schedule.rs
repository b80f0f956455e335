//! The packets of all flows in one order of time: a heap of the next packet of each flow under way.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::flow::Flow;
use super::times::Jitter;
use crate::packet::Packet;

/// A packet and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Nanoseconds, on the records' clock.
    pub at_ns: u64,
    /// What is sent.
    pub packet: Packet,
}

/// Time of a flow's next packet, the flow's number, and its place.
type Next = Reverse<(u64, u64, u32)>;

/// All packets in the order of time.
pub struct Schedule<I> {
    /// Flows in the order of their starts.
    source: I,
    coming: Option<Flow>,
    under_way: Vec<Flow>,
    free: Vec<u32>,
    next: BinaryHeap<Next>,
    jitter: Jitter,
    begun: u64,
    last_end_ns: u64,
}

impl<I: Iterator<Item = Flow>> Schedule<I> {
    /// The packets of these flows, which come in the order of their starts.
    pub fn new(mut source: I, jitter: Jitter) -> Self {
        let coming = source.next();
        Schedule {
            source,
            coming,
            under_way: Vec::new(),
            free: Vec::new(),
            next: BinaryHeap::new(),
            jitter,
            begun: 0,
            last_end_ns: 0,
        }
    }

    /// Where flows come from.
    pub fn source(&self) -> &I {
        &self.source
    }

    /// Time of the first packet.
    pub fn start_ns(&self) -> Option<u64> {
        self.coming.as_ref().map(Flow::start_ns)
    }

    /// The end of the flows so far.
    pub fn last_end_ns(&self) -> u64 {
        self.last_end_ns
    }

    /// The most flows that were under way at once.
    pub fn most_under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Begins all flows that begin before the next packet of those under way, or with it.
    fn begin(&mut self) {
        while let Some(flow) = &self.coming {
            let start_ns = flow.start_ns();
            if self
                .next
                .peek()
                .is_some_and(|Reverse((at_ns, ..))| *at_ns < start_ns)
            {
                return;
            }
            self.last_end_ns = self.last_end_ns.max(flow.end_ns());
            let place = match self.free.pop() {
                Some(place) => {
                    self.under_way[place as usize] = *flow;
                    place
                }
                None => {
                    self.under_way.push(*flow);
                    // So many flows at once have no room in memory.
                    (self.under_way.len() - 1) as u32
                }
            };
            self.next.push(Reverse((start_ns, self.begun, place)));
            self.begun += 1;
            self.coming = self.source.next();
        }
    }
}

impl<I: Iterator<Item = Flow>> Iterator for Schedule<I> {
    type Item = Due;

    fn next(&mut self) -> Option<Due> {
        self.begin();
        let mut top = self.next.peek_mut()?;
        let Reverse((at_ns, number, place)) = *top;
        let flow = &mut self.under_way[place as usize];
        let packet = flow.take();
        match flow.next_ns(number, self.jitter) {
            // Replacing the top costs half of removing it and adding another.
            Some(next_ns) => *top = Reverse((next_ns, number, place)),
            None => {
                PeekMut::pop(top);
                self.free.push(place);
            }
        }
        Some(Due { at_ns, packet })
    }
}
