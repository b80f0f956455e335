//! Stacks → components, by the rules of the component table.
//!
//! A stack is walked from the innermost function outwards. The first function
//! that marks a stage decides; the first context boundary ends the walk, for
//! what lies beyond belongs to whoever was interrupted. A rule may look at a
//! function and its direct caller, nothing else, so that all rules together
//! become one table from (marker, caller's marker) to component: a marker is
//! a set of name patterns, and very few such sets occur.
//!
//! Most stacks have been seen before: the same callers down to the same function, wherever
//! in that function the CPU was. Such a stack is recognised whole, and what was said of it
//! is said again; only what goes by proportion (`families`) is decided anew each time.

use std::collections::HashMap;
use std::io::BufRead;

use metrics_common::component::{
    BOUNDARIES, SHARED_CALLS, SOCKET_MET, children, index_of, index_of_source,
};
use metrics_common::{COMPONENTS, Kind, Source};

use self::verdict::{NOBODYS, Ruling, Verdict};
use self::walk::Walk;
use super::families::{Families, Family};
use super::found::Named;
use super::repeated::{Most, Numbered, Repeated};
use super::rules::Patterns;
use super::symbols::{self, Ranges, SymbolError};

mod judge;
mod verdict;
mod walk;

pub use self::verdict::{SampleOwner, StackId};

/// A set of patterns that some kernel function matches. 0 is the empty set.
type Marker = u16;
const ORDINARY: Marker = 0;

/// What is known of an address: the marker of its function, and where that starts
/// (0 if unknown).
#[derive(Debug, Clone, Copy)]
struct AddressInfo {
    marker: Marker,
    start: u64,
}

const NOWHERE: AddressInfo = AddressInfo {
    marker: ORDINARY,
    start: 0,
};

/// Addresses that are remembered: each has one place, and gives way to another that has the same.
const REMEMBERED_ADDRESSES: usize = 1 << 13;

/// So many different stacks are known, in 2 MB at the most; then they are learnt anew.
const MOST: Most = Most {
    known: 1 << 13,
    words: 1 << 17,
};

/// Of this many outermost functions of a thread, one says what kind of thread it is.
const THREAD_FRAMES: usize = 4;

/// Finds the component that a stack belongs to.
#[derive(Debug, Clone)]
pub struct Classifier {
    ranges: Ranges<Marker>,
    is_boundary: Vec<bool>,
    /// By marker: whether a packet in this function has met its socket.
    meets_socket: Vec<bool>,
    /// By marker: the number of the shared call, if it is one.
    shared: Vec<Option<u8>>,
    /// By number of a shared call: the row whose work it is in networking's families.
    rows_of_calls: Vec<usize>,
    families: Families,
    /// By marker: whether it is of the outermost functions of io_uring's threads.
    is_io_thread: Vec<bool>,
    /// What a task is doing: sockets, threads of networking, and softirqs that no probe times.
    tasks: Walk,
    /// By row of a softirq: the networking carved out of it.
    carved: Vec<Walk>,
    /// By row: its sampled parts.
    parts: Vec<Walk>,
    /// By hash of the address.
    remembered: Vec<(u64, AddressInfo)>,
    /// By component: whether this kernel has a function that its rules name.
    has_symbols: Vec<bool>,
    /// Clock kind and innermost function of each known stack, then its callers.
    known: Repeated,
    /// By their numbers.
    verdicts: Vec<Verdict>,
    /// From 1.
    epoch: u64,
    /// Of the stack that is judged, as far as anybody looked.
    stack: Vec<AddressInfo>,
    functions: Vec<u64>,
}

