//! Applies the accounts to connections: places, bytes and turns as guards. However a request ends,
//! what it took is free again; a connection that gave way notices at its next step.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use actix_web::web::{self, Bytes};
use netto_pipeline::profile::MOST_PROFILES;
use netto_sys::system::thread_cpu_ns;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout_at;

use super::accounts::{Known, PAUSES, Pool, Turns, Waits};
use super::connection::{Connection, Phase};
use super::peer::{Peer, Standing};

/// How much of each resource there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// New and refused connections.
    pub unauthenticated: usize,
    /// Connections that got a successful response.
    pub active: usize,
    /// WebSockets.
    pub dashboards: usize,
    /// Bytes of answers.
    pub bytes: usize,
}

/// What is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resource {
    Unauthenticated,
    Active,
    Dashboard,
    Profile,
    Bytes,
}

/// What takes CPU time off the event loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// A password's check.
    Password,
    /// An answer to a question.
    Question,
}

/// What all connections hold.
pub struct Accounts {
    pools: RefCell<[Pool; 5]>,
    known: RefCell<Known>,
    queues: [Queue; 2],
    /// A profile whose place was given away counts until it has ended.
    profiles: Arc<Semaphore>,
    evictions: Arc<AtomicU64>,
    when_left: Box<dyn Fn()>,
}

struct Queue {
    turns: RefCell<Turns>,
    changed: Notify,
}

impl Accounts {
    /// Nothing is held; `evictions` counts connections that give way, `when_left` is called whenever
    /// one has ended.
    pub fn new(
        limits: Limits,
        evictions: Arc<AtomicU64>,
        when_left: impl Fn() + 'static,
    ) -> Rc<Accounts> {
        Rc::new(Accounts {
            pools: RefCell::new([
                Pool::new(limits.unauthenticated, Waits::WithConnection),
                Pool::new(limits.active, Waits::WithConnection),
                Pool::new(limits.dashboards, Waits::Never),
                Pool::new(MOST_PROFILES, Waits::Never),
                Pool::new(limits.bytes, Waits::WhenOld),
            ]),
            known: RefCell::default(),
            queues: PAUSES.map(|pause| Queue {
                turns: RefCell::new(Turns::new(pause)),
                changed: Notify::new(),
            }),
            profiles: Arc::new(Semaphore::new(MOST_PROFILES)),
            evictions,
            when_left: Box::new(when_left),
        })
    }

    /// Admits a new, unauthenticated connection; `None` if none gives way to it.
    pub fn admit(self: &Rc<Self>, peer: Peer) -> Option<Slot> {
        let standing = self.known.borrow().standing(peer);
        let connection = Rc::new(Connection::new(peer, standing));
        let visitor = Visitor {
            accounts: self.clone(),
            connection,
            place: Rc::default(),
        };
        if !visitor.move_to(Resource::Unauthenticated) {
            self.evictions.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(Slot(visitor))
    }
}

/// A part of a resource that a connection holds.
pub struct Held {
    accounts: Rc<Accounts>,
    resource: Resource,
    number: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut pools = self.accounts.pools.borrow_mut();
        pools[self.resource as usize].release(self.number);
    }
}

/// A connection's place, held while the connection lives.
pub struct Slot(Visitor);

impl Slot {
    /// The connection's state, shared with the handlers of its requests.
    pub fn connection(&self) -> &Rc<Connection> {
        &self.0.connection
    }

    /// Runs work that may take a while; `None` if the connection was evicted meanwhile.
    pub async fn unless_evicted<F: Future>(&self, work: F) -> Option<F::Output> {
        let mut work = pin!(work);
        poll_fn(|cx| {
            self.connection().register(cx.waker());
            if self.connection().is_evicted() {
                return Poll::Ready(None);
            }
            work.as_mut().poll(cx).map(Some)
        })
        .await
    }

    /// The connection for the handlers of its requests.
    pub fn visitor(&self) -> Visitor {
        self.0.clone()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.place.take();
        (self.0.accounts.when_left)();
    }
}

/// The connection as its request handlers see it.
#[derive(Clone)]
pub struct Visitor {
    accounts: Rc<Accounts>,
    connection: Rc<Connection>,
    place: Rc<RefCell<Option<Held>>>,
}

impl Visitor {
    /// The connection.
    pub fn connection(&self) -> &Rc<Connection> {
        &self.connection
    }

    fn take(&self, resource: Resource, amount: usize, body: Option<&Bytes>) -> Option<Held> {
        if self.connection.is_evicted() {
            return None;
        }
        let body = body.map(|body| (body.as_ptr() as usize, body.len()));
        let mut pools = self.accounts.pools.borrow_mut();
        let pool = &mut pools[resource as usize];
        let (number, ended) = pool.take(&self.connection, amount, body, Instant::now())?;
        for connection in ended.iter().filter(|ended| !ended.is_evicted()) {
            connection.evict();
            self.accounts.evictions.fetch_add(1, Ordering::Relaxed);
        }
        Some(Held {
            accounts: self.accounts.clone(),
            resource,
            number,
        })
    }

