//! Assigns connection slots, and chooses the connection to evict.
//!
//! Three budgets: unauthenticated connections, active ones (which got a successful response) and
//! dashboards. A connection of one budget cannot take a slot of another. When a budget is full, the
//! address with the most connections loses the one that has waited longest. This file knows no
//! socket: an evicted connection notices at its next step.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use super::connection::{Class, Connection, Peer, Phase};
use super::response_budget::{BudgetShare, ResponseBudget};

/// The limit of connections of each class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// New and refused connections.
    pub unauthenticated: usize,
    /// Connections that got a successful response.
    pub active: usize,
    /// WebSockets.
    pub dashboards: usize,
}

/// All slots; see the head of this file.
pub struct Slots {
    limits: Limits,
    when_left: Box<dyn Fn()>,
    connections: RefCell<HashMap<u64, Rc<Connection>>>,
    next_id: Cell<u64>,
    evictions: Arc<AtomicU64>,
    /// For responses that only their reader holds.
    response_budget: ResponseBudget,
}

impl Slots {
    /// Creates empty slots; `evictions` counts evictions, `when_left` is called whenever a
    /// connection has ended.
    pub fn new(
        limits: Limits,
        evictions: Arc<AtomicU64>,
        when_left: impl Fn() + 'static,
    ) -> Rc<Slots> {
        Rc::new(Slots {
            limits,
            when_left: Box::new(when_left),
            connections: RefCell::default(),
            next_id: Cell::new(0),
            response_budget: ResponseBudget::new(evictions.clone()),
            evictions,
        })
    }

    /// Admits a new, unauthenticated connection; `None` if none can be evicted for it.
    pub fn admit(self: &Rc<Self>, peer: Peer) -> Option<Slot> {
        if !self.make_room(Class::Unauthenticated, self.limits.unauthenticated, peer) {
            self.evictions.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let id = self.next_id.replace(self.next_id.get() + 1);
        let connection = Rc::new(Connection::new(id, peer));
        self.connections.borrow_mut().insert(id, connection.clone());
        Some(Slot {
            slots: self.clone(),
            connection,
        })
    }

    fn count(&self, class: Class, peer: Option<Peer>) -> usize {
        let is_meant = |connection: &&Rc<Connection>| {
            connection.class.get() == class && peer.is_none_or(|peer| connection.peer == peer)
        };
        self.connections.borrow().values().filter(is_meant).count()
    }

    /// Whether there is a free slot, after an eviction if necessary.
    fn make_room(&self, class: Class, limit: usize, newcomer: Peer) -> bool {
        if self.count(class, None) < limit {
            return true;
        }
        let Some(connection) = self.choose_eviction(class, newcomer) else {
            return false;
        };
        self.connections.borrow_mut().remove(&connection.id);
        self.evictions.fetch_add(1, Ordering::Relaxed);
        connection.evict();
        true
    }

    fn choose_eviction(&self, class: Class, newcomer: Peer) -> Option<Rc<Connection>> {
        let own = self.count(class, Some(newcomer));
        let connections = self.connections.borrow();
        let mut by_peer: HashMap<Peer, usize> = HashMap::new();
        for connection in connections
            .values()
            .filter(|connection| connection.class.get() == class)
        {
            *by_peer.entry(connection.peer).or_default() += 1;
        }
        let held =
            |connection: &Rc<Connection>| by_peer.get(&connection.peer).copied().unwrap_or(0);
        connections
            .values()
            .filter(|connection| connection.class.get() == class)
            // Evict a working connection or a dashboard only for an address that has fewer.
            .filter(|connection| {
                let is_at_work =
                    class == Class::Dashboard || connection.phase.get() == Phase::Working;
                !is_at_work || held(connection) > own + 1
            })
            .min_by_key(|connection| {
                // Evict the newest dashboard: an address that took all slots did so last.
                let newest_first = (class == Class::Dashboard).then_some(u64::MAX - connection.id);
                (
                    std::cmp::Reverse(held(connection)),
                    newest_first,
                    connection.phase.get(),
                    connection.since.get(),
                    connection.id,
                )
            })
            .cloned()
    }
}

/// A connection's slot, held while the connection lives.
pub struct Slot {
    slots: Rc<Slots>,
    connection: Rc<Connection>,
}

impl Slot {
    /// The connection's state, shared with the handlers of its requests.
    pub fn connection(&self) -> &Rc<Connection> {
        &self.connection
    }