impl Classifier {
    /// Reads the kernel's symbols and prepares every walk.
    ///
    /// # Errors
    /// Whatever [`symbols::parse`] finds wrong with the list.
    pub fn new(kallsyms: impl BufRead) -> Result<Self, SymbolError> {
        let rows = || 0..COMPONENTS.len();
        // Where probes time softirqs, a stack in one comes with its kind, and nobody looks here.
        let mut tasks = Walk::of(rows().filter(|&row| {
            let kind = COMPONENTS[row].kind;
            matches!(kind, Kind::Timed(..) | Kind::Estimated(_))
        }));
        let mut carved: Vec<Walk> = rows()
            .map(|row| match COMPONENTS[row].kind {
                Kind::Timed(source, _) => Walk::of(rows().filter(
                    |&r| matches!(COMPONENTS[r].kind, Kind::Carved(from, _) if from == source),
                )),
                _ => Walk::default(),
            })
            .collect();
        let mut parts: Vec<Walk> = rows()
            .map(|row| {
                let is_sampled = |r: &usize| matches!(COMPONENTS[*r].kind, Kind::Sampled(_));
                Walk::of(children(row).iter().copied().filter(is_sampled))
            })
            .collect();

        let mut walks: Vec<&mut Walk> = Vec::from([&mut tasks]);
        walks.extend(carved.iter_mut().chain(&mut parts));
        let rules = walks.iter().flat_map(|walk| &walk.rules);
        let patterns = Patterns::of(rules.map(|(_, rule)| rule));
        let mut interned: HashMap<Vec<u16>, Marker> = HashMap::from([(Vec::new(), ORDINARY)]);
        let named = Named::by(&patterns);
        let mut has_symbols = vec![false; COMPONENTS.len()];
        let mut set = Vec::new();
        let ranges = symbols::parse(kallsyms, |symbol| {
            patterns.matching(symbol, &mut set);
            if set.is_empty() {
                return None;
            }
            for row in named.rows(symbol, &set) {
                has_symbols[row] = true;
            }
            let next = interned.len() as Marker;
            let marker = interned.get(&set).copied();
            Some(marker.unwrap_or_else(|| *interned.entry(set.clone()).or_insert(next)))
        })?;

        let markers = interned.len();
        let mut sets: Vec<&[u16]> = vec![&[]; markers];
        for (set, marker) in &interned {
            sets[usize::from(*marker)] = set;
        }
        let is_boundary = sets
            .iter()
            .map(|set| BOUNDARIES.iter().any(|b| patterns.contains(set, b)))
            .collect();
        let meets_socket = sets
            .iter()
            .map(|set| SOCKET_MET.iter().any(|name| patterns.contains(set, name)))
            .collect();
        let call_of = |set: &&[u16]| {
            let is_in = |calls: &[&str]| calls.iter().any(|call| patterns.contains(set, call));
            let call = SHARED_CALLS.iter().position(|(_, calls)| is_in(calls))?;
            Some(call as u8)
        };
        let shared = sets.iter().map(call_of).collect();
        let io_worker = index_of_source(Source::IoWorker);
        let io_threads = io_worker.map_or(&[][..], |row| COMPONENTS[row].kind.rules());
        let is_io_thread = sets
            .iter()
            .map(|set| io_threads.iter().any(|r| patterns.contains(set, r.frame)))
            .collect();
        for walk in &mut walks {
            walk.tabulate(&patterns, &sets);
        }
        Ok(Classifier {
            ranges,
            is_boundary,
            meets_socket,
            shared,
            rows_of_calls: SHARED_CALLS
                .iter()
                .filter_map(|(row, _)| index_of(row))
                .collect(),
            families: Families::default(),
            is_io_thread,
            tasks,
            carved,
            parts,
            // Address 0 is no function's.
            remembered: vec![(0, NOWHERE); REMEMBERED_ADDRESSES],
            has_symbols,
            known: Repeated::new(MOST),
            verdicts: Vec::new(),
            epoch: 1,
            stack: Vec::new(),
            functions: Vec::new(),
        })
    }

    /// Goes on where one stops that knew other symbols: with the families that it saw.
    pub fn take_over(&mut self, before: Classifier) {
        self.families = before.families;
        self.epoch = before.epoch + 1;
    }

    /// Whose time a stack is that was sampled on the first CPU: [`Self::owner_on`].
    pub fn classify(&mut self, kind: u8, frames: &[u64]) -> Option<SampleOwner> {
        let known = self.recognise(kind, frames);
        self.owner_on(0, known)
    }

    /// The number of a stack that was sampled while its CPU's clock was in `kind`; frames are
    /// return addresses, innermost first. It holds until the next stack is recognised.
    pub fn recognise(&mut self, kind: u8, frames: &[u64]) -> StackId {
        let (leaf, callers) = match frames.split_first() {
            Some((leaf, callers)) => (Some(self.place(*leaf)), callers),
            None => (None, frames),
        };
        let AddressInfo { marker, start } = leaf.unwrap_or(NOWHERE);
        let is_empty = u64::from(leaf.is_none());
        let head = [
            u64::from(kind) | is_empty << 8 | u64::from(marker) << 16,
            start,
        ];
        let number = match self.known.number(head, callers) {
            Numbered::Again(number) => number,
            Numbered::New(number) => {
                let verdict = self.judge(kind, frames);
                self.verdicts.push(verdict);
                number
            }
            Numbered::NoRoom => {
                self.known.clear();
                self.verdicts.clear();
                self.epoch += 1;
                // Even if it is too long to be known: it is the only one.
                let _ = self.known.number(head, callers);
                let verdict = self.judge(kind, frames);
                self.verdicts.push(verdict);
                0
            }
        };
        StackId {
            epoch: self.epoch,
            number,
        }
    }

