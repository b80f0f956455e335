//! A fair queue: which request is worked on, which wait, and which are refused. Used for password
//! checks and for questions about the past.
//!
//! Peers take turns: each has its own queue, of which only the first request stands in the
//! worker's queue. A peer that fills its queue delays another by one request, not by all. Places
//! and turns are guards: however a request ends, its place becomes free. This file knows nothing of
//! the work.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::admission::Peer;

/// Waiting requests of all peers together; bounds their memory.
const MAX_WAITING: usize = 128;
/// Waiting requests of one peer: more than a browser's connections to one host.
const MAX_WAITING_OF_ONE: usize = 8;
/// Requests that are worked on at the same time.
const WORKERS: usize = 1;

/// The queues and the worker.
#[derive(Debug, Clone)]
pub struct FairQueue(Arc<Queues>);

#[derive(Debug)]
struct Queues {
    places: Arc<Semaphore>,
    workers: Arc<Semaphore>,
    by_peer: Mutex<HashMap<Option<Peer>, PeerQueue>>,
}

/// The queue of one peer.
#[derive(Debug)]
struct PeerQueue {
    first: Arc<Semaphore>,
    waiting: usize,
}

/// A place in a queue.
#[derive(Debug)]
pub struct QueuePlace {
    queues: Arc<Queues>,
    peer: Option<Peer>,
    first: Arc<Semaphore>,
    _place: OwnedSemaphorePermit,
}

/// The right to work now. It belongs to the work, not to the request: work that outlives its
/// request still counts.
#[derive(Debug)]
pub struct WorkPermit {
    _worker: OwnedSemaphorePermit,
    _first: OwnedSemaphorePermit,
    _place: QueuePlace,
}

impl FairQueue {
    /// An empty queue.
    pub fn new() -> Self {
        FairQueue(Arc::new(Queues {
            places: Arc::new(Semaphore::new(MAX_WAITING)),
            workers: Arc::new(Semaphore::new(WORKERS)),
            by_peer: Mutex::default(),
        }))
    }

    /// A place for a request of this peer; `None` if none is left for it.
    pub fn place(&self, peer: Option<Peer>) -> Option<QueuePlace> {
        let place = self.0.places.clone().try_acquire_owned().ok()?;
        let mut queues = self.0.lock();
        let queue = queues.entry(peer).or_insert_with(|| PeerQueue {
            first: Arc::new(Semaphore::new(1)),
            waiting: 0,
        });
        if queue.waiting == MAX_WAITING_OF_ONE {
            return None;
        }
        queue.waiting += 1;
        Some(QueuePlace {
            first: queue.first.clone(),
            queues: self.0.clone(),
            peer,
            _place: place,
        })
    }
}

impl Default for FairQueue {
    fn default() -> Self {
        FairQueue::new()
    }
}

impl Queues {
    fn lock(&self) -> MutexGuard<'_, HashMap<Option<Peer>, PeerQueue>> {
        // Each change is one step; none can be left half done.
        self.by_peer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueuePlace {
    /// Waits for the turn. Dropping the future frees the place.
    pub async fn turn(self) -> Option<WorkPermit> {
        let first = self.first.clone().acquire_owned().await.ok()?;
        let worker = self.queues.workers.clone().acquire_owned().await.ok()?;
        Some(WorkPermit {
            _worker: worker,
            _first: first,
            _place: self,
        })
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        if let Entry::Occupied(mut queue) = self.queues.lock().entry(self.peer) {
            queue.get_mut().waiting -= 1;
            if queue.get().waiting == 0 {
                queue.remove();
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::future::{Future, poll_fn};
    use std::pin::Pin;
    use std::task::Poll;

    use proptest::prelude::*;

    use super::*;

    impl FairQueue {
        /// Whether no place or turn is held, and no peer remembered.
        pub fn are_free(&self) -> bool {
            self.0.places.available_permits() == MAX_WAITING
                && self.0.workers.available_permits() == WORKERS
                && self.0.lock().is_empty()
        }
    }

    /// Polls a future once.
    pub async fn poll_once<F: Future>(future: &mut Pin<Box<F>>) -> Option<F::Output> {
        poll_fn(|context| {
            Poll::Ready(match future.as_mut().poll(context) {
                Poll::Ready(value) => Some(value),
                Poll::Pending => None,
            })
        })
        .await
    }

    fn peer(last: u8) -> Option<Peer> {
        Some(Peer::new([192, 0, 2, last].into(), None))
    }

    #[actix_web::test]
    async fn one_address_cannot_take_every_place() {
        let turns = FairQueue::new();
        let taken: Vec<_> = (0..MAX_WAITING_OF_ONE)
            .map(|_| turns.place(peer(1)).expect("a place"))
            .collect();
        assert!(turns.place(peer(1)).is_none());
        assert!(turns.place(peer(2)).is_some());
        drop(taken);
        assert!(turns.are_free());
    }

    #[actix_web::test]
    async fn all_addresses_together_have_so_many_places_and_no_more() {
        let turns = FairQueue::new();
        let all: Vec<_> = (0..=u8::MAX)
            .filter_map(|last| turns.place(peer(last)))
            .collect();
        assert_eq!(all.len(), MAX_WAITING);
        drop(all);
        assert!(turns.are_free());
    }

    #[actix_web::test]
    async fn an_address_waits_for_one_check_of_another_and_not_for_all() {
        let turns = FairQueue::new();
        let mut many: Vec<_> = (0..MAX_WAITING_OF_ONE)
            .map(|_| Box::pin(turns.place(peer(1)).expect("a place").turn()))
            .collect();
        let first = poll_once(&mut many[0]).await.flatten().expect("at once");
        for waiting in &mut many[1..] {
            assert!(poll_once(waiting).await.is_none());
        }
        let mut other = Box::pin(turns.place(peer(2)).expect("a place").turn());
        assert!(poll_once(&mut other).await.is_none());
        drop(first);
        assert!(poll_once(&mut other).await.flatten().is_some());
    }

    proptest! {
        /// A step polls a request or drops it, in any state: waiting, chosen, or working.
        #[test]
        fn however_requests_end_every_place_is_free_and_never_two_work_at_once(
            addresses in proptest::collection::vec(0_u8..4, 1..24),
            steps in proptest::collection::vec((0_usize..24, 0_u8..4), 0..200),
        ) {
            actix_web::rt::System::new().block_on(async {
                let turns = FairQueue::new();
                let mut waiting: Vec<_> = addresses
                    .iter()
                    .map(|last| turns.place(peer(*last)).map(|place| Box::pin(place.turn())))
                    .collect();
                let mut working: Vec<Option<WorkPermit>> = addresses.iter().map(|_| None).collect();
                for (index, action) in steps {
                    let index = index % addresses.len();
                    if action == 0 {
                        waiting[index] = None;
                        working[index] = None;
                    } else if let Some(request) = &mut waiting[index]
                        && let Some(turn) = poll_once(request).await
                    {
                        working[index] = turn;
                        waiting[index] = None;
                    }
                    let at_work = working.iter().flatten().count();
                    assert!(at_work <= WORKERS, "{at_work} at work");
                }
                drop((waiting, working));
                assert!(turns.are_free());
            });
        }
    }
}
