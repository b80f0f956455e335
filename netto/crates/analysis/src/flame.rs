//! The stacks of networking of the last 30 to 60 seconds, for a flame graph.
//!
//! Equal stacks are counted together, by function, so that a minute takes little memory; stacks
//! beyond the limit are counted as left out. The counts are shared with other threads without a
//! copy; they are copied only if they are still being read when counting continues. Names are
//! looked up only by the reader. Pure.

use std::sync::Arc;

use metrics_common::component::index_of;
use metrics_common::{COMPONENTS, Folded};
use rustc_hash::FxHashMap;

use super::classify::StackId;
use super::repeated::{Most, Numbered, Repeated};

/// Stacks are kept for at least this long, and at most twice as long.
const GENERATION_NS: u64 = 30_000_000_000;
/// Most distinct stacks of one generation, at most 1 MB.
const MOST: Most = Most {
    known: 4096,
    words: 1 << 17,
};

/// The counts of one time span.
#[derive(Debug, Clone)]
struct Generation {
    /// Counted stacks: the event (index in the table), then the starts of its functions,
    /// innermost first.
    stacks: Repeated,
    /// By their numbers.
    counts: Vec<u32>,
    left_out: u64,
    began_ns: u64,
}

impl Generation {
    fn new(began_ns: u64) -> Self {
        Generation {
            stacks: Repeated::new(MOST),
            counts: Vec::new(),
            left_out: 0,
            began_ns,
        }
    }

    /// Removes all counts, keeping the memory.
    fn begin_anew(&mut self, now_ns: u64) {
        self.stacks.clear();
        self.counts.clear();
        self.left_out = 0;
        self.began_ns = now_ns;
    }

    fn each(&self) -> impl Iterator<Item = (&[u64], u32)> {
        self.stacks.iter().zip(self.counts.iter().copied())
    }
}

/// Collects stacks; see the head of this file.
#[derive(Debug)]
pub struct Flame {
    is_network: Vec<bool>,
    current: Arc<Generation>,
    previous: Arc<Generation>,
    /// By the classifier's number of a stack: where it is counted.
    nodes: Vec<Node>,
    /// The classifier's epoch of the numbers.
    epoch: u64,
}

/// Where a stack of an event is counted.
#[derive(Debug, Clone, Copy)]
struct Node {
    event: u32,
    /// Index in `counts`; [`Node::NONE`] if it was not counted yet.
    at: u32,
}

impl Node {
    const NONE: Node = Node {
        event: 0,
        at: u32::MAX,
    };
}

/// An immutable view of the counts.
#[derive(Debug, Clone)]
pub struct Counted {
    current: Arc<Generation>,
    previous: Arc<Generation>,
    until_ns: u64,
}

impl Flame {
    /// Empty; the time is CLOCK_MONOTONIC.
    pub fn new(now_ns: u64) -> Self {
        let network = index_of("network");
        let mut is_network = vec![false; COMPONENTS.len()];
        for (row, component) in COMPONENTS.iter().enumerate() {
            // Parents precede their children.
            is_network[row] = Some(row) == network
                || component
                    .parent
                    .and_then(index_of)
                    .is_some_and(|parent| is_network[parent]);
        }
        Flame {
            is_network,
            current: Arc::new(Generation::new(now_ns)),
            previous: Arc::new(Generation::new(now_ns)),
            nodes: Vec::new(),
            epoch: 0,
        }
    }

    /// Whether an event (index in the table) is part of networking: others are not collected.
    pub fn wants(&self, event: usize) -> bool {
        self.is_network.get(event).copied().unwrap_or(false)
    }