    /// Whose time a stack is that was sampled on `cpu`; `None` if it is nobody's in the table.
    /// One that does not show a socket call's address family goes to the families in the
    /// proportion last seen on that CPU.
    pub fn owner_on(&mut self, cpu: usize, stack: StackId) -> Option<SampleOwner> {
        match self.verdict(stack).ruling {
            Ruling::Clear(owner, shows) => {
                if let Some((call, family)) = shows {
                    self.families.saw(cpu, usize::from(call), family);
                }
                owner.owner()
            }
            Ruling::Shared(call, [internet, local, unknown]) => {
                match self.families.of_next(cpu, usize::from(call)) {
                    Some(Family::Internet) => internet.owner(),
                    Some(Family::Local) => local.owner(),
                    None => unknown.owner(),
                }
            }
        }
    }

    /// Whether a stack of a softirq shows it without the clock.
    pub fn is_shown(&self, stack: StackId) -> bool {
        self.verdict(stack).shows_softirq
    }

    /// Whether a stack shows that the packet at hand has met its socket.
    pub fn has_met_socket(&self, stack: StackId) -> bool {
        self.verdict(stack).has_met_socket
    }

    /// Whether a stack is that of an io_uring thread.
    pub fn is_io_thread(&self, stack: StackId) -> bool {
        self.verdict(stack).is_io_thread
    }

    fn verdict(&self, stack: StackId) -> Verdict {
        let verdict = self
            .verdicts
            .get(stack.number)
            .filter(|_| stack.epoch == self.epoch);
        *verdict.unwrap_or(&NOBODYS)
    }

    /// By component: whether this kernel has a function that its rules name.
    pub fn has_symbols(&self) -> &[bool] {
        &self.has_symbols
    }

    /// Where the function starts that a call from there returns to; `None` if that is none that was
    /// in the symbol list.
    pub fn function_returned_to(&self, address: u64) -> Option<u64> {
        self.ranges.start_of(address.wrapping_sub(1))
    }

    fn walk(&self, table: Table) -> &Walk {
        match table {
            Table::Tasks => &self.tasks,
            Table::Carved(row) => &self.carved[row],
            Table::Parts(row) => &self.parts[row],
        }
    }

    /// The functions of a stack, by where they start, innermost first: as far as the
    /// work of its owner goes, the context boundary included.
    pub fn own_functions(&mut self, frames: &[u64]) -> &[u64] {
        self.functions.clear();
        self.stack.clear();
        for at in 0..frames.len() {
            let place = self.place_at(frames, at);
            self.functions.push(place.start);
            if self.is_boundary[usize::from(place.marker)] {
                break;
            }
        }
        &self.functions
    }

    fn marker_at(&mut self, frames: &[u64], at: usize) -> Marker {
        self.place_at(frames, at).marker
    }

    /// What is known of the frame at this place; each is looked up once per stack.
    fn place_at(&mut self, frames: &[u64], at: usize) -> AddressInfo {
        while self.stack.len() <= at {
            let place = match (frames.get(self.stack.len()), self.stack.len()) {
                (None, _) => NOWHERE,
                // The innermost address was executing; all others are where a call
                // returns to, which may be the first byte of the next function.
                (Some(address), 0) => self.place(*address),
                (Some(address), _) => self.place(address.wrapping_sub(1)),
            };
            self.stack.push(place);
        }
        self.stack[at]
    }

    fn place(&mut self, address: u64) -> AddressInfo {
        let hash = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let remembered = &mut self.remembered[hash as usize % REMEMBERED_ADDRESSES];
        if remembered.0 == address {
            return remembered.1;
        }
        let place = AddressInfo {
            marker: self.ranges.find(address).unwrap_or(ORDINARY),
            start: self.ranges.start_of(address).unwrap_or(0),
        };
        *remembered = (address, place);
        place
    }
}

/// Names a walk of a classifier.
#[derive(Debug, Clone, Copy)]
enum Table {
    Tasks,
    Carved(usize),
    Parts(usize),
}

#[cfg(test)]
mod tests;
