//! Stacks → components, by the rules of the component table.
//!
//! A stack is walked from the innermost function outwards. The first function
//! that marks a stage decides; the first context boundary ends the walk, for
//! what lies beyond belongs to whoever was interrupted. A rule may look at a
//! function and its direct caller, nothing else, so that all rules together
//! become one table from (marker, caller's marker) to component: a marker is
//! a set of name patterns, and very few such sets occur.

use std::collections::HashMap;
use std::io::BufRead;

use metrics_common::component::{BOUNDARIES, SHARED_CALLS, children_of, index_of, index_of_source};
use metrics_common::{COMPONENTS, Kind, Rule, Source};
use rustc_hash::FxHashMap;

use super::families::{Families, Family};
use super::found::FoundSymbols;
use super::rules::{Patterns, best};
use super::symbols::{self, Ranges, SymbolError};

/// A set of patterns that some kernel function matches. 0 is the empty set.
type Marker = u16;
const ORDINARY: Marker = 0;

/// What is known of an address: the marker of its function, and where that starts
/// (0 if unknown).
#[derive(Debug, Clone, Copy)]
struct Place {
    marker: Marker,
    start: u64,
}

/// Addresses are remembered up to this many; then the memory starts anew, so
/// that it stays bounded whatever the kernel loads and unloads.
const REMEMBERED_ADDRESSES: usize = 1 << 15;

/// Of this many outermost functions of a thread, one says what kind of thread it is.
const THREAD_FRAMES: usize = 4;

/// What a walk finds: nothing, or the index of a component.
type Found = Option<u8>;

/// Rules that are tried together on each frame of a stack.
#[derive(Debug, Clone, Default)]
struct Walk {
    rules: Vec<(usize, Rule)>,
    /// Row: marker of a function; column: marker of its caller.
    table: Vec<Found>,
}

impl Walk {
    fn of(rows: impl Iterator<Item = usize>) -> Walk {
        let rules = rows
            .flat_map(|row| {
                COMPONENTS[row]
                    .kind
                    .rules()
                    .iter()
                    .map(move |rule| (row, *rule))
            })
            .collect();
        Walk {
            rules,
            table: Vec::new(),
        }
    }

    /// Fills the table, once every marker is known.
    fn tabulate(&mut self, patterns: &Patterns, sets: &[&[u16]]) {
        if self.rules.is_empty() {
            return;
        }
        self.table = Vec::with_capacity(sets.len() * sets.len());
        for frame in sets {
            // Most functions are claimed by few rules, if any.
            let claims: Vec<(usize, Rule)> = self
                .rules
                .iter()
                .filter(|(_, rule)| patterns.contains(frame, rule.frame))
                .copied()
                .collect();
            let of_caller =
                |caller: &&[u16]| best(&claims, |pattern| patterns.contains(caller, pattern));
            self.table.extend(sets.iter().map(of_caller));
        }
    }
}

/// Whose time a sample belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The component (index in the table) whose time it is: what the clock says,
    /// or what the stack shows inside of that.
    pub event: usize,
    /// The sampled part of it; `None` if no stage marker was met.
    pub part: Option<usize>,
}

/// Finds the component that a stack belongs to.
#[derive(Debug, Clone)]
pub struct Classifier {
    ranges: Ranges<Marker>,
    markers: usize,
    is_boundary: Vec<bool>,
    /// By marker: the number of the shared call, if it is one.
    shared: Vec<Option<u8>>,
    /// By number of a shared call: the row whose work it is in networking's families.
    rows_of_calls: Vec<usize>,
    families: Families,
    /// By marker: whether it is of the outermost functions of io_uring's threads.
    is_io_thread: Vec<bool>,
    /// What a task is doing: sockets, threads of networking, and without probes softirqs too.
    tasks: Walk,
    /// By row of a softirq: the networking carved out of it.
    carved: Vec<Walk>,
    /// By row: its sampled parts.
    parts: Vec<Walk>,
    remembered: FxHashMap<u64, Place>,
    found: FoundSymbols,
    /// Of the stack that was classified last, as far as anybody looked.
    stack: Vec<Place>,
    functions: Vec<u64>,
}