    /// Counts a stack of the classifier, as often as it is worth samples of weight 1. `functions` is only called for a new stack; it gives the
    /// starts of its functions, innermost first, with 0 for code that was loaded after the symbols
    /// were read.
    pub fn add<'a>(
        &mut self,
        event: usize,
        stack: StackId,
        weight: f64,
        functions: impl FnOnce() -> &'a [u64],
    ) {
        let times = weight.round().max(1.0) as u32;
        if self.epoch != stack.epoch {
            self.epoch = stack.epoch;
            self.nodes.clear();
        }
        let current = Arc::make_mut(&mut self.current);
        let event = event as u32;
        if let Some(node) = self.nodes.get(stack.number)
            && node.event == event
            && let Some(count) = current.counts.get_mut(node.at as usize)
        {
            *count = count.saturating_add(times);
            return;
        }
        let at = match current.stacks.number([u64::from(event)], functions()) {
            Numbered::Again(at) => {
                current.counts[at] = current.counts[at].saturating_add(times);
                at as u32
            }
            Numbered::New(at) => {
                current.counts.push(times);
                at as u32
            }
            Numbered::NoRoom => {
                current.left_out += u64::from(times);
                return;
            }
        };
        if self.nodes.len() <= stack.number {
            self.nodes.resize(stack.number + 1, Node::NONE);
        }
        self.nodes[stack.number] = Node { event, at };
    }

    /// Removes old counts. To be called about once per interval.
    pub fn pass(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.current.began_ns) >= GENERATION_NS {
            std::mem::swap(&mut self.current, &mut self.previous);
            match Arc::get_mut(&mut self.current) {
                Some(oldest) => oldest.begin_anew(now_ns),
                // A reader holds it.
                None => self.current = Arc::new(Generation::new(now_ns)),
            }
            self.nodes.clear();
        }
    }

    /// The current counts.
    pub fn counted(&self, now_ns: u64) -> Counted {
        Counted {
            current: self.current.clone(),
            previous: self.previous.clone(),
            until_ns: now_ns,
        }
    }
}

/// How the function that starts there is called; `name` is that of its symbol.
pub fn shown(start: u64, name: Option<&str>) -> &str {
    match start {
        0 => "[loaded later]",
        _ => name.unwrap_or("[unknown]"),
    }
}