    /// Runs work that may take a while; `None` if the connection was evicted meanwhile.
    pub async fn unless_evicted<F: Future>(&self, work: F) -> Option<F::Output> {
        let mut work = pin!(work);
        poll_fn(|cx| {
            self.connection.register(cx.waker());
            if self.connection.is_evicted() {
                return Poll::Ready(None);
            }
            work.as_mut().poll(cx).map(Some)
        })
        .await
    }

    /// A handle for code that may change the connection's class.
    pub fn visitor(&self) -> Visitor {
        Visitor {
            slots: self.slots.clone(),
            connection: self.connection.clone(),
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots
            .connections
            .borrow_mut()
            .remove(&self.connection.id);
        (self.slots.when_left)();
    }
}

/// The connection as its request handlers see it.
#[derive(Clone)]
pub struct Visitor {
    slots: Rc<Slots>,
    connection: Rc<Connection>,
}

impl Visitor {
    /// The connection.
    pub fn connection(&self) -> &Rc<Connection> {
        &self.connection
    }

    /// Who is at the other end.
    pub fn peer(&self) -> Peer {
        self.connection.peer
    }

    /// Takes this many bytes of the budget for long responses, if there is a share for this peer.
    pub fn response_share(&self, bytes: usize) -> Option<BudgetShare> {
        self.slots.response_budget.take(&self.connection, bytes)
    }

    /// Marks the connection as active after a successful response.
    pub fn mark_active(&self) {
        let (slots, connection) = (&self.slots, &self.connection);
        if connection.class.get() == Class::Unauthenticated
            && !connection.is_evicted()
            && slots.make_room(Class::Active, slots.limits.active, connection.peer)
        {
            connection.class.set(Class::Active);
        }
    }