impl Classifier {
    /// Reads the kernel's symbols and prepares every walk. Without probes the
    /// clock knows no softirqs, and stacks must show them.
    ///
    /// # Errors
    /// Whatever [`symbols::parse`] finds wrong with the list.
    pub fn new(kallsyms: impl BufRead, softirqs_are_timed: bool) -> Result<Self, SymbolError> {
        let rows = || 0..COMPONENTS.len();
        let mut tasks = Walk::of(rows().filter(|&row| match COMPONENTS[row].kind {
            Kind::Timed(Source::Softirq(_), _) => !softirqs_are_timed,
            Kind::Timed(..) | Kind::Estimated(_) => true,
            _ => false,
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
                Walk::of(
                    children_of(COMPONENTS[row].slug)
                        .filter(|&r| matches!(COMPONENTS[r].kind, Kind::Sampled(_))),
                )
            })
            .collect();

        let mut walks: Vec<&mut Walk> = Vec::from([&mut tasks]);
        walks.extend(carved.iter_mut().chain(&mut parts));
        let patterns = Patterns::of(
            walks
                .iter()
                .flat_map(|walk| &walk.rules)
                .map(|(_, rule)| rule),
        );
        let mut interned: HashMap<Vec<u16>, Marker> = HashMap::from([(Vec::new(), ORDINARY)]);
        let mut found = FoundSymbols::default();
        let ranges = symbols::parse(kallsyms, |symbol| {
            let set = patterns.matching(symbol);
            if set.is_empty() {
                return None;
            }
            found.note(symbol);
            let next = interned.len() as Marker;
            Some(*interned.entry(set).or_insert(next))
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
        let call_of = |set: &&[u16]| {
            let is_in = |calls: &[&str]| calls.iter().any(|call| patterns.contains(set, call));
            let call = SHARED_CALLS.iter().position(|(_, calls)| is_in(calls))?;
            Some(call as u8)
        };
        let shared = sets.iter().map(call_of).collect();
        let io_threads =
            index_of_source(Source::IoWorker).map_or(&[][..], |row| COMPONENTS[row].kind.rules());
        let is_io_thread = sets
            .iter()
            .map(|set| io_threads.iter().any(|r| patterns.contains(set, r.frame)))
            .collect();
        for walk in &mut walks {
            walk.tabulate(&patterns, &sets);
        }
        Ok(Classifier {
            ranges,
            markers,
            is_boundary,
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
            remembered: FxHashMap::default(),
            found,
            stack: Vec::new(),
            functions: Vec::new(),
        })
    }

    /// Whose time a stack is that was sampled on the first CPU: [`Self::classify_on`].
    pub fn classify(&mut self, kind: u8, frames: &[u64]) -> Option<Owner> {
        self.classify_on(0, kind, frames)
    }

    /// Whose time a stack is that was sampled on `cpu` while its clock was in
    /// `kind`; frames are return addresses, innermost first. `None` if it is
    /// nobody's in the table. A stack that does not show a socket call's address
    /// family goes to the families in the proportion last seen on that CPU.
    pub fn classify_on(&mut self, cpu: usize, kind: u8, frames: &[u64]) -> Option<Owner> {
        self.stack.clear();
        let clocked = match kind {
            0 => None,
            _ => Some(*Source::ALL.get(usize::from(kind) - 1)?),
        };
        let own = clocked.and_then(index_of_source);
        let (event, end) = match (clocked, own) {
            (Some(Source::Softirq(_)), Some(row)) => (row, frames.len()),
            (Some(_), None) => return None,
            (_, own) => match self.search(Table::Tasks, frames, frames.len()) {
                Some((event, at)) => (self.with_family(cpu, own, event, frames, at), at + 1),
                None => (own?, frames.len()),
            },
        };
        let (event, end) = self
            .search(Table::Carved(event), frames, end)
            .map_or((event, end), |(row, at)| (row, at + 1));
        let part = self
            .search(Table::Parts(event), frames, end)
            .map(|(part, _)| part);
        Some(Owner { event, part })
    }

    /// The event that a task's stack belongs to whose innermost marker, at `at`, says
    /// `event`: the same, unless the marker serves every family.
    fn with_family(
        &mut self,
        cpu: usize,
        own: Option<usize>,
        event: usize,
        frames: &[u64],
        at: usize,
    ) -> usize {
        if let Some(call) = self.call_at(frames, at) {
            let clocked = own.filter(|row| Some(*row) != index_of_source(Source::IoWorker));
            return match (clocked, self.families.of_next(cpu, call)) {
                (Some(row), _) => row,
                (None, Some(Family::Internet)) => self.rows_of_calls[call],
                (None, Some(Family::Local)) => index_of_source(Source::LocalIpc).unwrap_or(event),
                (None, None) => event,
            };
        }
        if let Some(call) = self.rows_of_calls.iter().position(|row| *row == event) {
            self.families.saw(cpu, call, Family::Internet);
        } else if Some(event) == index_of_source(Source::LocalIpc)
            && let Some(call) = (at + 1..frames.len()).find_map(|at| self.call_at(frames, at))
        {
            self.families.saw(cpu, call, Family::Local);
        }
        event
    }

    /// The number of the shared call at this place of a stack.
    fn call_at(&mut self, frames: &[u64], at: usize) -> Option<usize> {
        let marker = self.marker_at(frames, at);
        self.shared[usize::from(marker)].map(usize::from)
    }

    /// Whether a stack is that of an io_uring thread.
    pub fn is_io_thread(&mut self, frames: &[u64]) -> bool {
        frames.iter().rev().take(THREAD_FRAMES).any(|address| {
            let marker = self.place(address.wrapping_sub(1)).marker;
            self.is_io_thread[usize::from(marker)]
        })
    }

    /// The kernel functions that the rules of each component name here.
    pub fn found(&self) -> &FoundSymbols {
        &self.found
    }

    /// The first frame before `end` for which a rule holds, from the innermost
    /// outwards and no further than the first boundary: the component found, and where.
    fn search(&mut self, table: Table, frames: &[u64], end: usize) -> Option<(usize, usize)> {
        if self.walk(table).table.is_empty() {
            return None;
        }
        for at in 0..end {
            let (marker, caller) = (self.marker_at(frames, at), self.marker_at(frames, at + 1));
            if let Some(found) =
                self.walk(table).table[usize::from(marker) * self.markers + usize::from(caller)]
            {
                return Some((usize::from(found), at));
            }
            if self.is_boundary[usize::from(marker)] {
                return None;
            }
        }
        None
    }

    fn walk(&self, table: Table) -> &Walk {
        match table {
            Table::Tasks => &self.tasks,
            Table::Carved(row) => &self.carved[row],
            Table::Parts(row) => &self.parts[row],
        }
    }

    /// The functions of the stack that was classified last, by where they
    /// start, innermost first: as far as the work of its owner goes, the context
    /// boundary included.
    pub fn own_functions(&mut self, frames: &[u64]) -> &[u64] {
        self.functions.clear();
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
    fn place_at(&mut self, frames: &[u64], at: usize) -> Place {
        while self.stack.len() <= at {
            let place = match (frames.get(self.stack.len()), self.stack.len()) {
                (None, _) => Place {
                    marker: ORDINARY,
                    start: 0,
                },
                // The innermost address was executing; all others are where a call
                // returns to, which may be the first byte of the next function.
                (Some(address), 0) => self.place(*address),
                (Some(address), _) => self.place(address.wrapping_sub(1)),
            };
            self.stack.push(place);
        }
        self.stack[at]
    }

    fn place(&mut self, address: u64) -> Place {
        if let Some(&place) = self.remembered.get(&address) {
            return place;
        }
        if self.remembered.len() >= REMEMBERED_ADDRESSES {
            self.remembered.clear();
        }
        let place = Place {
            marker: self.ranges.find(address).unwrap_or(ORDINARY),
            start: self.ranges.start_of(address).unwrap_or(0),
        };
        self.remembered.insert(address, place);
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