    /// Moves the connection to another kind of place, if there is one.
    fn move_to(&self, resource: Resource) -> bool {
        let Some(place) = self.take(resource, 1, None) else {
            return false;
        };
        drop(self.place.replace(Some(place)));
        true
    }

    fn is_at(&self, resource: Resource) -> bool {
        let place = self.place.borrow();
        place.as_ref().is_some_and(|held| held.resource == resource)
    }

    /// Marks the connection as active after a successful response, and remembers its peer.
    pub fn mark_active(&self) {
        let peer = self.connection.peer;
        let standing = self.connection.standing.get().max(Standing::Known);
        self.accounts.known.borrow_mut().remember(peer);
        self.connection.standing.set(standing);
        if self.is_at(Resource::Unauthenticated) {
            self.move_to(Resource::Active);
        }
    }

    /// Makes it a dashboard while the result lives; `None` if there is no place.
    pub fn open_dashboard(&self) -> Option<Dashboard> {
        let may = !self.is_at(Resource::Dashboard) && self.move_to(Resource::Dashboard);
        may.then(|| Dashboard(self.clone()))
    }

    /// Holds these bytes, which others may hold, too; `None` if there is no room for them.
    pub fn hold(&self, body: &Bytes) -> Option<Held> {
        self.take(Resource::Bytes, body.len(), Some(body))
    }

    /// Holds so many bytes; `None` if there is no room for them.
    pub fn hold_bytes(&self, bytes: usize) -> Option<Held> {
        self.take(Resource::Bytes, bytes, None)
    }

    /// A place for a profile, to be dropped after its recording; `None` if there is none.
    pub async fn profile(&self) -> Option<(Held, OwnedSemaphorePermit)> {
        let held = self.take(Resource::Profile, 1, None)?;
        let permit = self.accounts.profiles.clone().acquire_owned().await.ok()?;
        Some((held, permit))
    }

    /// Waits until the client has closed its end.
    pub async fn hung_up(&self) {
        self.connection.has_hung_up.set(false);
        self.connection.is_watched.set(true);
        self.connection.wake();
        // The gate sees it in the same task.
        let has_hung_up = || self.connection.has_hung_up.get();
        poll_fn(|_| {
            if has_hung_up() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }

    /// Works when the peer's turn has come, off the event loop; the CPU time is the peer's if
    /// `is_paid` of the result. `None` if the work was not finished. Work that has begun is finished
    /// and counts, even if its client has gone.
    pub async fn in_turn<T: Send + 'static>(
        &self,
        kind: Work,
        work: impl FnOnce() -> T + Send + 'static,
        is_paid: fn(&T) -> bool,
    ) -> Option<T> {
        let Connection { peer, standing, .. } = &*self.connection;
        let queue = &self.accounts.queues[kind as usize];
        let mut turn = Turn {
            number: queue.turns.borrow_mut().wait(*peer, standing.get()),
            visitor: self.clone(),
            kind,
            cpu: None,
        };
        self.connection.enter(Phase::Queued);
        while turn.cpu.is_none() {
            let changed = queue.changed.notified();
            let begun = queue.turns.borrow_mut().begin(turn.number, Instant::now());
            match begun {
                Ok(()) => turn.cpu = Some(Duration::ZERO),
                Err(Some(until)) => drop(timeout_at(until.into(), changed).await),
                Err(None) => changed.await,
            }
        }
        self.connection.enter(Phase::Working);
        let (tell, outcome) = oneshot::channel();
        actix_web::rt::spawn(async move {
            let done = web::block(move || {
                let begun_ns = thread_cpu_ns();
                let result = work();
                let cpu_ns = thread_cpu_ns().saturating_sub(begun_ns);
                (result, Duration::from_nanos(cpu_ns))
            });
            if let Ok((result, cpu)) = done.await {
                if is_paid(&result) {
                    turn.cpu = Some(cpu);
                }
                drop(turn);
                // Receiver dropped; ignore.
                let _ = tell.send(result);
            }
        });
        outcome.await.ok()
    }
}

/// The right to work, once it has come. It belongs to the work, not to the request.
struct Turn {
    visitor: Visitor,
    kind: Work,
    number: u64,
    /// What the work took, once it has begun.
    cpu: Option<Duration>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let queue = &self.visitor.accounts.queues[self.kind as usize];
        let mut turns = queue.turns.borrow_mut();
        match self.cpu {
            Some(cpu) => turns.end(self.visitor.connection.peer, cpu, Instant::now()),
            None => turns.leave(self.number),
        }
        queue.changed.notify_waiters();
    }
}

/// A dashboard's place.
pub struct Dashboard(Visitor);

impl Dashboard {
    /// Holds so many bytes that the client has not confirmed; `None` if there is no room for them.
    pub fn hold(&self, bytes: usize) -> Option<Held> {
        self.0.hold_bytes(bytes)
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        // The connection is closing, which may take a while.
        self.0.connection.enter(Phase::Stalled);
        if self.0.is_at(Resource::Dashboard) && !self.0.move_to(Resource::Unauthenticated) {
            self.0.connection.evict();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
