//! Maps stacks to components by the rules of the component table.
//!
//! A stack is walked from the innermost function outwards. The first function that marks a stage
//! decides; the first context boundary ends the walk, because the frames beyond it are those of the
//! interrupted code. A rule only looks at a function and its direct caller, so all rules together
//! become one table from (marker, caller's marker) to component. A marker is a set of name
//! patterns, of which few occur.
//!
//! Most stacks have been seen before: the same callers and the same innermost function, at any
//! instruction in it. The result for such a stack is cached; only the division by proportion
//! (`families`) is made each time.

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

/// The marker of an address's function, and the function's start (0 if unknown).
#[derive(Debug, Clone, Copy)]
struct AddressInfo {
    marker: Marker,
    start: u64,
}

const NOWHERE: AddressInfo = AddressInfo {
    marker: ORDINARY,
    start: 0,
};

/// Size of the cache of addresses; each address has one slot, and replaces another one there.
const REMEMBERED_ADDRESSES: usize = 1 << 13;

/// Cached stacks, at most 2 MB; then the cache is emptied.
const MOST: Most = Most {
    known: 1 << 13,
    words: 1 << 17,
};

/// Number of outermost frames of a thread that are searched for the kind of thread.
const THREAD_FRAMES: usize = 4;

/// Finds the component that a stack belongs to.
#[derive(Debug, Clone)]
pub struct Classifier {
    ranges: Ranges<Marker>,
    is_boundary: Vec<bool>,
    /// By marker: whether a packet in this function has a known socket.
    meets_socket: Vec<bool>,
    /// By marker: the number of the shared call, if it is one.
    shared: Vec<Option<u8>>,
    /// By number of a shared call: its row if the family is an Internet one.
    rows_of_calls: Vec<usize>,
    families: Families,
    /// By marker: whether it is an outermost function of io_uring's threads.
    is_io_thread: Vec<bool>,
    /// Work of tasks: sockets, threads of networking, and softirqs without probes.
    tasks: Walk,
    /// By row of a softirq: the networking carved out of it.
    carved: Vec<Walk>,
    /// By row: its sampled parts.
    parts: Vec<Walk>,
    /// By hash of the address.
    remembered: Vec<(u64, AddressInfo)>,
    /// By component: whether this kernel has a function named by its rules.
    has_symbols: Vec<bool>,
    /// For each cached stack: clock kind and start of its innermost function, then its callers.
    known: Repeated,
    /// By number of a cached stack.
    verdicts: Vec<Verdict>,
    /// From 1.
    epoch: u64,
    /// The looked-up frames of the current stack.
    stack: Vec<AddressInfo>,
    functions: Vec<u64>,
}

impl Classifier {
    /// Reads the kernel's symbols and prepares every walk.
    ///
    /// # Errors
    /// See [`symbols::parse`].
    pub fn new(kallsyms: impl BufRead) -> Result<Self, SymbolError> {
        let rows = || 0..COMPONENTS.len();
        // If probes time softirqs, a stack in one comes with its kind, and this walk is not used.
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
            // Address 0 is in no function.
            remembered: vec![(0, NOWHERE); REMEMBERED_ADDRESSES],
            has_symbols,
            known: Repeated::new(MOST),
            verdicts: Vec::new(),
            epoch: 1,
            stack: Vec::new(),
            functions: Vec::new(),
        })
    }

    /// Continues from a classifier of older symbols: takes its counts of families.
    pub fn take_over(&mut self, before: Classifier) {
        self.families = before.families;
        self.epoch = before.epoch + 1;
    }

    /// The owner of a stack sampled on the first CPU: [`Self::owner_on`].
    pub fn classify(&mut self, kind: u8, frames: &[u64]) -> Option<SampleOwner> {
        let known = self.recognise(kind, frames);
        self.owner_on(0, known)
    }

    /// The number of a stack that was sampled while its CPU's clock was in `kind`; frames are
    /// return addresses, innermost first. The number is valid until the next call.
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
                // Fits even if it is too long for the cache: it is the only one.
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

    /// The owner of a stack sampled on `cpu`; `None` if no row of the table applies. A stack of a
    /// socket call that does not show the address family is assigned to the families in the
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

    /// Whether a softirq's stack shows the softirq, without the clock.
    pub fn is_shown(&self, stack: StackId) -> bool {
        self.verdict(stack).shows_softirq
    }

    /// Whether a stack shows that the packet's socket is known.
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

    /// By component: whether this kernel has a function named by its rules.
    pub fn has_symbols(&self) -> &[bool] {
        &self.has_symbols
    }

    /// Start of the function that contains this return address; `None` if the symbol list has none.
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

    /// The starts of a stack's functions, innermost first, up to and including the context
    /// boundary.
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

    /// Whether the frame at this place belongs to the code that ran, and not to what that has
    /// interrupted: no context boundary is before it.
    pub fn is_own_frame(&mut self, frames: &[u64], at: usize) -> bool {
        self.stack.clear();
        (0..at).all(|at| {
            let marker = self.marker_at(frames, at);
            !self.is_boundary[usize::from(marker)]
        })
    }

    fn marker_at(&mut self, frames: &[u64], at: usize) -> Marker {
        self.place_at(frames, at).marker
    }

    /// The information on one frame; each is looked up once per stack.
    fn place_at(&mut self, frames: &[u64], at: usize) -> AddressInfo {
        while self.stack.len() <= at {
            let place = match (frames.get(self.stack.len()), self.stack.len()) {
                (None, _) => NOWHERE,
                // The innermost address was executing; all others are return addresses, which may
                // be the first byte of the next function.
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
