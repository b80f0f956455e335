//! The stacks of networking of the last half to whole minute, for a flame graph.
//!
//! Equal stacks are counted together, function by function, so that a minute
//! takes little memory; what is too much for that is counted as left out. What was
//! counted can be handed to another thread without copying it: a copy is made only
//! if it is still being read when counting goes on. Owns no names: they are given
//! when somebody wants to read. Pure.

use std::fmt::Write;
use std::sync::Arc;

use metrics_common::COMPONENTS;
use metrics_common::component::index_of;
use rustc_hash::FxHashMap;

/// Stacks are kept for at least so long, and at most twice as long.
const GENERATION_NS: u64 = 30_000_000_000;
/// Different stacks of one generation: some 250 bytes each, 1 MB in all.
const MOST_STACKS: usize = 4096;

/// Counted stacks. A key is the event (index in the table), then the starts of
/// its functions, innermost first.
type Counts = FxHashMap<Box<[u64]>, u32>;

/// What was counted in one stretch of time.
#[derive(Debug, Default, Clone)]
struct Generation {
    counts: Counts,
    left_out: u64,
    began_ns: u64,
}

/// Collects stacks; see the head of this file.
#[derive(Debug)]
pub struct Flame {
    is_network: Vec<bool>,
    current: Arc<Generation>,
    previous: Arc<Generation>,
    key: Vec<u64>,
}

/// What was collected until a moment; it does not change any more.
#[derive(Debug, Clone)]
pub struct Counted {
    current: Arc<Generation>,
    previous: Arc<Generation>,
    until_ns: u64,
}

/// Stacks in the folded format that flame graph tools read: on each line the
/// event's slug, the functions from the outermost to the innermost, all with a
/// semicolon between, then a blank and the number of samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Folded {
    /// The lines, sorted.
    pub text: String,
    /// Length of the time in which they were sampled, nanoseconds.
    pub window_ns: u64,
    /// Samples in the lines.
    pub samples: u64,
    /// Samples for whose stack there was no room.
    pub left_out: u64,
}

impl Folded {
    /// Adds one line.
    pub fn add<'a>(&mut self, event: &str, functions: impl Iterator<Item = &'a str>, count: u64) {
        self.text.push_str(event);
        for function in functions {
            self.text.push(';');
            self.text.push_str(function);
        }
        self.samples += count;
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, " {count}");
    }

    /// Brings the lines into order.
    pub fn sort(&mut self) {
        let mut lines: Vec<&str> = self.text.lines().collect();
        lines.sort_unstable();
        self.text = lines.iter().flat_map(|line| [line, "\n"]).collect();
    }
}

impl Flame {
    /// Nothing yet; the time is that of a clock that never goes back.
    pub fn new(now_ns: u64) -> Self {
        let network = index_of("network");
        let mut is_network = vec![false; COMPONENTS.len()];
        for (row, component) in COMPONENTS.iter().enumerate() {
            // Parents stand before their children.
            is_network[row] = Some(row) == network
                || component
                    .parent
                    .and_then(index_of)
                    .is_some_and(|parent| is_network[parent]);
        }
        let generation = Generation {
            began_ns: now_ns,
            ..Generation::default()
        };
        Flame {
            is_network,
            current: Arc::new(generation.clone()),
            previous: Arc::new(generation),
            key: Vec::new(),
        }
    }

    /// Whether an event (index in the table) is networking: others are not collected.
    pub fn wants(&self, event: usize) -> bool {
        self.is_network.get(event).copied().unwrap_or(false)
    }

    /// Counts a stack, given by the starts of its functions, innermost first; 0 where
    /// that is code which was loaded after the symbols were read.
    pub fn add(&mut self, event: usize, functions: &[u64]) {
        self.key.clear();
        self.key.push(event as u64);
        self.key.extend_from_slice(functions);
        let current = Arc::make_mut(&mut self.current);
        if let Some(count) = current.counts.get_mut(self.key.as_slice()) {
            *count = count.saturating_add(1);
        } else if current.counts.len() < MOST_STACKS {
            current.counts.insert(self.key.as_slice().into(), 1);
        } else {
            current.left_out += 1;
        }
    }

    /// Forgets what is too old. To be called about once in an interval.
    pub fn pass(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.current.began_ns) >= GENERATION_NS {
            let fresh = Arc::new(Generation {
                began_ns: now_ns,
                ..Generation::default()
            });
            self.previous = std::mem::replace(&mut self.current, fresh);
        }
    }

    /// What was collected until now.
    pub fn counted(&self, now_ns: u64) -> Counted {
        Counted {
            current: self.current.clone(),
            previous: self.previous.clone(),
            until_ns: now_ns,
        }
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
            .flat_map(|generation| generation.counts.keys().map(AsRef::as_ref))
    }

    /// The stacks as lines, with names by where functions start.
    pub fn folded<'a>(&self, names: impl Fn(u64) -> Option<&'a str>) -> Folded {
        let mut counts: FxHashMap<&[u64], u64> = FxHashMap::default();
        for generation in [&self.previous, &self.current] {
            for (key, count) in &generation.counts {
                *counts.entry(key).or_default() += u64::from(*count);
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
                functions.map(|&start| match start {
                    0 => "[loaded later]",
                    _ => names(start).unwrap_or("[unknown]"),
                }),
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

    #[test]
    fn equal_stacks_are_one_line_that_begins_with_the_event() {
        let mut flame = Flame::new(0);
        for _ in 0..3 {
            flame.add(row("rx_softirq"), &[1, 2]);
        }
        flame.add(row("rx_softirq"), &[9, 2]);
        flame.add(row("rx_softirq"), &[0, 2]);
        flame.add(row("tx_syscall"), &[]);
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
        flame.add(row("rx_softirq"), &[1]);
        flame.pass(GENERATION_NS - 1);
        assert_eq!(flame.counted(GENERATION_NS).folded(name).samples, 1);
        flame.pass(GENERATION_NS);
        flame.add(row("rx_softirq"), &[1]);
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
        flame.add(row("rx_softirq"), &[1]);
        let read = flame.counted(1);
        flame.add(row("rx_softirq"), &[1]);
        flame.add(row("rx_softirq"), &[2]);
        assert_eq!(read.folded(name).samples, 1);
        assert_eq!(flame.counted(2).folded(name).samples, 3);
        // What nobody reads any more is counted on without a copy.
        let place = Arc::as_ptr(&flame.current);
        flame.add(row("rx_softirq"), &[1]);
        assert_eq!(Arc::as_ptr(&flame.current), place);
    }

    #[test]
    fn what_there_is_no_room_for_is_counted() {
        let mut flame = Flame::new(0);
        for start in 0..MOST_STACKS as u64 + 10 {
            flame.add(row("rx_softirq"), &[start]);
        }
        flame.add(row("rx_softirq"), &[0]);
        let folded = flame.counted(1).folded(name);
        assert_eq!(
            (folded.samples, folded.left_out),
            (MOST_STACKS as u64 + 1, 10)
        );
    }
}