    /// Makes it a dashboard while the result lives; `None` if there is no slot.
    pub fn open_dashboard(&self) -> Option<Dashboard> {
        let (slots, connection) = (&self.slots, &self.connection);
        if connection.is_evicted()
            || connection.class.get() == Class::Dashboard
            || !slots.make_room(Class::Dashboard, slots.limits.dashboards, connection.peer)
        {
            return None;
        }
        connection.class.set(Class::Dashboard);
        Some(Dashboard(self.clone()))
    }
}

/// A dashboard slot.
pub struct Dashboard(Visitor);

impl Drop for Dashboard {
    fn drop(&mut self) {
        let Visitor { slots, connection } = &self.0;
        // The connection is closing, which may take a while.
        connection.enter(Phase::Stalled);
        connection.class.set(Class::Unauthenticated);
        if slots.count(Class::Unauthenticated, None) > slots.limits.unauthenticated {
            slots.connections.borrow_mut().remove(&connection.id);
            connection.evict();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    fn slots(unauthenticated: usize, active: usize, dashboards: usize) -> Rc<Slots> {
        let limits = Limits {
            unauthenticated,
            active,
            dashboards,
        };
        Slots::new(limits, Arc::default(), || {})
    }

    fn host(number: u8) -> Peer {
        Peer::new(Ipv4Addr::new(192, 0, 2, number).into(), None)
    }

    fn gone(slots: &[&Slot]) -> Vec<bool> {
        slots
            .iter()
            .map(|slot| slot.connection.is_evicted())
            .collect()
    }

    #[test]
    fn the_address_with_the_most_gives_way_and_of_its_connections_the_longest_idle() {
        let all = slots(3, 1, 1);
        let lone = all.admit(host(1)).unwrap();
        let first = all.admit(host(2)).unwrap();
        let second = all.admit(host(2)).unwrap();
        first.connection.enter(Phase::Working);
        let _new = all.admit(host(3)).unwrap();
        assert_eq!(gone(&[&lone, &first, &second]), [false, false, true]);
    }

    #[test]
    fn work_is_interrupted_only_for_somebody_who_has_less() {
        let all = slots(2, 1, 1);
        let one = all.admit(host(1)).unwrap();
        let two = all.admit(host(1)).unwrap();
        one.connection.enter(Phase::Working);
        two.connection.enter(Phase::Working);
        assert!(all.admit(host(1)).is_none());
        let other = all.admit(host(2)).unwrap();
        assert_eq!(gone(&[&one, &two, &other]), [true, false, false]);
        other.connection.enter(Phase::Working);
        assert!(all.admit(host(3)).is_none(), "everybody has one");
    }

    #[test]
    fn strangers_never_take_the_place_of_a_guest_or_a_dashboard() {
        let all = slots(1, 1, 1);
        let guest = all.admit(host(1)).unwrap();
        guest.visitor().mark_active();
        let dashboard = all.admit(host(1)).unwrap();
        let _open = dashboard.visitor().open_dashboard().unwrap();
        let crowd: Vec<_> = (0..200)
            .filter_map(|number| all.admit(host(number)))
            .collect();
        assert_eq!(crowd.len(), 200);
        assert_eq!(gone(&[&guest, &dashboard]), [false, false]);
        let still_there = crowd
            .iter()
            .filter(|slot| !slot.connection.is_evicted())
            .count();
        assert_eq!(still_there, 1);
    }

    #[test]
    fn one_address_cannot_keep_all_dashboards() {
        let all = slots(9, 9, 2);
        let open = |number| {
            let slot = all.admit(host(number)).unwrap();
            let dashboard = slot.visitor().open_dashboard();
            (slot, dashboard)
        };
        let (older, _a) = open(1);
        let (newer, _b) = open(1);
        assert!(open(1).1.is_none(), "it has its share already");
        let (other, dashboard) = open(2);
        assert!(dashboard.is_some());
        assert_eq!(gone(&[&older, &newer, &other]), [false, true, false]);
        assert!(open(3).1.is_none(), "everybody has one");
    }

    #[test]
    fn a_closing_dashboard_counts_as_a_stranger() {
        let all = slots(1, 1, 8);
        let lingering: Vec<_> = (0..8)
            .map(|_| {
                let slot = all.admit(host(1)).unwrap();
                drop(slot.visitor().open_dashboard().unwrap());
                slot
            })
            .collect();
        let kept = lingering
            .iter()
            .filter(|slot| !slot.connection.is_evicted());
        assert!(kept.count() <= 1);
    }

    #[test]
    fn a_network_of_ipv6_is_one_and_on_this_host_a_user_is() {
        let at = |address: &str| Peer::new(address.parse().unwrap(), None);
        assert_eq!(at("2001:db8:0:7::1"), at("2001:db8:0:7::ffff:2"));
        assert_ne!(at("2001:db8:0:7::1"), at("2001:db8:0:8::1"));
        assert_eq!(at("::ffff:192.0.2.1"), host(1));
        assert_ne!(host(2), host(1));
        let of = |address: &str, user| Peer::new(address.parse().unwrap(), Some(user));
        assert_eq!(of("127.0.0.1", 7), of("127.9.9.9", 7));
        assert_eq!(of("::1", 7), of("::ffff:127.0.0.1", 7));
        assert_eq!(of("127.0.0.1", 7), of("192.0.2.1", 7), "its other address");
        assert_ne!(of("127.0.0.1", 7), of("127.0.0.1", 8));
        assert_eq!(at("127.0.0.1"), at("127.9.9.9"));
    }

    proptest! {
        /// No order of events exceeds a budget.
        #[test]
        fn no_budget_is_ever_exceeded(steps in prop::collection::vec((0u8..6, 0u8..5, 0usize..40), 0..300)) {
            let limits = Limits { unauthenticated: 5, active: 3, dashboards: 2 };
            let all = Slots::new(limits, Arc::default(), || {});
            let mut inside: Vec<(Slot, Option<Dashboard>)> = Vec::new();
            for (action, address, which) in steps {
                let chosen = which % inside.len().max(1);
                match action {
                    0 => inside.extend(all.admit(host(address)).map(|slot| (slot, None))),
                    1 if !inside.is_empty() => drop(inside.swap_remove(chosen)),
                    2 if !inside.is_empty() => inside[chosen].0.visitor().mark_active(),
                    3 if !inside.is_empty() => {
                        let opened = inside[chosen].0.visitor().open_dashboard();
                        if opened.is_some() {
                            inside[chosen].1 = opened;
                        }
                    }
                    4 if !inside.is_empty() => inside[chosen].1 = None,
                    5 if !inside.is_empty() => inside[chosen].0.connection.enter(Phase::Working),
                    _ => {}
                }
                // An evicted connection leaves as soon as its task runs.
                inside.retain(|(slot, _)| !slot.connection.is_evicted());
                prop_assert!(all.count(Class::Unauthenticated, None) <= limits.unauthenticated);
                prop_assert!(all.count(Class::Active, None) <= limits.active);
                prop_assert!(all.count(Class::Dashboard, None) <= limits.dashboards);
                prop_assert_eq!(all.connections.borrow().len(), inside.len());
            }
        }
    }
}