impl Counted {
    /// The starts of all functions on the stacks.
    pub fn functions(&self) -> impl Iterator<Item = u64> + '_ {
        self.keys().flat_map(|key| key.iter().skip(1)).copied()
    }

    fn keys(&self) -> impl Iterator<Item = &[u64]> {
        [&self.previous, &self.current]
            .into_iter()
            .flat_map(|generation| generation.stacks.iter())
    }

    /// The stacks as lines; `names` maps the start of a function to its name.
    pub fn folded<'a>(&self, names: impl Fn(u64) -> Option<&'a str>) -> Folded {
        let mut counts: FxHashMap<&[u64], u64> = FxHashMap::default();
        for generation in [&self.previous, &self.current] {
            for (key, count) in generation.each() {
                *counts.entry(key).or_default() += u64::from(count);
            }
        }
        let mut folded = Folded {
            window_ns: self.until_ns.saturating_sub(self.previous.began_ns),
            left_out: self.previous.left_out + self.current.left_out,
            ..Folded::default()
        };
        for (key, count) in counts {
            let Some((&event, functions)) = key.split_first() else {
                continue;
            };
            let functions = functions.iter().rev();
            folded.add(
                COMPONENTS[event as usize].slug,
                functions.map(|&start| shown(start, names(start))),
                count,
            );
        }
        folded.sort();
        folded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(start: u64) -> Option<&'static str> {
        match start {
            1 => Some("leaf"),
            2 => Some("net_rx_action"),
            _ => None,
        }
    }

    fn row(slug: &str) -> usize {
        index_of(slug).unwrap()
    }

    /// Counts a stack, numbered by its leaf.
    fn count(flame: &mut Flame, event: usize, functions: &[u64]) {
        let number = functions.first().copied().unwrap_or(0) as usize;
        flame.add(event, StackId { epoch: 1, number }, 1.0, || functions);
    }

    #[test]
    fn equal_stacks_are_one_line_that_begins_with_the_event() {
        let mut flame = Flame::new(0);
        for _ in 0..3 {
            count(&mut flame, row("rx_softirq"), &[1, 2]);
        }
        count(&mut flame, row("rx_softirq"), &[9, 2]);
        count(&mut flame, row("rx_softirq"), &[0, 2]);
        count(&mut flame, row("tx_syscall"), &[]);
        let folded = flame.counted(5).folded(name);
        assert_eq!(
            folded.text,
            "rx_softirq;net_rx_action;[loaded later] 1\n\
             rx_softirq;net_rx_action;[unknown] 1\nrx_softirq;net_rx_action;leaf 3\ntx_syscall 1\n"
        );
        assert_eq!(
            (folded.samples, folded.left_out, folded.window_ns),
            (6, 0, 5)
        );
    }

    #[test]
    fn networking_is_collected_and_nothing_else() {
        let flame = Flame::new(0);
        for (slug, wanted) in [
            ("rx_softirq", true),
            ("net_hrtimer", true),
            ("connections", true),
            ("local_ipc", false),
            ("softirq_rcu", false),
        ] {
            assert_eq!(flame.wants(row(slug)), wanted, "{slug}");
        }
        assert!(!flame.wants(COMPONENTS.len()));
    }

    #[test]
    fn a_stack_is_kept_for_one_generation_at_least_and_two_at_most() {
        let mut flame = Flame::new(0);
        count(&mut flame, row("rx_softirq"), &[1]);
        flame.pass(GENERATION_NS - 1);
        assert_eq!(flame.counted(GENERATION_NS).folded(name).samples, 1);
        flame.pass(GENERATION_NS);
        count(&mut flame, row("rx_softirq"), &[1]);
        let both = flame.counted(GENERATION_NS + 1).folded(name);
        assert_eq!((both.samples, both.window_ns), (2, GENERATION_NS + 1));
        assert_eq!(both.text.lines().count(), 1, "of both generations together");
        flame.pass(2 * GENERATION_NS);
        assert_eq!(flame.counted(2 * GENERATION_NS).folded(name).samples, 1);
        flame.pass(3 * GENERATION_NS);
        assert_eq!(flame.counted(3 * GENERATION_NS).folded(name).samples, 0);
    }

    #[test]
    fn what_is_being_read_does_not_change_and_counting_goes_on() {
        let mut flame = Flame::new(0);
        count(&mut flame, row("rx_softirq"), &[1]);
        let read = flame.counted(1);
        count(&mut flame, row("rx_softirq"), &[1]);
        count(&mut flame, row("rx_softirq"), &[2]);
        assert_eq!(read.folded(name).samples, 1);
        assert_eq!(flame.counted(2).folded(name).samples, 3);
        // After the last reader, counting continues without a copy.
        let place = Arc::as_ptr(&flame.current);
        count(&mut flame, row("rx_softirq"), &[1]);
        assert_eq!(Arc::as_ptr(&flame.current), place);
    }

    #[test]
    fn a_stack_counts_as_often_as_it_stands_for_the_time_of_a_usual_one() {
        let mut flame = Flame::new(0);
        let stack = |number| StackId { epoch: 1, number };
        let send = row("tx_syscall");
        for weight in [15.2, 15.2, 1.2] {
            flame.add(send, stack(3), weight, || &[1]);
        }
        let folded = flame.counted(0).folded(name);
        assert_eq!(folded.text, "tx_syscall;leaf 31\n");
    }

    #[test]
    fn a_stack_that_is_known_by_its_number_is_not_looked_at_again() {
        let mut flame = Flame::new(0);
        let known = StackId {
            epoch: 1,
            number: 3,
        };
        let (send, receive) = (row("tx_syscall"), row("rx_syscall"));
        flame.add(send, known, 1.0, || &[1]);
        flame.add(send, known, 1.0, || unreachable!("it is known"));
        // The same stack may belong to another event, and a number to another stack in another
        // epoch.
        flame.add(receive, known, 1.0, || &[1]);
        flame.add(send, StackId { epoch: 2, ..known }, 1.0, || &[2]);
        flame.pass(GENERATION_NS);
        flame.add(send, StackId { epoch: 2, ..known }, 1.0, || &[1]);
        let folded = flame.counted(GENERATION_NS).folded(name);
        assert_eq!(
            folded.text,
            "rx_syscall;leaf 1\ntx_syscall;leaf 3\ntx_syscall;net_rx_action 1\n"
        );
    }

    #[test]
    fn what_there_is_no_room_for_is_counted() {
        let mut flame = Flame::new(0);
        for start in 0..MOST.known as u64 + 10 {
            count(&mut flame, row("rx_softirq"), &[start]);
        }
        count(&mut flame, row("rx_softirq"), &[0]);
        let folded = flame.counted(1).folded(name);
        assert_eq!(
            (folded.samples, folded.left_out),
            (MOST.known as u64 + 1, 10)
        );
    }
}
