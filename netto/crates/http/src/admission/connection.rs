//! The state of one connection, shared by all code that handles it: its peer, its phase, and
//! whether it must close.
//!
//! It holds decisions made elsewhere and wakes the connection's task; `slots` decides which
//! connection must close.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv6Addr};
use std::task::Waker;
use std::time::Instant;

use super::gate::Gate;

/// The budget that its slot belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Unauthenticated,
    Active,
    Dashboard,
}

/// The phase of a connection, in the order of eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// No request is pending: the connection is new, or kept alive.
    Waiting,
    /// The client does not read its response.
    Stalled,
    /// A request is being answered.
    Working,
}

/// The unit of fairness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Peer {
    /// A user of this host, whichever of its addresses is used.
    User(u32),
    /// An IPv4 address, or an IPv6 network, since an IPv6 host has many addresses.
    Network(u128),
}

impl Peer {
    /// Who is at this address; `user` is known of the host's own users only.
    pub fn new(address: IpAddr, user: Option<u32>) -> Peer {
        if let Some(user) = user {
            return Peer::User(user);
        }
        Peer::Network(match address.to_canonical() {
            // All of 127.0.0.0/8 is this host.
            IpAddr::V4(address) if address.is_loopback() => u128::from(Ipv6Addr::LOCALHOST),
            IpAddr::V4(address) => u128::from(address.to_ipv6_mapped()),
            IpAddr::V6(Ipv6Addr::LOCALHOST) => u128::from(Ipv6Addr::LOCALHOST),
            IpAddr::V6(address) => u128::from(address) >> 64 << 64,
        })
    }
}

/// The shared state of one connection.
#[derive(Debug)]
pub struct Connection {
    pub(super) id: u64,
    pub(super) peer: Peer,
    pub(super) class: Cell<Class>,
    pub(super) phase: Cell<Phase>,
    pub(super) since: Cell<Instant>,
    is_evicted: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    /// The state of the request gate.
    pub(super) gate: Cell<Gate>,
}

impl Connection {
    /// The state of a new connection.
    pub(super) fn new(id: u64, peer: Peer) -> Connection {
        Connection {
            id,
            peer,
            class: Cell::new(Class::Unauthenticated),
            phase: Cell::new(Phase::Waiting),
            since: Cell::new(Instant::now()),
            is_evicted: Cell::new(false),
            waker: RefCell::default(),
            gate: Cell::default(),
        }
    }

    /// Whether the slot was given to another connection.
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
