//! The state of one connection, shared by all code that handles it: its peer, its phase, and
//! whether it must close.
//!
//! It holds decisions made elsewhere and wakes the connection's task; `accounts` decides which
//! connection must close.

use std::cell::{Cell, RefCell};
use std::task::Waker;
use std::time::Instant;

use super::accounts::{Peer, Standing};
use super::gate::Gate;

/// The phase of a connection; all but the last are waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No request is pending: the connection is new, or kept alive.
    Idle,
    /// The client does not read its response.
    Stalled,
    /// The request waits for its turn.
    Queued,
    /// A request is being answered.
    Working,
}

/// The shared state of one connection.
#[derive(Debug)]
pub struct Connection {
    pub(super) peer: Peer,
    pub(super) standing: Cell<Standing>,
    pub(super) phase: Cell<Phase>,
    pub(super) since: Cell<Instant>,
    is_evicted: Cell<bool>,
    /// Whether it has to be known that the client has hung up, and whether it has.
    pub(super) is_watched: Cell<bool>,
    pub(super) has_hung_up: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    /// The state of the request gate.
    pub(super) gate: Cell<Gate>,
}

impl Connection {
    /// The state of a new connection.
    pub(super) fn new(peer: Peer, standing: Standing) -> Connection {
        Connection {
            peer,
            standing: Cell::new(standing),
            phase: Cell::new(Phase::Idle),
            since: Cell::new(Instant::now()),
            is_evicted: Cell::new(false),
            is_watched: Cell::new(false),
            has_hung_up: Cell::new(false),
            waker: RefCell::default(),
            gate: Cell::default(),
        }
    }

    /// Whether what it held was given to another connection.
    pub fn is_evicted(&self) -> bool {
        self.is_evicted.get()
    }

    /// Registers the waker of the connection's task, to be woken when its state changes.
    pub fn register(&self, waker: &Waker) {
        let mut registered = self.waker.borrow_mut();
        if !registered.as_ref().is_some_and(|old| old.will_wake(waker)) {
            *registered = Some(waker.clone());
        }
    }

    /// Wakes the connection's task.
    pub fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Records the current phase.
    pub fn enter(&self, phase: Phase) {
        if self.phase.replace(phase) != phase {
            self.since.set(Instant::now());
        }
    }

    /// Since when it waits, if it does.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        (self.phase.get() != Phase::Working).then(|| self.since.get())
    }

    /// Lets all bytes through until the request's turn ends.
    pub fn open_gate(&self) {
        self.gate.set(Gate::Open);
        self.wake();
    }

    /// Evicts the connection.
    pub(super) fn evict(&self) {
        self.is_evicted.set(true);
        self.wake();
    }
}
