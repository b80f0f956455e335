//! One connection as all who handle it share it: whose it is, what it does, and
//! whether it must go.
//!
//! It holds what others decide and wakes the connection's task; who must go is
//! decided in `places`.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::task::Waker;
use std::time::Instant;

use super::gate::Gate;

/// Which budget its place is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Unauthenticated,
    Active,
    Dashboard,
}

/// What a connection is doing, in the order in which they give way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nothing is asked: it is new, or kept alive.
    Waiting,
    /// It does not take what it was sent.
    Stalled,
    /// A request is being answered.
    Working,
}

/// Who counts as one: an address, or a network of IPv6, where everybody has many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Peer(u128);

impl Peer {
    pub(super) fn new(address: IpAddr) -> Peer {
        match address.to_canonical() {
            IpAddr::V4(address) => Peer(u128::from(address.to_ipv6_mapped())),
            IpAddr::V6(address) => Peer(u128::from(address) >> 64 << 64),
        }
    }
}

/// One connection as all who handle it share it.
#[derive(Debug)]
pub struct Connection {
    pub(super) id: u64,
    pub(super) peer: Peer,
    pub(super) class: Cell<Class>,
    pub(super) phase: Cell<Phase>,
    pub(super) since: Cell<Instant>,
    must_go: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    /// What the gate lets through.
    pub(super) gate: Cell<Gate>,
}

impl Connection {
    /// That of a new connection.
    pub(super) fn new(id: u64, peer: Peer) -> Connection {
        Connection {
            id,
            peer,
            class: Cell::new(Class::Unauthenticated),
            phase: Cell::new(Phase::Waiting),
            since: Cell::new(Instant::now()),
            must_go: Cell::new(false),
            waker: RefCell::default(),
            gate: Cell::default(),
        }
    }

    /// Whether somebody else was given the place.
    pub fn must_go(&self) -> bool {
        self.must_go.get()
    }

    /// Whom to wake when something about this connection changes: its task.
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

    /// Notes what it is doing now.
    pub fn enter(&self, phase: Phase) {
        if self.phase.replace(phase) != phase {
            self.since.set(Instant::now());
        }
    }

    /// Lets everything through from now on, until the request's turn is over.
    pub fn open_gate(&self) {
        self.gate.set(Gate::Open);
        self.wake();
    }

    /// Gives its place to somebody else.
    pub(super) fn send_away(&self) {
        self.must_go.set(true);
        self.wake();
    }
}
