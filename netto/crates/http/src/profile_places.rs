//! The places of profiles that are being recorded, shared by peer: a peer may have all that nobody
//! else wants. As among dashboards, the peer with the most gives its newest to one that has fewer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use netto_pipeline::profile::MOST_PROFILES;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::admission::Peer;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct ProfilePlaces {
    /// In the order in which they were taken.
    taken: Mutex<Vec<Taken>>,
    /// One that was given away is free once its recording has ended.
    free: Arc<Semaphore>,
}

#[derive(Debug, Clone)]
struct Taken {
    peer: Option<Peer>,
    given_away: Arc<Notify>,
}

/// A place; to be dropped after the recording.
#[derive(Debug)]
pub(crate) struct ProfilePlace<'a> {
    places: &'a ProfilePlaces,
    given_away: Arc<Notify>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Default for ProfilePlaces {
    fn default() -> Self {
        ProfilePlaces {
            taken: Mutex::default(),
            free: Arc::new(Semaphore::new(MOST_PROFILES)),
        }
    }
}

impl ProfilePlaces {
    fn lock(&self) -> MutexGuard<'_, Vec<Taken>> {
        // Each change is one step; none can be left half done.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a request of this peer; `None` if none is left for it.
    pub(crate) async fn place(&self, peer: Option<Peer>) -> Option<ProfilePlace<'_>> {
        let own = Taken {
            peer,
            given_away: Arc::default(),
        };
        let mut place = ProfilePlace {
            places: self,
            given_away: own.given_away.clone(),
            permit: None,
        };
        {
            let mut taken = self.lock();
            if taken.len() >= MOST_PROFILES {
                let given = to_give_away(&taken, own.peer)?;
                taken.remove(given).given_away.notify_one();
            }
            taken.push(own);
        }
        place.permit = Some(self.free.clone().acquire_owned().await.ok()?);
        Some(place)
    }
}

/// The place that a peer gives to this one.
fn to_give_away(taken: &[Taken], newcomer: Option<Peer>) -> Option<usize> {
    let held = |peer| taken.iter().filter(|own| own.peer == peer).count();
    let own = held(newcomer);
    (0..taken.len())
        .filter(|&at| held(taken[at].peer) > own + 1)
        .max_by_key(|&at| (held(taken[at].peer), at))
}

impl ProfilePlace<'_> {
    /// Waits until it is given to another peer.
    pub(crate) async fn given_away(&self) {
        self.given_away.notified().await;
    }
}

impl Drop for ProfilePlace<'_> {
    fn drop(&mut self) {
        let is_other = |own: &Taken| !Arc::ptr_eq(&own.given_away, &self.given_away);
        self.places.lock().retain(is_other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair_queue::tests::poll_once;

    fn from(last: u8) -> Option<Peer> {
        Some(Peer::new([192, 0, 2, last].into(), None))
    }

    #[actix_web::test]
    async fn one_peer_has_all_places_until_another_wants_some() {
        let places = ProfilePlaces::default();
        let mut held = Vec::new();
        for _ in 0..MOST_PROFILES {
            held.push(places.place(from(1)).await.unwrap());
        }
        assert!(places.place(from(1)).await.is_none(), "its own are enough");
        let mut others = Vec::new();
        for _ in 0..2 {
            let mut other = Box::pin(places.place(from(2)));
            assert!(
                poll_once(&mut other).await.is_none(),
                "it waits for the end"
            );
            let newest = held.pop().unwrap();
            newest.given_away().await;
            drop(newest);
            others.push(other.await.unwrap());
        }
        assert!(places.place(from(2)).await.is_none(), "both have half");
        let third = places.place(from(3));
        assert!(poll_once(&mut Box::pin(third)).await.is_none(), "it waits");
        drop((held, others));
        assert!(
            places.lock().is_empty(),
            "who goes while waiting leaves nothing"
        );
        assert!(places.place(None).await.is_some());
    }
}
